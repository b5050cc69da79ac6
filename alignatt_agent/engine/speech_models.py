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

NO_SPEECH, UNSURE = math.log(0.6), -1.0
"""OpenAI's thresholds: there is no speech if the no-speech token is likely and the transcript's
mean log-probability is low. With Whisper base, the token had a probability of 0.5 to 0.9 in noise,
music and silence, but also up to 0.67 in 5 to 14 s of speech in a hall (mean: -0.4 to -0.9)."""

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
        ours, others = self._processor.feature_extractor, processor.feature_extractor
        same = ours.to_json_string() == others.to_json_string()
        return self if same else Features(processor)

    def __call__(self, audio: FloatArray) -> Mapping[str, Any]:
        """Return vLLM's fields: features, ``[mels, frames]``, their mask, and the number of frames.

        Arrays are compared by identity, so callers must not change them afterwards.
        """
        known = self._kept.get(id(audio))  # a kept array's id is unique
        if known is None:
            known = audio, self._extract(audio)
            with self._lock:
                self._kept[id(audio)] = known
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return known[1]

    def _extract(self, audio: FloatArray) -> Mapping[str, Any]:
        # Like vLLM, pass one placeholder and the audio.
        found = self._processor(text=self._processor.audio_token, audio=audio, return_tensors="pt")
        mask = found["input_features_mask"]
        heard = mask[0].bool()
        return {
            "input_audio_features": found["input_features"][0][:, heard],
            "feature_attention_mask": mask,
            "audio_feature_lengths": heard.sum()[None],
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
        kept: list[int] = []
        known = list(expected)[: max_tokens - 1]  # the engine always samples a token
        steps = requests = 0
        while True:
            key, rest = uuid.uuid4().hex, max_tokens - len(kept) - len(known)
            asked = {"key": key, "expected": known} if known else None
            request = self._request([*token_ids, *kept, *known], audio)
            output = self._model.generate(request, greedy(rest, self._stops, asked))
            requests += 1
            steps += len(output.outputs[0].token_ids)
            tokens, ended = strip_stop(output, self._stops)
            found = fetch(self._model, key) if known else None
            if found is None or found.agreed == len(known):
                return Answer((*kept, *known, *tokens), ended, steps, requests)
            kept, known = known[: found.agreed], []
            if found.next_token in self._stops:
                return Answer(tuple(kept), True, steps, requests)
            # ``None`` marks a position that was not computed and must be decoded.
            kept += [] if found.next_token is None else [found.next_token]

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
        heard = {"prompt": "", "multi_modal_data": {"audio": audio}}
        decoder = {"prompt_token_ids": list(token_ids)}
        sampling = greedy(max_tokens, self._stops)
        sampling.prompt_logprobs = 1  # for the prompt's token and the most likely token
        sampling.logprobs = 0  # for the sum over the transcript
        request = {"encoder_prompt": heard, "decoder_prompt": decoder}
        output = self._model.generate(request, sampling)
        tokens, ended = strip_stop(output, self._stops)
        silent = output.prompt_logprobs[token_ids.index(self._begin) + 1].get(self._no_speech)
        answer = output.outputs[0]
        mean = answer.cumulative_logprob / (len(tokens) + 1)  # plus the end-of-text token
        if silent is not None and silent.logprob >= NO_SPEECH and mean < UNSURE:
            tokens, ended = [], True
        return Answer(tuple(tokens), ended, len(answer.token_ids), 1)


class TimingModel:
    """The served forced aligner, which scores time bins of ``bin_ms`` milliseconds for every token.

    ``features`` are shared with the recognizer, which receives the same audio.
    """

    def __init__(self, model: ServedModel, features: Features | None = None) -> None:
        self._model = model
        self.tokenizer = model.tokenizer()
        self.processor = model.processor()
        self._features = features.of(self.processor) if features else Features(self.processor)
        self.bin_ms = float(getattr(model.config.hf_config, "timestamp_segment_time", None) or 80)
        self.timestamp_id: int = self.tokenizer.convert_tokens_to_ids("<timestamp>")

    def bins(self, token_ids: list[int], audio: FloatArray) -> list[int]:
        """Return the most likely time bin at each timestamp token of ``token_ids``."""
        from vllm.pooling_params import PoolingParams

        heard = self._features(audio)
        prompt = {"prompt_token_ids": token_ids, "multi_modal_data": {"audio": heard}}
        output = self._model.encode(
            prompt, PoolingParams(task="token_classify", use_activation=False)
        )
        logits = output.outputs.data
        at = np.asarray(output.prompt_token_ids) == self.timestamp_id
        best: list[int] = logits[at].argmax(-1).tolist()
        return best
