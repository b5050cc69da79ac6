"""Run Whisper on a CPU with CTranslate2, in this process.

Unlike vLLM, CTranslate2 loads the published files of faster-whisper in 0.3 s, uses 8-bit weights,
needs no padding to 30 s, and computes token timestamps from the decoder's attention to the audio.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from alignatt_agent.engine.speech_models import KEPT, NO_SPEECH, UNSURE
from alignatt_agent.machine.processor import cores
from alignatt_agent.text.repetition import loop_start
from alignatt_agent.types import SAMPLE_RATE, EngineError, FloatArray
from alignatt_agent.types.engines import Answer

PADDED_S = 2.0
"""Seconds of silence after the audio in the first attempt."""

WHOLE_S = 30.0
"""Total seconds of audio in a second attempt. Whisper was trained on 30 s and sometimes repeats
itself on shorter audio, which is then transcribed again."""

FRAME_S = 0.02
"""Resolution of token timestamps, in seconds."""


class CpuWhisper:
    """Continues prompts with audio, like ``AudioModel``, and computes token timestamps.

    ``options`` are additional arguments of ``ctranslate2.models.Whisper``.
    """

    def __init__(self, path: str, **options: Any) -> None:
        from transformers import WhisperFeatureExtractor

        self.name = f"asr model {path}"
        try:
            import ctranslate2
        except ImportError as error:
            fix = "install it with `pip install 'alignatt_agent[cpu]'`"
            raise EngineError(f"{self.name}: {error}; {fix}") from error
        # Whisper uses all cores, because it never runs at the same time as the translation model.
        arguments: dict[str, Any] = {"intra_threads": cores(), "compute_type": "int8", **options}
        self._model = ctranslate2.models.Whisper(path, device="cpu", **arguments)
        self._view = ctranslate2.StorageView.from_array
        self._extract = WhisperFeatureExtractor(feature_size=self._model.n_mels)
        self.tokenizer = whisper_tokenizer(path)
        self._lock = threading.Lock()
        # Arrays are compared by identity, so callers must not change them afterwards.
        self._kept: OrderedDict[int, tuple[FloatArray, Any]] = OrderedDict()

    def generate(
        self,
        token_ids: Sequence[int],
        audio: FloatArray,
        max_tokens: int,
        expected: Sequence[int] = (),
    ) -> Answer:
        """Continue ``token_ids`` greedily; the answer is empty if there is no speech.

        ``audio``, ``[samples]``, is at most 30 s long. ``expected`` is ignored.
        """
        shortest_s = min(len(audio) / SAMPLE_RATE + PADDED_S, WHOLE_S)
        for padded_s in (shortest_s, WHOLE_S):
            encoded = self._encode(audio, padded_s)
            (result,) = self._model.generate(
                encoded,
                [list(token_ids)],
                beam_size=1,
                max_length=len(token_ids) + max_tokens,
                suppress_tokens=[],  # if suppressed, Whisper writes words for other sounds
                suppress_blank=False,  # an empty transcript is valid
                return_no_speech_prob=True,
                return_scores=True,
            )
            ids = result.sequences_ids[0]
            if len(ids) < max_tokens and loop_start(ids) is None:
                break
        with self._lock:
            self._kept[id(audio)] = audio, encoded
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        if result.no_speech_prob >= math.exp(NO_SPEECH) and result.scores[0] < UNSURE:
            return Answer((), True, len(ids))
        return Answer(tuple(ids), len(ids) < max_tokens, len(ids))

    def _encode(self, audio: FloatArray, padded_s: float) -> Any:
        silence = max(0, round(padded_s * SAMPLE_RATE) - len(audio))
        padded = np.pad(audio, (0, silence))
        features = self._extract(padded, sampling_rate=SAMPLE_RATE, padding=False)
        mels = np.ascontiguousarray(features["input_features"][0], np.float32)[None]
        return self._model.encode(self._view(mels))

    def token_starts(
        self, audio: FloatArray, prompt: Sequence[int], token_ids: Sequence[int]
    ) -> list[float]:
        """Return the start of each token in ``token_ids`` and the end of the last one, in seconds.

        ``prompt`` contains the language and the task. Audio after the first 30 s is ignored.
        """
        longest = int(WHOLE_S * SAMPLE_RATE)
        if len(audio) > longest:  # a slice is a new array, and would not be found below
            audio = audio[:longest]
        entry = self._kept.get(id(audio))
        if entry is None:
            encoded = self._encode(audio, WHOLE_S)
        else:
            _, encoded = entry
        last_frame = math.ceil(len(audio) / SAMPLE_RATE / FRAME_S)
        # The number of mel frames, which are half as long as the frames of timestamps.
        mel_frames = 2 * last_frame
        (alignment,) = self._model.align(encoded, list(prompt), [list(token_ids)], mel_frames)
        first_frames: dict[int, int] = {}
        for token, frame in alignment.alignments:
            first_frames.setdefault(token, frame)
        indices = range(len(token_ids) + 1)
        return [first_frames.get(index, last_frame) * FRAME_S for index in indices]


def whisper_tokenizer(checkpoint: str) -> Any:
    """Return Whisper's tokenizer from a checkpoint directory for vLLM or CTranslate2."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    if (Path(checkpoint) / "tokenizer_config.json").is_file():
        return AutoTokenizer.from_pretrained(checkpoint)
    # Transformers cannot read the model type from CTranslate2's config.json.
    return PreTrainedTokenizerFast(tokenizer_file=str(Path(checkpoint) / "tokenizer.json"))
