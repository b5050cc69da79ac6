"""READMEs of a bundle: exact commands for every direction and regime."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet
from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import omnisteval_arguments
from alignatt_agent.submission.bundle import Bundle, SystemName
from alignatt_agent.submission.devset_copy import typed_devset
from alignatt_agent.submission.image import TEMPLATES, gpu_share
from alignatt_agent.submission.server_config import PORT


@dataclass(frozen=True, slots=True)
class SystemFacts:
    """What the READMEs say of one system.

    Attributes:
        config: resolved configuration.
        scores: content of its ``scores.json``.
    """

    config: AgentConfig
    scores: Mapping[str, Any]

    @property
    def label(self) -> str:
        """A warning that has to stand wherever the scores do."""
        label = self.scores["signature"].get("label")
        return f"**{label}.**" if label else ""


def write_readmes(
    bundle: Bundle,
    systems: Mapping[SystemName, SystemFacts],
    devset: DevSet,
    team: str,
    contact: str,
) -> None:
    """Write the top README and one for each system."""
    image = image_name(team)
    rows = [_table_row(name, facts) for name, facts in systems.items()]
    share = gpu_share(facts.config for facts in systems.values())
    text = _fill(
        "README.md",
        {
            "TEAM": team,
            "CONTACT": contact,
            "LABEL": next((facts.label for facts in systems.values() if facts.label), ""),
            "TABLE": "\n".join(rows),
            "DEVSET": f"{len(devset.talks)} talks, {len(devset.segments)} segments",
            "GPU": f"; the engines claim {share:.0%} of its memory" if share else "",
            "PORT": str(PORT),
            "IMAGE": image,
        },
    )
    bundle.readme.write_text(text, encoding="utf-8")
    for name, facts in systems.items():
        files = bundle.system(name)
        text = _fill("SYSTEM.md", _system_values(bundle, name, facts, devset, image))
        files.readme.write_text(text, encoding="utf-8")


def image_name(team: str) -> str:
    """A Docker image name made of the name of the team."""
    kept = "".join(char if char.isascii() and char.isalnum() else "-" for char in team.lower())
    return "-".join(part for part in kept.split("-") if part) or "submission"


def scoring_arguments(
    devset: DevSet, target: str, metrics: str, evaluation: str, output: str
) -> list[str]:
    """Arguments of the ``omnisteval`` command line for a log that lies anywhere."""
    files = RunFiles(Path(output))
    replaced = {str(files.metrics): metrics, str(files.config): evaluation}
    return [replaced.get(item, item) for item in omnisteval_arguments(files, devset, target)]


def _system_values(
    bundle: Bundle, name: SystemName, facts: SystemFacts, devset: DevSet, image: str
) -> dict[str, str]:
    scores, regime = facts.scores, REGIMES[name.regime]
    container = f"{image}-{name.regime}-{name.direction}"
    folder = bundle.system(name).folder.relative_to(bundle.root)
    inference = [
        "simulstream_inference",
        *("--speech-processor-config", str(folder / "proxy.yaml")),
        *("--wav-list-file", "wavs.txt"),
        *("--tgt-lang", name.target, "--src-lang", name.source),
        *("--metrics-log-file", "metrics.jsonl"),
    ]
    run = [
        *("docker", "run", "--detach", "--name", container),
        *("--gpus", "device=0", "--shm-size", "2g", "--publish", f"{PORT}:{PORT}"),
    ]
    omnisteval = scoring_arguments(
        typed_devset(devset, bundle.devset.name),
        name.target,
        "metrics.jsonl",
        str(folder / "evaluation.yaml"),
        "scores",
    )
    return {
        "DIRECTION": name.direction,
        "REGIME": str(regime),
        "SOURCE": language(name.source).name,
        "TARGET": language(name.target).name,
        "CHUNK": str(facts.config.chunk_ms),
        "LABEL": facts.label,
        "BLEU": f"{scores['bleu']:.2f}",
        "CHRF": f"{scores['chrf']:.2f}",
        "CU": f"{scores['longyaal_cu_ms'] / 1000:.2f}",
        "CA": f"{scores['longyaal_ca_ms'] / 1000:.2f}",
        "MARGIN": f"{regime.margin_ms(scores['longyaal_cu_ms']) / 1000:.2f}",
        "RTF": f"{scores['rtf']:.2f}",
        "DEVICE": str(scores["signature"]["device"]),
        "UNIT": language(name.target).latency_unit,
        "CONTAINER": container,
        "RUN": shlex.join(run)
        + f' \\\n    --volume "$PWD/image/weights:/weights:ro" {image} {name}',
        "INFERENCE": shlex.join(inference),
        "OMNISTEVAL": shlex.join(["omnisteval", *omnisteval]),
    }


def _table_row(name: SystemName, facts: SystemFacts) -> str:
    scores = facts.scores
    link = f"[{name.direction}](systems/{name}/README.md)"
    return (
        f"| {link} | {REGIMES[name.regime]} | {scores['bleu']:.2f} | {scores['chrf']:.2f} "
        f"| {scores['longyaal_cu_ms'] / 1000:.2f} s | {scores['longyaal_ca_ms'] / 1000:.2f} s "
        f"| {scores['rtf']:.2f} |"
    )


def _fill(template: str, values: Mapping[str, str]) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text.replace(" \n", "\n")
