"""The two speech models as plain functions of token ids and audio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alignatt_agent.engine.capture_result import fetch
from alignatt_agent.engine.features import shared_features
from alignatt_agent.engine.greedy import greedy, strip_stop
from alignatt_agent.engine.row_requests import EXTRA, capture_request, new_key
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.types import FloatArray
from alignatt_agent.types.engines import Answer


class AudioModel:
    """A served model that continues a prompt with audio in it."""

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self._stops = stop_ids(model)
        self.name = model.name
        self.tokenizer = model.tokenizer()

    @property
    def window(self) -> int:
        """Longest request with its answer, in tokens."""
        return int(self._model.config.max_model_len)

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
            max_tokens: longest answer.
            expected: the probable beginning of the answer. It is verified in the prefill, and
                decoding continues where the model differs: one request, or two. The answer is the
                same, up to the numerics of prefill against decoding.
        """
        kept: list[int] = []
        known = list(expected)[: max_tokens - 1]  # the engine always samples a token
        steps = requests = 0
        while True:
            key = new_key()
            output = self._model.generate(
                self._request([*token_ids, *kept, *known], audio),
                greedy(
                    max_tokens - len(kept) - len(known),
                    self._stops,
                    {EXTRA: capture_request(key, expected=known)} if known else None,
                ),
            )
            requests += 1
            steps += len(output.outputs[0].token_ids)
            tokens, ended = strip_stop(output, self._stops)
            found = fetch(self._model, key) if known else None
            if found is None or found.agreed == len(known):
                return Answer((*kept, *known, *tokens), ended, steps, requests)
            kept, known = known[: found.agreed], []
            if found.next_token in self._stops:
                return Answer(tuple(kept), True, steps, requests)
            # None is a position that was not computed; it is decoded.
            kept += [] if found.next_token is None else [found.next_token]

    def _request(self, token_ids: list[int], audio: Any) -> dict[str, Any]:
        return {"prompt_token_ids": token_ids, "multi_modal_data": {"audio": audio}}


class SpeechModel(AudioModel):
    """The served Qwen3-ASR."""

    def __init__(self, model: ServedModel) -> None:
        super().__init__(model)
        self.processor = model.processor()
        self._features = shared_features(self.processor)

    def _request(self, token_ids: list[int], audio: FloatArray) -> dict[str, Any]:
        return super()._request(token_ids, self._features(audio))


class EncoderDecoderModel(AudioModel):
    """A served model with an encoder for audio and a decoder for ids: Whisper."""

    def __init__(self, model: ServedModel) -> None:
        super().__init__(model)
        model.take_decoder_prompts_whole()

    def _request(self, token_ids: list[int], audio: FloatArray) -> dict[str, Any]:
        heard = {"prompt": "", "multi_modal_data": {"audio": audio}}
        return {"encoder_prompt": heard, "decoder_prompt": {"prompt_token_ids": token_ids}}


class TimingModel:
    """The served forced aligner, which scores time bins of ``bin_ms`` for every token."""

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        self.tokenizer = model.tokenizer()
        self.processor = model.processor()
        self._features = shared_features(self.processor)
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


def stop_ids(model: ServedModel) -> frozenset[int]:
    """Ids that end a turn, from the generation configuration and the tokenizer."""
    found: set[int] = set()
    for value in (_generation_config(model).get("eos_token_id"), model.tokenizer().eos_token_id):
        found.update([value] if isinstance(value, int) else value or [])
    return frozenset(found)


def _generation_config(model: ServedModel) -> dict[str, Any]:
    return model.config.try_get_generation_config() or {}
