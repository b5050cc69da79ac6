"""Whisper on a CPU (CTranslate2): transcripts, and word times from its cross-attention.

CTranslate2 instead of vLLM: the published files of faster-whisper are loaded in 0.3 s, weights stay
8-bit, tokens that are no speech are suppressed, and audio is not encoded up to 30 s.
"""

from __future__ import annotations

import math
import os
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.speech.front_ends import (
    LONGEST_S,
    WhisperPrompt,
    pieces,
    whisper_tokenizer,
)
from alignatt_agent.speech.prompt import longest_answer
from alignatt_agent.speech.recognizer import SHORTEST_S
from alignatt_agent.types import SAMPLE_RATE, EngineError, FloatArray, Transcript
from alignatt_agent.types.engines import AlignedItem
from alignatt_agent.types.repetition import loop_start
from alignatt_agent.types.running_text import split_words

PADDED_S = 2.0
"""Silence behind the audio. Whisper was trained on 30 s: with less it sometimes goes on and repeats
itself; such a piece is transcribed again in 30 s."""

NO_SPEECH, UNLIKELY = 0.6, -1.0
"""A transcript is dropped where Whisper takes the audio for no speech, more probably than this, and
its tokens have a lower mean log-probability than that (OpenAI's own thresholds)."""

FRAME_S = 0.02
"""Resolution of word times."""

_MARKS = re.compile(r"\W+$")

KEPT = 32
"""Encoded pieces of audio that are kept for the word times, one for each concurrent stream."""


@dataclass(frozen=True, slots=True)
class _Heard:
    """A piece of audio: what the encoder made of it, the transcript's ids, its place in seconds."""

    audio: FloatArray
    encoded: Any
    ids: list[int]
    begin: float
    seconds: float


class CpuWhisper:
    """Transcribes a waveform with the language forced, and times its words.

    Args:
        path: directory of a checkpoint in CTranslate2's format.
        options: further arguments of ``ctranslate2.models.Whisper``.
    """

    def __init__(self, path: str, **options: Any) -> None:
        from transformers import WhisperFeatureExtractor

        try:
            import ctranslate2
        except ImportError as error:
            fix = "install it with `pip install 'alignatt_agent[cpu]'`"
            raise EngineError(f"asr model {path}: {error}; {fix}") from error

        threads = {"intra_threads": max(1, (os.cpu_count() or 1) // 2), "compute_type": "int8"}
        self._model = ctranslate2.models.Whisper(path, device="cpu", **(threads | options))
        self._view = ctranslate2.StorageView.from_array
        self._features = WhisperFeatureExtractor(feature_size=self._model.n_mels)
        self._tokenizer = whisper_tokenizer(path)
        self._prompt = WhisperPrompt(self._tokenizer, f"asr model {path}")
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, list[_Heard]] = OrderedDict()

    def transcribe(
        self, audio: FloatArray, language: str, context: str = "", expected: str = ""
    ) -> Transcript:
        """Return the transcript of ``audio``, ``[samples]``; ``expected`` is ignored.

        See ``QwenRecognizer.transcribe`` for limits and errors.
        """
        name = find_language(language).check_spoken(aligned=False).name
        if len(audio) / SAMPLE_RATE < SHORTEST_S:
            return Transcript("", requests=0)
        prompt, heard, begin = list(self._prompt.ids(name, context)), [], 0.0
        for piece in pieces(audio):
            heard.append(self._hear(piece, prompt, name, begin))
            begin += len(piece) / SAMPLE_RATE
        with self._lock:
            self._kept[id(audio)] = heard
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        texts = [self._tokenizer.decode(item.ids, skip_special_tokens=True) for item in heard]
        text = " ".join(filter(None, map(str.strip, texts)))
        return Transcript(text, sum(len(item.ids) for item in heard), len(heard))

    def _hear(self, piece: FloatArray, prompt: list[int], name: str, begin: float) -> _Heard:
        seconds = len(piece) / SAMPLE_RATE
        longest = min(longest_answer(seconds, self._tokenizer, name), self._prompt.room(prompt))
        for padded_s in (min(seconds + PADDED_S, LONGEST_S), LONGEST_S):
            silence = max(0, round(padded_s * SAMPLE_RATE) - len(piece))
            found = self._features(
                np.pad(piece, (0, silence)), sampling_rate=SAMPLE_RATE, padding=False
            )
            mels = np.ascontiguousarray(found["input_features"][0], np.float32)[None]
            encoded = self._model.encode(self._view(mels))
            (result,) = self._model.generate(
                encoded,
                [prompt],
                beam_size=1,
                max_length=len(prompt) + longest,
                suppress_blank=False,  # an empty transcript is an answer, too
                return_scores=True,
                return_no_speech_prob=True,
            )
            ids = result.sequences_ids[0]
            if len(ids) < longest and loop_start(ids) is None:
                break
        if result.no_speech_prob > NO_SPEECH and result.scores[0] < UNLIKELY:
            ids = []
        start = loop_start(ids)
        return _Heard(piece, encoded, ids if start is None else ids[:start], begin, seconds)

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of the transcript of ``audio``, ``[samples]``, with their times.

        The audio is one that ``transcribe`` had last; it is transcribed again otherwise.
        """
        heard = self._kept.get(id(audio))
        if heard is None:
            self.transcribe(audio, language)
            heard = self._kept.get(id(audio), [])
        name = find_language(language).name
        return [item for piece in heard if piece.ids for item in self._timed(piece, name)]

    def _timed(self, heard: _Heard, name: str) -> list[AlignedItem]:
        """Time the words of a piece by the attention of the decoder to the encoder's frames."""
        sequence = list(self._prompt.ids(name))[:-1]  # CTranslate2 adds the token for no times
        frames = math.ceil(heard.seconds / FRAME_S) * 2
        (found,) = self._model.align(heard.encoded, sequence, [heard.ids], frames)
        first: dict[int, int] = {}
        for token, frame in found.alignments:
            first.setdefault(token, frame)
        last = math.ceil(heard.seconds / FRAME_S)
        starts = [first.get(k, last) for k in range(len(heard.ids) + 1)]
        ends = [len(self._text(heard.ids[:k])) for k in range(1, len(heard.ids) + 1)]
        whole, items, at = self._text(heard.ids), [], 0
        for word in split_words(whole):
            begin = whole.index(word, at)
            at = begin + len(word)
            # A mark has the pause behind its word.
            letters = begin + len(_MARKS.sub("", word))
            inside = enumerate(pairwise([0, *ends]))
            tokens = [k for k, (a, b) in inside if a < max(letters, begin + 1) and b > begin]
            times = (starts[tokens[0]], starts[tokens[-1] + 1]) if tokens else (last, last)
            start, end = (heard.begin + frame * FRAME_S for frame in times)
            items.append(AlignedItem(word, start, end))
        return items

    def _text(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True)
        return text
