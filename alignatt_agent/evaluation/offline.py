r"""Run the cascade off-line on a dev set to measure the quality ceiling of its models.

Whole recordings are transcribed in long pieces that end in pauses. Then whole sentences are
translated without a gate. The output is scored on the same segments as streamed output; the
difference between the scores is the cost of simultaneity.

Examples:
  alignatt offline --config micro-low --target de it zh --devset micro_models/devset \
      --output outputs/offline

  transcribe every recording in one piece, as in the paper (Qwen3-ASR accepts up to 20 minutes):
  alignatt offline --config iwslt26-low --target de it zh --devset DIR --output OUT \
      --piece-s 1200 --set models.asr.engine.max_model_len=32768

  show off-line and streamed scores in one table: simulstream-eval ... --offline outputs/offline

OUT/transcript.txt contains the transcripts, one recording per line. OUT/TARGET/hypothesis.txt
contains the translations, and OUT/TARGET/offline.json contains the scores and a signature.

exit status: 0 success; 1 the run failed; 2 failure before the start
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate
from tqdm import tqdm

from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.config.agent_config import parse_overrides
from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.terms import spoken_terms
from alignatt_agent.evaluation.agent_choice import MICRO_LABEL
from alignatt_agent.evaluation.comet import check_environment, comet_sections
from alignatt_agent.evaluation.offline_audio import transcribe
from alignatt_agent.evaluation.plan import EvalRun, plan
from alignatt_agent.evaluation.run_files import write_json
from alignatt_agent.evaluation.score import omnisteval_arguments, run_omnisteval
from alignatt_agent.evaluation.wer import format_wer, word_error_rate
from alignatt_agent.text.running_text import split_words
from alignatt_agent.text.sentences import split_sentences
from alignatt_agent.types import AlignAttError, Word

if TYPE_CHECKING:
    from alignatt_agent.cascade.engines import Engines

PIECE_S, MICRO_PIECE_S = 30.0, 8.0

OUTPUT = "offline.json"


def translate(
    resolved: Resolved, engines: Engines, transcripts: dict[str, str], target: str
) -> dict[str, str]:
    """Translate every transcript sentence by sentence, without a gate."""
    source, goal = language(resolved.config.source_language), language(target)
    found: dict[str, str] = {}
    for talk, text in transcripts.items():
        context = resolved.config.speech.context_of(talk)
        stream = open_stream(resolved, engines, source, [goal], context)
        translator = stream.targets[goal.code].translator
        sentences, rest = split_sentences(
            [Word(item, 0.0, 0.0) for item in split_words(text)], None, source.code
        )
        units: list[str] = []
        sentences += [tuple(rest)] if rest else []
        for sentence in tqdm(sentences, desc=f"{target} {talk}"):
            units += translator.complete(sentence).units
            translator.reset()
        found[talk] = (" " if goal.spaced else "").join("".join(units).split())
    return found


def run(
    runs: Sequence[EvalRun], resolved: Resolved, engines: Engines, output: Path, longest_s: float
) -> dict[str, dict[str, Any]]:
    """Run the cascade off-line on pieces of at most ``longest_s`` seconds; write the scores."""
    devset, source = runs[0].devset, runs[0].source
    output.mkdir(parents=True, exist_ok=True)
    transcripts: dict[str, str] = {}
    for talk in devset.talks:
        terms = spoken_terms(resolved.config.speech.context_of(talk.name))
        transcripts[talk.name] = transcribe(engines, talk.wav, source, longest_s, terms)
    _write_lines(output / "transcript.txt", transcripts)
    errors = word_error_rate(devset, transcripts, source) if devset.transcript is not None else {}
    rows: dict[str, dict[str, Any]] = {}
    for one in runs:
        translations = translate(resolved, engines, transcripts, one.target)
        folder = one.files.folder
        one.files.clean()
        _write_lines(folder / "hypothesis.txt", translations)
        given = omnisteval_arguments(
            one.files, devset, one.target, "text", hypothesis=folder / "hypothesis.txt"
        )
        found = run_omnisteval(given, folder)
        signature = {**one.signature, "latency": "off-line", "piece_s": longest_s}
        scores = {"bleu": float(found["BLEU"]), "chrf": float(found["chrF"]), **errors}
        rows[one.target] = {**scores, "signature": signature}
        write_json(folder / OUTPUT, rows[one.target])
    return rows


def _write_lines(path: Path, texts: Mapping[str, str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts.values()), encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    parser = argparse.ArgumentParser("alignatt offline", **page(__doc__))
    add = parser.add_argument
    needed = {"required": True}
    shared_options(parser, "set", config=needed, target=needed, devset=needed, output=needed)
    text = (
        "maximum length of audio pieces for the recognizer, in seconds; pieces end in pauses; "
        f"default {PIECE_S:.0f}, or {MICRO_PIECE_S:.0f} with the embedded models, which transcribe "
        "single sentences"
    )
    add("--piece-s", type=float, metavar="S", help=text)
    add("--comet", metavar="MODEL", help="also score with COMET, as simulstream-eval does")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    runs = plan(
        "alignatt4llm",
        [arguments.config],
        parse_overrides(arguments.overrides),
        None,
        arguments.target,
        arguments.devset,
        arguments.output,
        live=False,
    )
    for one in runs:
        one.files.refuse_run(own=OUTPUT)
    choice = runs[0].choice
    assert choice is not None
    if arguments.comet:
        check_environment()
    longest = arguments.piece_s or (MICRO_PIECE_S if choice.micro else PIECE_S)
    runtime = choice.cls.runtime
    runtime.check(choice.resolved, longest)
    try:
        with closing(runtime):
            engines = runtime.load(choice.resolved)
            rows = run(runs, choice.resolved, engines, arguments.output, longest)
        if arguments.comet:
            found = comet_sections(runs, arguments.comet)
            for one, section in zip(runs, found, strict=True):
                rows[one.target]["comet"] = section
                write_json(one.files.folder / OUTPUT, rows[one.target])
    except AlignAttError as error:
        error.exit_status = 1  # the models were already loaded
        raise
    print(table(rows))
    if choice.micro:
        print(f"** {MICRO_LABEL} **")
    return 0


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Format the scores for a terminal."""
    shown = [
        (target, row["bleu"], row["chrf"], format_wer(row), row.get("comet", {}).get("score"))
        for target, row in rows.items()
    ]
    head = ("target", "BLEU", "chrF", "WER % [95 % interval]", "COMET")
    digits = ("", ".2f", ".2f", "", ".4f")
    return str(tabulate(shown, head, floatfmt=digits, numalign="right", missingval="-"))
