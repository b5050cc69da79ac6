"""Log-mel features of audio, computed once for all models that take it."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from alignatt_agent.types import FloatArray

KEPT = 32
"""Pieces of audio whose features are kept, one for each concurrent stream."""


class Features:
    """Features from a ``Qwen3ASRProcessor``, in the form that vLLM takes unchanged.

    The recognizer and the forced aligner take the same audio one after the other, and a transcript
    whose verification fails is requested again.
    """

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, tuple[FloatArray, Future[Mapping[str, Any]]]] = OrderedDict()

    def __call__(self, audio: FloatArray) -> Mapping[str, Any]:
        """Return vLLM's fields: features ``[mels, frames]``, their mask, and ``[frames]``.

        The array is known by its identity: it must not be changed afterwards.
        """
        with self._lock:
            known = self._kept.get(id(audio))
            if known is None or known[0] is not audio:
                mine: Future[Mapping[str, Any]] = Future()
                self._kept[id(audio)] = audio, mine
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        if known is not None and known[0] is audio:
            return known[1].result()
        try:
            mine.set_result(self._extract(audio))
        except BaseException as error:
            mine.set_exception(error)  # for those who wait
            with self._lock:
                self._kept.pop(id(audio), None)
            raise
        return mine.result()

    def _extract(self, audio: FloatArray) -> Mapping[str, Any]:
        # As vLLM asks it: one placeholder, the audio, and nothing else.
        found = self._processor(text=self._processor.audio_token, audio=audio, return_tensors="pt")
        mask = found["input_features_mask"]
        heard = mask[0].bool()
        return {
            "input_audio_features": found["input_features"][0][:, heard],
            "feature_attention_mask": mask,
            "audio_feature_lengths": heard.sum()[None],
        }


_shared: dict[str, Features] = {}


def shared_features(processor: Any) -> Features:
    """Return the features of a processor, the same object for equal feature extractors."""
    extractor = processor.feature_extractor.to_dict()
    key = json.dumps(extractor, sort_keys=True, default=str)
    return _shared.setdefault(key, Features(processor))
