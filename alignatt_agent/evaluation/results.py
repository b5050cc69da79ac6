"""Results of scored runs, and the off-line rows next to them: the quality that models can have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.evaluation.regime import Place, place
from alignatt_agent.evaluation.score import Scores, ScoringError

_SHARED = {
    "devset": "dev set",
    "audio": "recordings",
    "direction": "direction",
    "models": "models",
}


@dataclass(frozen=True, slots=True)
class Result:
    """One scored target of one configuration.

    Attributes:
        config: name of the configuration.
        target: code of the language of the output.
        scores: official scores.
        measured: what else was measured, as in ``scores.json``.
        signature: what the scores depend on.
    """

    config: str
    target: str
    scores: Scores
    measured: Mapping[str, Any]
    signature: Mapping[str, Any]

    @property
    def regime(self) -> Place:
        """Latency regime of the shared task."""
        return place(self.scores.longyaal_cu_ms)


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Scores of ``alignatt-offline`` for one target.

    Attributes:
        target: code of the language of the output.
        bleu: sacreBLEU.
        chrf: chrF2.
        wer: word error rate of the whole-recording transcript in percent, if known.
        comet: COMET, if it was scored.
    """

    target: str
    bleu: float
    chrf: float
    wer: float | None = None
    comet: float | None = None


def read_ceilings(folder: Path, signatures: Sequence[Mapping[str, Any]]) -> list[Ceiling]:
    """Read the off-line rows of the targets of some runs.

    Args:
        folder: output of ``alignatt-offline``.
        signatures: what the runs depend on.

    Raises:
        ScoringError: a target is missing, or was run with other models or another dev set.
    """
    found: dict[str, Ceiling] = {}
    for signature in signatures:
        target = signature["target"]
        path = folder / target / "offline.json"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            theirs = content["signature"]
            comet = content.get("comet", {}).get("score")
            row = Ceiling(target, content["bleu"], content["chrf"], content.get("wer"), comet)
        except FileNotFoundError:
            raise ScoringError(
                f"{path} does not exist; write it with: alignatt-offline --target {target} "
                f"--output {folder}"
            ) from None
        except (KeyError, json.JSONDecodeError) as error:
            raise ScoringError(f"{path} is not complete: {error!r}") from None
        for key, name in _SHARED.items():
            if key in signature and theirs.get(key) != signature[key]:
                raise ScoringError(
                    f"{path} is no ceiling of {signature['config']} {target}: it has another "
                    f"{name} ({theirs.get(key)}, not {signature[key]})"
                )
        found[target] = row
    return list(found.values())
