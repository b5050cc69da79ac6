"""``simulstream-eval``: stream a dev set through an agent, score it, print a signed table."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent import __version__
from alignatt_agent.checkpoints import CheckpointError
from alignatt_agent.config import ConfigError
from alignatt_agent.evaluation.agents import known_agents
from alignatt_agent.evaluation.devset import DevSetError
from alignatt_agent.evaluation.runner import evaluate, plan, print_commands
from alignatt_agent.evaluation.scoring import ScoringError
from alignatt_agent.head_sets import HeadSetError
from alignatt_agent.languages import LanguageError
from alignatt_agent.resources import known_resources

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "TRANSFORMERS_VERBOSITY": "error",
    "PYTHONWARNINGS": "ignore::FutureWarning",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    "TORCH_LOGS": "-all",
}
"""Inherited by engine processes: three start-up logs would bury the progress bars."""

EPILOG = """\
examples
  the embedded micro models on the embedded dev set, three targets, engines loaded once:
    simulstream-eval --config micro-low --target de it zh \\
        --devset micro_models/devset --output outputs/dev-low

  the same with the gate switched off, to see what the policy is worth:
    simulstream-eval --config micro-low --set policy.name=none --target de \\
        --devset micro_models/devset --output outputs/no-gate

  the paper's operating point on the IWSLT 2026 dev set:
    simulstream-eval --config iwslt26-low --target de it zh --devset DIR --output OUT

a dev set is
    DIR/audio-segments.yaml   list of {wav, offset, duration}, seconds, grouped by recording
    DIR/ref/TARGET.txt        one reference per segment
    DIR/wav/*.wav             16 kHz mono 16-bit, one unsegmented talk each

a run writes, per target, OUT/TARGET/
    agent.yaml      the resolved configuration; works with simulstream_inference as it is
    metrics.jsonl   Simulstream's log, fresh in every run
    scores.json     bleu, chrf, longyaal_cu_ms, longyaal_ca_ms, rtf and a signature
    scores.tsv, evaluation_report.txt, instances.resegmented.jsonl   written by OmniSTEval

exit status: 0 scored; 1 the run or the scoring failed; 2 nothing was started
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    names = known_resources("agent_configs", ".yaml")
    parser = argparse.ArgumentParser(
        prog="simulstream-eval",
        description="Stream a dev set through a simultaneous translation agent with the official "
        "Simulstream harness, score it with OmniSTEval and print a signed table.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--agent",
        default="alignatt4llm",
        help="entry point of the group simulstream.agents "
        f"({', '.join(known_agents()) or 'none installed'}), dotted class, or path of a "
        "Simulstream YAML; default %(default)s",
    )
    parser.add_argument(
        "--config", help=f"name ({', '.join(names)}) or path of a YAML configuration"
    )
    parser.add_argument(
        "--target",
        nargs="+",
        required=True,
        metavar="LANG",
        help="target languages, codes or names; they share the loaded engines",
    )
    parser.add_argument("--source", metavar="LANG", help="spoken language; default: configuration")
    parser.add_argument(
        "--devset", type=Path, required=True, metavar="DIR", help="dev set, see below"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="OUT", help="output folder")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="overrides",
        help="override a key of the configuration, e.g. policy.name=none; repeatable",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check everything and print the equivalent commands, load no model",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore", FutureWarning)
    try:
        run = plan(
            agent=arguments.agent,
            config=arguments.config,
            overrides=arguments.overrides,
            source=arguments.source,
            targets=arguments.target,
            devset=arguments.devset,
            output=arguments.output,
        )
    except (
        ConfigError,
        HeadSetError,
        CheckpointError,
        DevSetError,
        LanguageError,
        ScoringError,
    ) as error:
        print(f"simulstream-eval: {error}", file=sys.stderr)
        return 2
    if arguments.dry_run:
        print("everything is in place; no model was loaded")
        print_commands(run)
        return 0
    return evaluate(run)


if __name__ == "__main__":
    sys.exit(main())
