"""Call recognizers and the forced aligner as functions of token ids and audio."""

import math
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from alignatt_agent.engine.greedy import fetch, greedy, stop_ids, strip_stop
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import FloatArray
from alignatt_agent.types.engines import Answer

# There is no speech if both thresholds, which are OpenAI's, are met. With Whisper base, the
# no-speech token had a probability of 0.5 to 0.9 in noise, music and silence, but also up to 0.67
# in 5 to 14 s of speech in a hall (mean log-probability: -0.4 to -0.9).
NO_SPEECH = math.log(0.6)
"""Smallest log-probability of the no-speech token without speech."""

UNSURE = -1.0
"""Upper limit of the transcript's mean log-probability without speech."""

KEPT = 32
"""Number of audio segments whose features are kept: one per concurrent stream."""


class Features:
    """Computes features with a ``Qwen3ASRProcessor``, in the form that vLLM accepts unchanged.

    Features are kept, because the recognizer and the forced aligner receive the same audio in turn,
    and a transcript whose verification fails is requested again.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[FloatArray, Mapping[str, Any]]] = OrderedDict()

    def of(self, processor: Any) -> "Features":
        """Return this object, or a new one if the feature extractor of ``processor`` differs."""
        extractor = self._processor.feature_extractor
        if extractor.to_json_string() == processor.feature_extractor.to_json_string():
            return self
        return Features(processor)

    def __call__(self, audio: FloatArray) -> Mapping[str, Any]:
        """Return vLLM's fields: features, ``[mels, frames]``, their mask, and the number of frames.

        Arrays are compared by identity, so callers must not change them afterwards.
        """
        # The array is stored with its features: no other array can have its id meanwhile.
        entry = self._kept.get(id(audio))
        if entry is not None:
            return entry[1]
        features = self._extract(audio)
        with self._lock:
            self._kept[id(audio)] = (audio, features)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return features

    def _extract(self, audio: FloatArray) -> Mapping[str, Any]:
        # Like vLLM, pass one placeholder and the audio.
        inputs = self._processor(text=self._processor.audio_token, audio=audio, return_tensors="pt")
        mask = inputs["input_features_mask"]
        in_audio = mask[0].bool()
        return {
            "input_audio_features": inputs["input_features"][0][:, in_audio],
            "feature_attention_mask": mask,
            "audio_feature_lengths": in_audio.sum()[None],
        }


class AudioModel:
    """A served model that continues a prompt with audio."""

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._stops = stop_ids(model)
        self.name = model.name
        self.tokenizer = model.tokenizer()

    def generate(
        self,
        token_ids: Sequence[int],
        audio: FloatArray,
        max_tokens: int,
        expected: Sequence[int] = (),
    ) -> Answer:
        """Continue ``token_ids`` greedily.

        Args:
            token_ids: the prompt, with a placeholder for the audio.
            audio: ``[samples]``.
            max_tokens: maximum length of the answer.
            expected: the probable start of the answer. It is verified in the prefill; if the
                model's tokens differ, a second request decodes from the first difference. The
                answer is the same, except for numerical differences between prefill and decoding.
        """
        unverified = list(expected)[: max_tokens - 1]  # the engine always samples a token
        if not unverified:
            return self._decoded(token_ids, audio, max_tokens)
        key = uuid.uuid4().hex
        sampling = greedy(
            max_tokens - len(unverified), self._stops, {"key": key, "expected": unverified}
        )
        request = self._request([*token_ids, *unverified], audio)
        output = self._model.generate(request, sampling)
        steps = len(output.outputs[0].token_ids)
        capture = fetch(self._model, key)
        verified = unverified[: capture.agreed]
        if capture.agreed == len(unverified):
            tokens, ended = strip_stop(output, self._stops)
            return Answer((*verified, *tokens), ended, steps)
        if capture.next_token in self._stops:
            return Answer(tuple(verified), True, steps)
        # ``None`` marks a position that was not computed and must be decoded.
        if capture.next_token is not None:
            verified.append(capture.next_token)
        rest = self._decoded([*token_ids, *verified], audio, max_tokens - len(verified))
        return Answer(
            token_ids=(*verified, *rest.token_ids),
            ended=rest.ended,
            steps=steps + rest.steps,
            requests=2,
        )

    def _decoded(self, token_ids: Sequence[int], audio: FloatArray, max_tokens: int) -> Answer:
        """Continue ``token_ids`` greedily in one request without expected tokens."""
        request = self._request([*token_ids], audio)
        output = self._model.generate(request, greedy(max_tokens, self._stops))
        tokens, ended = strip_stop(output, self._stops)
        return Answer(tuple(tokens), ended, steps=len(output.outputs[0].token_ids))

    def _request(self, token_ids: list[int], audio: Any) -> dict[str, Any]:
        return {"prompt_token_ids": token_ids, "multi_modal_data": {"audio": audio}}


class SpeechModel(AudioModel):
    """The served Qwen3-ASR."""

    def __init__(self, model: ServedModel) -> None:
        super().__init__(model)
        self.processor = model.processor()
        self.features = Features(self.processor)

    def _request(self, token_ids: list[int], audio: FloatArray) -> dict[str, Any]:
        return super()._request(token_ids, self.features(audio))


class EncoderDecoderModel(AudioModel):
    """A served encoder-decoder model for audio: Whisper."""

    def __init__(self, model: ServedModel) -> None:
        super().__init__(model)
        model.take_decoder_prompts_whole()
        vocabulary = self.tokenizer.get_vocab()
        self._begin = vocabulary.get("<|startoftranscript|>")
        self._no_speech = vocabulary.get("<|nospeech|>", vocabulary.get("<|nocaptions|>"))

    def generate(
        self, token_ids: Sequence[int], audio: Any, max_tokens: int, expected: Sequence[int] = ()
    ) -> Answer:
        """Continue ``token_ids`` greedily; the answer is empty if there is no speech.

        Without speech, the no-speech token is likely at the position of the language token.
        """
        request = {
            "encoder_prompt": {"prompt": "", "multi_modal_data": {"audio": audio}},
            "decoder_prompt": {"prompt_token_ids": list(token_ids)},
        }
        sampling = greedy(max_tokens, self._stops)
        sampling.prompt_logprobs = 1  # for the prompt's token and the most likely token
        sampling.logprobs = 0  # for the sum over the transcript
        output = self._model.generate(request, sampling)
        tokens, ended = strip_stop(output, self._stops)
        language_position = token_ids.index(self._begin) + 1
        no_speech = output.prompt_logprobs[language_position].get(self._no_speech)
        completion = output.outputs[0]
        steps = len(completion.token_ids)
        mean = completion.cumulative_logprob / (len(tokens) + 1)  # plus the end-of-text token
        # vLLM returns the prompt's token and the most likely one, so this token may be missing.
        if no_speech is not None and no_speech.logprob >= NO_SPEECH and mean < UNSURE:
            return Answer((), True, steps)
        return Answer(tuple(tokens), ended, steps)


class TimingModel:
    """The served forced aligner, which scores time bins of ``bin_ms`` milliseconds for every token.

    ``features`` are shared with the recognizer, which receives the same audio.
    """

    def __init__(self, model: ServedModel, features: Features | None = None) -> None:
        self._model = model
        self.tokenizer = model.tokenizer()
        self.processor = model.processor()
        if features is None:
            self._features = Features(self.processor)
        else:
            self._features = features.of(self.processor)
        bin_ms = getattr(model.config.hf_config, "timestamp_segment_time", None)
        self.bin_ms = float(bin_ms or 80)
        self.timestamp_id: int = self.tokenizer.convert_tokens_to_ids("<timestamp>")

    def bins(self, token_ids: list[int], audio: FloatArray) -> list[int]:
        """Return the most likely time bin at each timestamp token of ``token_ids``."""
        from vllm.pooling_params import PoolingParams

        features = self._features(audio)
        prompt = {"prompt_token_ids": token_ids, "multi_modal_data": {"audio": features}}
        pooling = PoolingParams(task="token_classify", use_activation=False)
        output = self._model.encode(prompt, pooling)
        logits = output.outputs.data
        at = np.asarray(output.prompt_token_ids) == self.timestamp_id
        best: list[int] = logits[at].argmax(-1).tolist()
        return best
