r"""Draft one sentence, show the source words that each word attends to, and the gate's decision.

Example:
  python -m lab.explain "We have trained the large model that our students should" \
      --config micro-low --target de --accessible 7 --prefix "Wir haben"
"""

import argparse
import sys
from collections.abc import Sequence

from alignatt_agent.config.agent_config import ConfigError, load_config, parse_overrides
from alignatt_agent.config.checkpoints import locate_one
from alignatt_agent.config.command_line import shared_options
from alignatt_agent.config.head_set_choice import head_set_for
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import readout_for
from alignatt_agent.translation.prompt import PromptBuilder
from lab.commands import parser
from lab.explain.reconstruction import Reconstruction, explain
from lab.reference import Reference


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    options = parser("lab.explain", __doc__)
    add = options.add_argument
    add("text", help="transcript of the source sentence so far")
    shared_options(
        options,
        "set",
        config={"required": True},
        target={"required": True, "nargs": None, "help": "target language (code or name)"},
    )
    text = "number of accessible words; default: all"
    add("--accessible", type=int, metavar="N", help=text)
    add("--prefix", default="", metavar="TEXT", help="translation that has already been emitted")
    return options


def _explained(arguments: argparse.Namespace) -> Reconstruction:
    config = load_config(arguments.config, parse_overrides(arguments.overrides))
    source, target = language(config.source_language), language(arguments.target)
    words = arguments.text.split()
    accessible = len(words) if arguments.accessible is None else arguments.accessible
    if not words or not 1 <= accessible <= len(words):
        raise ConfigError(
            f"--accessible {accessible}: expected 1 to {len(words)} words of the source"
        )
    readout = readout_for(config, head_set_for(config, source, target.code), target)
    engine = Reference(str(locate_one(config.models.translation)))
    return explain(
        engine,
        engine.tokenizer,
        PromptBuilder.of(engine.tokenizer, config.prompt, source, target),
        readout,
        config.policy_for(target.code).alone(),
        words,
        accessible,
        arguments.prefix,
        spaced=target.spaced,
        max_tokens=config.max_draft_tokens,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    print(_explained(build_parser().parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
