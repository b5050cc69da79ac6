"""What happened inside a stream, chunk by chunk: times of the stages, words heard, decisions.

An observer of the agent writes one line per chunk to ``steps.jsonl``, so that transcripts, stage
times and the reasons for stopping can be looked at long after the engines are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.types import Step, Word


@dataclass(frozen=True, slots=True)
class Record:
    """One chunk of a stream.

    Attributes:
        talk: stem of the recording.
        audio_s: seconds of audio heard so far.
        seconds: time of each stage.
        closed: sentences that this chunk closed.
        words: the open utterance; its last words are the live tail.
        accessible: how many of ``words`` the translation could rely on.
        reason: why the policy stopped, when it decided anything.
        steps: decoding steps of this chunk.
        accepted: tokens that were emitted in it.
        units: what was emitted.
    """

    talk: str
    audio_s: float
    seconds: dict[str, float]
    closed: tuple[tuple[Word, ...], ...]
    words: tuple[Word, ...]
    accessible: int
    reason: str | None
    steps: int
    accepted: int
    units: tuple[str, ...]


class Recorder:
    """Observes the chunks of an agent (``AlignAttAgent.observer``) and writes them down.

    Args:
        path: file to write, one line per chunk.

    Attributes:
        talk: stem of the recording that is being streamed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.talk = ""

    def __enter__(self) -> Recorder:
        self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __call__(self, step: Step) -> None:
        """Write one chunk."""
        heard = step.heard
        line = {
            "talk": self.talk,
            "audio_s": round(step.audio_s, 4),
            "seconds": {stage: round(value, 5) for stage, value in step.seconds.items()},
            "closed": [_plain(sentence) for sentence in heard.sentences],
            "words": _plain(heard.live.words),
            "accessible": heard.live.accessible,
            "reason": step.judged.decision.reason.value if step.judged else None,
            "steps": step.passes,
            "accepted": step.accepted,
            "units": list(step.units),
        }
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_records(path: Path) -> Iterator[Record]:
    """Read ``steps.jsonl``, one record at a time."""
    with path.open(encoding="utf-8") as stream:
        for text in stream:
            line = json.loads(text)
            yield Record(
                talk=line["talk"],
                audio_s=line["audio_s"],
                seconds=line["seconds"],
                closed=tuple(_words(sentence) for sentence in line["closed"]),
                words=_words(line["words"]),
                accessible=line["accessible"],
                reason=line["reason"],
                steps=line["steps"],
                accepted=line["accepted"],
                units=tuple(line["units"]),
            )


def _plain(words: tuple[Word, ...]) -> list[list[Any]]:
    return [[word.text, round(word.start, 3), round(word.end, 3)] for word in words]


def _words(items: list[list[Any]]) -> tuple[Word, ...]:
    return tuple(Word(*item) for item in items)
