"""A served speech model without an engine."""

from __future__ import annotations

from alignatt_agent.types import Answer


class SpeechModel:
    """Gives its answers one after the other, the last again and again; remembers its prompts."""

    name = "asr model fake"
    bin_ms = 80.0

    def __init__(self, processor, *answers, ended=True):
        self.processor, self.tokenizer = processor, getattr(processor, "tokenizer", processor)
        self.answers, self.ended = list(answers), ended
        self.asked = []

    def _answer(self):
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def generate(self, token_ids, audio, max_tokens, expected=()):
        self.asked.append((self.tokenizer.decode(token_ids), len(audio), max_tokens))
        self.expected = self.tokenizer.decode(expected)
        ids = self.tokenizer.encode(self._answer(), add_special_tokens=False)
        return Answer(tuple(ids), self.ended, 3, 2)

    def bins(self, token_ids, audio):
        self.asked.append((self.tokenizer.decode(token_ids), len(audio)))
        return self._answer()
