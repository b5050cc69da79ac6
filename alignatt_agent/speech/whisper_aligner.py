"""Word times from the attention of Whisper's decoder to the audio."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from alignatt_agent.config.languages import language as find_language
from alignatt_agent.speech.front_ends import WhisperPrompt
from alignatt_agent.types import FloatArray
from alignatt_agent.types.engines import AlignedItem
from alignatt_agent.types.running_text import split_words

if TYPE_CHECKING:
    from alignatt_agent.engine.cpu_whisper import CpuWhisper

_MARKS = re.compile(r"\W+$")


class WhisperAligner:
    """Finds when each word of a transcript was spoken, without another model."""

    def __init__(self, model: CpuWhisper) -> None:
        self._model, self._prompt = model, WhisperPrompt(model.tokenizer, model.name)

    def align(self, audio: FloatArray, text: str, language: str) -> list[AlignedItem]:
        """Return the words of ``text`` with their times in ``audio``, ``[samples]``, not clipped.

        A word ends where its punctuation begins: the decoder attends to the pause from there.
        """
        tokenizer = self._model.tokenizer
        ids = tokenizer.encode(f" {text}", add_special_tokens=False)
        whole = tokenizer.decode(ids)
        if not split_words(whole):
            return []
        # CTranslate2 itself adds the token for transcripts without times.
        prompt = self._prompt.ids(find_language(language).name)[:-1]
        starts = self._model.token_starts(audio, prompt, ids)
        ends = [len(tokenizer.decode(ids[:k])) for k in range(len(ids) + 1)]
        items, at = [], 0
        for word in split_words(whole):
            begin = whole.index(word, at)
            at = begin + len(word)
            spoken = begin + max(1, len(_MARKS.sub("", word)))
            mine = [k for k, (a, b) in enumerate(pairwise(ends)) if a < spoken and b > begin]
            first, last = (mine[0], mine[-1]) if mine else (len(ids), len(ids) - 1)
            items.append(AlignedItem(word, starts[first], starts[last + 1]))
        return items
