"""Scores of a run on disk, and the off-line row: what the models can do when nothing is early."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from alignatt_agent.evaluation.latency import regime_of, to_spare_ms
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.types import AlignAttError

_SHARED = {
    "devset": "dev set",
    "audio": "recordings",
    "direction": "direction",
    "models": "models",
}


class ScoringError(AlignAttError, RuntimeError):
    """The scorer failed or a log cannot be scored."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Official scores of one target language.

    Attributes:
        bleu: sacreBLEU over the resegmented output (tokenizer ``zh`` for Chinese).
        chrf: chrF2.
        longyaal_cu_ms: computation-unaware LongYAAL.
        longyaal_ca_ms: computation-aware LongYAAL as Simulstream defines it: backlog of earlier
            chunks does not count. ``None`` when a foreign log has no computation times.
        rtf: seconds of computation per second of audio; ``None`` when the log does not tell.
    """

    bleu: float
    chrf: float
    longyaal_cu_ms: float
    longyaal_ca_ms: float | None
    rtf: float | None


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
    def regime(self) -> str:
        """Latency regime of the shared task, and how far it is to its end."""
        found, margin = (
            regime_of(self.scores.longyaal_cu_ms),
            to_spare_ms(self.scores.longyaal_cu_ms),
        )
        return (
            f"{found.name}, {margin:.0f} ms to spare" if found else f"outside by {-margin:.0f} ms"
        )


def write_result(result: Result, files: RunFiles) -> None:
    """Write ``scores.json``: scores, what else was measured, and the signature."""
    content = {**asdict(result.scores), **result.measured, "signature": dict(result.signature)}
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    files.scores.write_text(text + "\n", encoding="utf-8")


def read_result(folder: Path) -> Result:
    """Read ``scores.json`` of a run.

    Raises:
        ScoringError: there is none, or it lacks a score.
    """
    content = _read(RunFiles(folder).scores, f"{folder} is not a scored run")
    try:
        scores = Scores(**{field.name: content.pop(field.name) for field in fields(Scores)})
        signature = content.pop("signature")
        return Result(signature["config"], signature["target"], scores, content, signature)
    except KeyError as error:
        raise ScoringError(f"{RunFiles(folder).scores} is not complete: {error!r}") from None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Scores of ``alignatt offline`` for one target.

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
        folder: output of ``alignatt offline``.
        signatures: what the runs depend on.

    Raises:
        ScoringError: a target is missing, or was run with other models or another dev set.
    """
    found: dict[str, Ceiling] = {}
    for signature in signatures:
        target = signature["target"]
        path = folder / target / "offline.json"
        content = _read(path, f"alignatt offline --target {target} --output {folder} writes it")
        try:
            theirs = content["signature"]
            comet = content.get("comet", {}).get("score")
            row = Ceiling(target, content["bleu"], content["chrf"], content.get("wer"), comet)
        except KeyError as error:
            raise ScoringError(f"{path} is not complete: {error!r}") from None
        for key, name in _SHARED.items():
            if key in signature and theirs.get(key) != signature[key]:
                raise ScoringError(
                    f"{path} is no ceiling of {signature['config']} {target}: it has another "
                    f"{name} ({theirs.get(key)}, not {signature[key]})"
                )
        found[target] = row
    return list(found.values())


def _read(path: Path, fix: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ScoringError(f"{path} does not exist: {fix}") from None
    except json.JSONDecodeError as error:
        raise ScoringError(f"{path} is not complete: {error!r}") from None
    return content
