"""``alignatt-calibrate``: find the attention heads that follow the source, for any model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from alignatt_agent import __version__
from alignatt_agent.calibration import commands, contamination
from alignatt_agent.calibration.align import not_aligned
from alignatt_agent.calibration.aligners import AlignerError
from alignatt_agent.calibration.aligners.chat_model import EndpointAligner
from alignatt_agent.calibration.aligners.choose import add_options, build_aligner
from alignatt_agent.calibration.figures import (
    figures_beside,
    require_matplotlib,
)
from alignatt_agent.calibration.head_scores import ScoringError
from alignatt_agent.calibration.pairs import Pairs, PairsError, without_repeats
from alignatt_agent.calibration.pairs_file import FORMAT, read_pairs
from alignatt_agent.calibration.report import print_report
from alignatt_agent.calibration.row_reader import ENGINES
from alignatt_agent.calibration.select_heads import Plan, calibrate
from alignatt_agent.calibration.state import StateError
from alignatt_agent.calibration.translation_score import ROWS
from alignatt_agent.config.agent_config import ConfigError, ModelConfig
from alignatt_agent.config.checkpoints import CheckpointError
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import Language, LanguageError, language
from alignatt_agent.config.quiet import quieten
from alignatt_agent.evaluation.plotting import FigureError
from alignatt_agent.types import EngineError

EPILOG = f"""\
examples
  the embedded model on generated pairs with gold alignments, 60 to choose and 60 to judge on:
    alignatt-calibrate --model micro_models/gemma4 --direction en-de \\
        --pairs micro:60:77 --held-out micro:60:78 --figures

  a real model, words aligned by eflomal, which learns from more text than is scored:
    alignatt-calibrate --model google/gemma-4-E4B-it --revision 83df0a8 --direction en-de \\
        --pairs pairs.en-de.tsv --aligner eflomal --aligner-corpus corpus.en-de.tsv

  words aligned by a chat model; shows what it will cost, and goes on with --yes:
    alignatt-calibrate ... --aligner openai --endpoint https://HOST/v1 --aligner-model NAME \\
        --price 0.25 2.00 --yes

further commands, each with --help
  alignatt-calibrate explain   reconstruct one draft: where each word looked and what was accepted
  alignatt-calibrate export    write generated pairs of the micro world to a file
  alignatt-calibrate unite     one head set for several directions

{FORMAT}

a run writes
  OUTPUT.json      the head set; name it under head_sets in a configuration
  OUTPUT.state/    word alignments and scores of every pair: the same command goes on from there
  OUTPUT-heads, OUTPUT-top-k (.png, .svg)   with --figures

exit status: 0 written; 1 the run failed; 2 nothing was started
"""

_REFUSED = (
    ConfigError, CheckpointError, FigureError, HeadSetError, LanguageError, PairsError, StateError,
)  # fmt: skip
_FAILED = (AlignerError, EngineError, ScoringError, OSError)


def build_parser() -> argparse.ArgumentParser:
    """Build the command line of calibration proper."""
    parser = argparse.ArgumentParser(
        prog="alignatt-calibrate",
        description="Score every attention head of a model by Translation Score: how often its "
        "peak hits the source word that the target word is aligned to, under the prompt that the "
        "agent uses. The best heads become a head-set file.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    model = parser.add_argument_group("model")
    model.add_argument("--model", required=True, help="directory, or id on the Hugging Face hub")
    model.add_argument("--revision", help="commit of a hub id; pin it")
    model.add_argument(
        "--model-name", help="name in the head set, as configurations name it; default: --model"
    )
    model.add_argument("--dtype", choices=("auto", "float32", "bfloat16"), default="auto")
    model.add_argument(
        "--engine",
        choices=ENGINES,
        default="vllm",
        help="vllm reads rows out of the deployed engine; transformers serves models that vLLM "
        "does not, with the same scores; default %(default)s",
    )
    data = parser.add_argument_group("pairs")
    data.add_argument("--direction", required=True, metavar="SRC-TGT", help="e.g. en-de")
    data.add_argument(
        "--pairs", required=True, metavar="FILE", help="pairs to choose heads on, see below"
    )
    data.add_argument(
        "--held-out",
        metavar="FILE|SHARE",
        default="0.3",
        help="pairs to judge the chosen heads on: a file, or a share of --pairs; default "
        "%(default)s. Where all pairs have gold alignments, those judge any aligner's heads",
    )
    data.add_argument(
        "--devset",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="dev set whose sentences must not be used; the embedded one never is; repeatable",
    )
    choice = parser.add_argument_group("heads")
    choice.add_argument(
        "--row",
        choices=ROWS,
        help="query that stands for a token; default: the better one of the two on held-out pairs",
    )
    choice.add_argument("--keep", type=int, default=8, metavar="K", help="heads in the set; 8")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="default outputs/head_sets/MODEL-DIRECTION.json",
    )
    output.add_argument("--figures", action="store_true", help="draw both figures beside it")
    output.add_argument("--restart", action="store_true", help="forget an interrupted run")
    add_options(parser.add_argument_group("word alignments"))
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def plan_from(arguments: argparse.Namespace) -> Plan:
    """Check everything that needs no model and return the plan.

    Raises:
        PairsError: the pairs cannot be used.
        AlignerError: the aligner cannot work here.
        LanguageError: the direction is not one.
    """
    source, target = _direction(arguments.direction)
    known = contamination.known_sentences(arguments.devset)

    def read(spec: str) -> Pairs:
        return contamination.leave_out(read_pairs(spec, source, target), known)

    share, held_out = _held_out(arguments.held_out)
    seen: set[tuple[tuple[str, ...], str]] = set()
    pairs = without_repeats(read(arguments.pairs), seen)
    name = arguments.model_name or _name(arguments.model)
    output = arguments.output or (
        Path("outputs/head_sets") / f"{Path(name).name}-{source.code}-{target.code}.json"
    )
    return Plan(
        model=ModelConfig(path=arguments.model, revision=arguments.revision, dtype=arguments.dtype),
        name=name,
        source=source,
        target=target,
        pairs=pairs,
        held_out=without_repeats(read(held_out), seen) if held_out else None,
        held_out_share=share,
        aligner=build_aligner(arguments, source, target, read),
        engine=arguments.engine,
        output=output,
        row=arguments.row,
        top_k=arguments.keep,
        restart=arguments.restart,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    quieten()
    command = commands.COMMANDS.get(given[0]) if given else None
    try:
        if command is not None:
            return command(given[1:])
        return _calibrate(build_parser().parse_args(given))
    except _REFUSED as error:
        print(f"alignatt-calibrate: {error}", file=sys.stderr)
        return 2
    except _FAILED as error:
        print(f"alignatt-calibrate: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nalignatt-calibrate: stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _calibrate(arguments: argparse.Namespace) -> int:
    if arguments.figures:
        require_matplotlib()
    try:
        plan = plan_from(arguments)
    except AlignerError as error:
        print(f"alignatt-calibrate: {error}", file=sys.stderr)
        return 2
    if isinstance(plan.aligner, EndpointAligner) and not arguments.yes:
        missing = not_aligned(plan.aligner, plan.all_pairs, plan.alignments, restart=plan.restart)
        if missing:
            print(
                f"word alignments would be asked from {arguments.endpoint}, about "
                f"{plan.aligner.estimate(missing)}.\nNothing was sent; add --yes to go on."
            )
            return 2
    done = calibrate(plan)
    if isinstance(plan.aligner, EndpointAligner) and plan.aligner.spent.requests:
        print(f"the endpoint answered: {plan.aligner.spent}")
    print_report(plan, done)
    if arguments.figures:
        drawn = figures_beside(
            plan.output, f"{plan.name}, {plan.direction}", done.outcome.rows, done.row, plan.top_k
        )
        for path in drawn:
            print(f"figure    {path}")
    return 0


def _name(model: str) -> str:
    """Head sets travel, so a folder of this machine is named by its last part only."""
    return Path(model).name if Path(model).is_absolute() else model


def _direction(text: str) -> tuple[Language, Language]:
    source, separator, target = text.partition("-")
    if not separator or not source or not target:
        raise LanguageError(f"--direction {text}: expected SOURCE-TARGET such as en-de")
    return language(source), language(target)


def _held_out(text: str) -> tuple[float, str | None]:
    try:
        share = float(text)
    except ValueError:
        return 0.0, text
    if not 0 < share < 1:
        raise PairsError(f"--held-out {text}: a share lies between 0 and 1")
    return share, None


if __name__ == "__main__":
    sys.exit(main())
