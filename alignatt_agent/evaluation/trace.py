"""``steps.jsonl``, the trace of a run: transcripts, stage times, drafts and decisions by chunk."""

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, TextIO

from alignatt_agent.types import (
    Decision,
    GatedDraft,
    SourceSpan,
    SourceView,
    SpeechUpdate,
    Step,
    Transcripts,
    Word,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TalkStep(Step):
    """A recorded chunk of a talk, which goes by the stem of its recording."""

    talk: str


class Recorder:
    """Observes an agent (``AlignAttAgent.observer``) and writes one line per chunk of ``talk``."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.talk = ""

    def __call__(self, step: Step) -> None:
        """Write one chunk."""
        heard, gated = step.heard, step.gated
        line = {
            "talk": self.talk,
            "audio_s": round(step.audio_s, 4),
            "seconds": {stage: round(value, 5) for stage, value in step.seconds.items()},
            "closed": [_plain(sentence) for sentence in heard.sentences],
            "words": _plain(heard.live.words),
            "accessible": heard.live.accessible,
            "settled": heard.settled,
            "stable": heard.stable,
            "reason": gated.decision.reason if gated else None,
            "draft": _draft(gated) if gated else None,
            "transcripts": list(astuple(heard.transcripts)),
            "steps": step.passes,
            "accepted": step.accepted,
            "units": list(step.units),
            "times": [
                [round(time.start, 3), round(time.end, 3), *([True] if time.interpolated else [])]
                for time in step.times
            ],
        }
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")


def read_steps(path: Path) -> Iterator[TalkStep]:
    """Read ``steps.jsonl``, one chunk at a time."""
    with path.open(encoding="utf-8") as stream:
        for text in stream:
            line = json.loads(text)
            live = SourceView(_words(line["words"]), line["accessible"])
            yield TalkStep(
                talk=line["talk"],
                audio_s=line["audio_s"],
                heard=SpeechUpdate(
                    tuple(_words(sentence) for sentence in line["closed"]),
                    live,
                    line["settled"],
                    line["stable"],
                    Transcripts(*line["transcripts"]),
                ),
                gated=_gated(line["draft"], line["reason"]) if line["draft"] else None,
                units=tuple(line["units"]),
                accepted=line["accepted"],
                passes=line["steps"],
                seconds=line["seconds"],
                times=tuple(SourceSpan(*item) for item in line["times"]),
            )


def _draft(gated: GatedDraft) -> dict[str, Any]:
    decision = gated.decision
    return {
        "after": gated.accepted,
        "tokens": list(gated.tokens),
        "accepted": decision.accepted,
        "closed": decision.closed,
        "words": list(gated.words),
        "masses": [round(mass, 4) for mass in decision.accessible_mass],
        "edge": gated.edge,
        "emitted": gated.emitted,
    }


def _gated(draft: dict[str, Any], reason: str) -> GatedDraft:
    decision = Decision(
        draft["accepted"], reason, accessible_mass=tuple(draft["masses"]), closed=draft["closed"]
    )
    return GatedDraft(
        draft["after"],
        tuple(draft["tokens"]),
        tuple(draft["words"]),
        decision,
        draft["edge"],
        draft["emitted"],
    )


def _plain(words: tuple[Word, ...]) -> list[list[Any]]:
    return [[word.text, round(word.start, 3), round(word.end, 3)] for word in words]


def _words(items: list[list[Any]]) -> tuple[Word, ...]:
    return tuple(Word(*item) for item in items)
