r"""Plot quality against latency for every policy on the same stream, and run ablations of the gate.

Every block of lab/curves/grid.yaml is a policy with its parameters. Speech is transcribed once, and
each prompt is drafted once, with the rows of the same heads. All runs share these results and their
computation times in OUT/cache.sqlite. The output of a run is identical to that of
simulstream-eval with the same configuration. Its computation times are the stored ones.

Examples:
  run about half of the points with the embedded models and three targets:
    python -m lab.curves --output outputs/curves --points quick
  compare the operating points with other policies on a dev set not used for tuning:
    python -m lab.micro_world devset --devset-seed 9000 --sentences 1200 --output outputs/claims
    python -m lab.curves --devset outputs/claims/devset --output outputs/claims-curves \
        --only local_agreement-c500-n2 local_agreement-c500-n3 local_agreement-c500-n4
  run many talks concurrently and share parts of drafts, without computation-aware latency:
    python -m lab.curves --streams 16 --devset outputs/claims/devset --output outputs/claims-curves
  compare policies of real models with chunks of 500 ms:
    python -m lab.curves --points real-500 --set chunk_ms=500 --streams 24 \
        --config-low laptop-low --config-high laptop-high --devset DIR --output outputs/real-500
  run your own models and dev set on a cluster, one talk per worker:
    python -m lab.curves --ray 10.0.0.1:6379 --config-low my-low.yaml --config-high my-high.yaml \
        --devset DIR --target de --output outputs/my-curves

files in OUT
  bleu-cu, bleu-ca, chrf-cu, chrf-ca   .png and .svg: Pareto fronts with bootstrap bands
  curves.json     all figures, including the ablations of the gate
  runs/, ablation/runs/   for each run: configuration, Simulstream's log and OmniSTEval's files

To resume an interrupted command, run it again. If the configuration, models or audio of a run have
changed, the run is repeated. Some runs of `quick` are not part of `full`. Both share results.

exit status: 0 success; 1 a run or the scoring failed; 2 nothing was started
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent.cli import report_errors
from alignatt_agent.cluster.connection import add_options, options_of
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, parse_overrides
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.evaluation.plan import EvalRun, plan
from alignatt_agent.evaluation.plots import pyplot
from alignatt_agent.types import AlignAttError
from lab import commands
from lab.curves.experiment import Study, conduct, tables
from lab.curves.grid import OPERATING, SIZES, sweep


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.curves", __doc__)
    add = parser.add_argument
    shared_options(
        parser,
        "set",
        target={"default": ["de", "it", "zh"]},
        devset={"default": Path("micro_models/devset")},
        output={"required": True},
    )
    counts = ", ".join(f"{size} has {len(sweep(size))}" for size in SIZES)
    text = f"size of the grid: {counts} runs per target; default %(default)s"
    add("--points", choices=SIZES, default="full", help=text)
    text = "run only these points and the operating points, without ablations; default: all points"
    add("--only", nargs="+", metavar="NAME", default=[], help=text)
    for name in OPERATING:
        text = f"configuration for {name} latency (name or path); default %(default)s"
        add(f"--config-{name}", default=f"micro-{name}", metavar="CONFIG", help=text)
    text = (
        "number of concurrent talks, which are batched; with more than one, policies that accept "
        "different parts of a draft share it, and CA contains no drafts; default %(default)s"
    )
    add("--streams", type=int, default=1, metavar="N", help=text)
    add_options(parser, "stream")
    return parser


class CurvesError(AlignAttError):
    """A run or the scoring failed; finished runs are kept."""

    exit_status = 1


def study_from(arguments: argparse.Namespace) -> Study:
    """Create the study, after all checks that need no model."""
    # A missing matplotlib is an error now, not after hours of streaming.
    pyplot()
    sweep(arguments.points, arguments.only)  # refuses unknown names
    plans: dict[str, list[EvalRun]] = {}
    bases: dict[str, AgentConfig] = {}
    for name in OPERATING:
        plans[name] = plan(
            agent="alignatt4llm",
            configs=[getattr(arguments, f"config_{name}")],
            overrides=parse_overrides(arguments.overrides),
            source=None,
            targets=arguments.target,
            devset=arguments.devset,
            output=arguments.output,
        )
        bases[name] = plans[name][0].choice.config
    return Study(
        plans=plans["low"],
        bases=bases,
        output=arguments.output,
        size=arguments.points,
        only=arguments.only,
        streams=arguments.streams,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    cluster = options_of(arguments)
    study = study_from(arguments)
    if cluster is not None and study.streams > 1:
        raise ConfigError("--streams cannot be used with --ray: each worker streams one talk")
    try:
        content = conduct(study, cluster)
    except AlignAttError as error:
        raise CurvesError(f"{error}; the same command resumes the runs") from error
    print("\n".join(tables(content)))
    print(f"files: {arguments.output}/")
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.curves", main))
