"""READMEs of a bundle: exact commands for every direction and regime."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import SEGMENTATION, DevSet
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import omnisteval_arguments
from alignatt_agent.submission.bundle import Bundle, Facts, SystemName
from alignatt_agent.submission.image import render
from alignatt_agent.submission.server_config import PORT


def write_readmes(
    bundle: Bundle,
    facts: Facts,
    scores: Mapping[SystemName, Mapping[str, Any]],
    devset: DevSet,
    share: float | None,
) -> None:
    """Write the top README and one for each system.

    Args:
        bundle: the bundle.
        facts: content of ``submission.json``.
        scores: content of ``scores.json`` of every system.
        devset: dev set of the scores.
        share: of a GPU's memory that the engines claim, if the configurations say so.
    """
    common = {"image": image_name(facts.team), "port": PORT, "regimes": REGIMES}
    text = render("README.md", **common, facts=facts, scores=scores, share=share)
    bundle.readme.write_text(text, encoding="utf-8")
    for name, found in scores.items():
        text = render(
            "SYSTEM.md",
            **common,
            name=name,
            scores=found,
            source=language(name.source),
            target=language(name.target),
            omnisteval=scoring_command(bundle, name, devset),
        )
        bundle.system(name).readme.write_text(text, encoding="utf-8")


def image_name(team: str) -> str:
    """A Docker image name made of the name of the team."""
    return re.sub(r"[^a-z0-9]+", "-", team.lower()).strip("-") or "submission"


def scoring_command(bundle: Bundle, name: SystemName, devset: DevSet) -> str:
    """The ``omnisteval`` command for a new log, typed in the top folder of the bundle."""
    inside = Path(bundle.devset.name)
    references = {name.target: inside / "ref" / f"{name.target}.txt"}
    arguments = omnisteval_arguments(
        RunFiles(Path("scores")),
        replace(devset, segmentation=inside / SEGMENTATION, references=references),
        name.target,
        hypothesis=Path("metrics.jsonl"),
        config=Path(bundle.where(bundle.system(name).evaluation)),
    )
    return shlex.join(["omnisteval", *arguments])
