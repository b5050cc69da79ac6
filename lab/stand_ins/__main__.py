"""Smoke-test the configurations of real models with random models of the same architecture.

For every configuration, a random translation model is created with the class, files, layers and
heads of the published model, and with as many end-of-turn ids. Recognizer and aligner are the
embedded models. Whisper and Gemma-4's audio tower are random, except for a last layer that makes
them always transcribe one sentence. They test how a front end is served, prompted and read, but not
recognition. The same YAML file, with other paths, data types and shares of GPU memory, then
translates a part of the embedded talk to the end of the stream. The checks are:
  as written   the configuration is refused, and every missing checkpoint is named with its command
  stream       nothing fails, the closing pass ends, the emitted units give the text, and no
               sentence is lost
  rows         with head sets: the gate reads rows, which differ by at most 1e-4 from Transformers'
               eager attention in float32

Examples:
  test every configuration with real models:
    python -m lab.stand_ins
  test one configuration on a longer part of the talk:
    python -m lab.stand_ins --config iwslt26-low --seconds 30

exit status: 0 all checks passed; 1 a check failed and is named; 2 nothing was started
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import soundfile
from tabulate import tabulate

from alignatt_agent.cli import report_errors
from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.config.checkpoints import EMBEDDED
from alignatt_agent.config.resources import find_path, known_resources
from alignatt_agent.types import SAMPLE_RATE, FloatArray
from lab import commands
from lab.stand_ins.layouts import SHAPES
from lab.stand_ins.rehearsal import Rehearsal, rehearse

TALK = "micro_models/devset/wav/talk-a.wav"


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.stand_ins", __doc__)
    add = parser.add_argument
    add("--config", nargs="+", metavar="NAME", help="configurations; default: all of real models")
    add("--seconds", type=float, default=8.0, help="length of the talk; default %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    from transformers.utils import logging  # reads the environment when it is imported

    logging.disable_progress_bar()
    names = arguments.config or real_configurations()
    audio = talk(arguments.seconds)
    rows, status = [], 0
    with tempfile.TemporaryDirectory(prefix="alignatt-rehearse-") as folder:
        for rehearsal in run(names, audio, Path(folder)):
            rows.append(asdict(rehearsal))
            if rehearsal.problems:
                status = 1
            for line in rehearsal.problems or ["ok"]:
                languages = f"{rehearsal.source}-{rehearsal.target}"
                print(f"{rehearsal.name} {languages}: {line}", flush=True)
    print("\n" + tabulate(rows, "keys", "plain"))
    return status


def real_configurations() -> list[str]:
    """Return the packaged configurations of real models, sorted by model to start fewer engines.

    `make real` runs those of CTranslate2 on their own weights.
    """
    models_and_names = []
    for name in known_resources("agent_configs", ".yaml"):
        config = load_config(name)
        model = config.models.translation.path
        if model.startswith(EMBEDDED) or config.models.asr.runtime != "vllm":
            continue
        models_and_names.append((model, config.speech.recognizer, name))
    return [name for _, _, name in sorted(models_and_names)]


def talk(seconds: float) -> FloatArray:
    """Return the beginning of an embedded talk, ``[samples]``."""
    frames = round(seconds * SAMPLE_RATE)
    audio, _ = soundfile.read(find_path(TALK), frames=frames, dtype="float32")
    return audio  # type: ignore[no-any-return]


def run(names: Sequence[str], audio: FloatArray, folder: Path) -> Iterator[Rehearsal]:
    """Rehearse configurations into every target with a head set, or into two others."""
    from alignatt_agent.agent import AlignAttAgent

    configs = {name: load_config(name) for name in names}
    for name, config in configs.items():
        model = config.models.translation.path
        if model not in SHAPES:
            raise ConfigError(f"{name}: no stand-in for {model}; expected one of {list(SHAPES)}")
    try:
        for name, config in configs.items():
            yield from rehearse(name, config, audio, folder)
    finally:
        AlignAttAgent.shutdown()


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.stand_ins", main))
