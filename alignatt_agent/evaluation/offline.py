r"""Run the cascade off-line on a dev set: the quality ceiling of its models.

Whole recordings are transcribed, in long pieces that end in pauses; then whole sentences are
translated, without a gate. The output is scored on the same segments as a streamed one: the
difference is the price of simultaneity.

Examples:
  alignatt offline --config micro-low --target de it zh --devset micro_models/devset \
      --output outputs/offline

  as the paper: every recording is transcribed at once (Qwen3-ASR takes up to 20 minutes)
  alignatt offline --config iwslt26-low --target de it zh --devset DIR --output OUT \
      --piece-s 1200 --set models.asr.engine.max_model_len=32768

  rows of both in one table: simulstream-eval ... --offline outputs/offline

OUT/transcript.txt holds one recording per line, OUT/TARGET/hypothesis.txt its translation,
OUT/TARGET/offline.json the scores with a signature.

exit status: 0 scored; 1 the run failed; 2 nothing was started
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate
from tqdm import tqdm

from alignatt_agent.cascade.contexts import check_requests
from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.config.agent_config import parse_overrides
from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.config.languages import language
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.config.sections import CONTEXTS
from alignatt_agent.config.terms import spoken_terms
from alignatt_agent.evaluation.agent_choice import MICRO_LABEL, AgentChoice, choose_agent
from alignatt_agent.evaluation.comet import comet_python, comet_sections
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.offline_audio import transcribe
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import check_scorer, omnisteval_arguments, run_omnisteval
from alignatt_agent.evaluation.wer import format_wer, word_error_rate
from alignatt_agent.speech.sentences import split_sentences
from alignatt_agent.types import AlignAttError, Word
from alignatt_agent.types.running_text import split_words

if TYPE_CHECKING:
    from alignatt_agent.cascade.loading import Engines

PIECE_S, MICRO_PIECE_S = 30.0, 8.0


def translate(
    resolved: Resolved, engines: Engines, transcripts: dict[str, str], target: str
) -> dict[str, str]:
    """Return the translation of every transcript, sentence by sentence and without a gate."""
    source, goal = language(resolved.config.source_language), language(target)
    found: dict[str, str] = {}
    for talk, text in transcripts.items():
        context = resolved.config.speech.context_of(talk)
        stream = open_stream(resolved, engines, source, [goal], context)
        translator = stream.targets[goal.code].translator
        sentences, rest = split_sentences(
            [Word(item, 0.0, 0.0) for item in split_words(text)], None
        )
        units: list[str] = []
        sentences += [tuple(rest)] if rest else []
        for sentence in tqdm(sentences, desc=f"{target} {talk}"):
            units += translator.complete(sentence).units
            translator.reset()
        joined = " ".join(units) if goal.spaced else "".join(units)
        found[talk] = " ".join(joined.split())
    return found


def run(
    choice: AgentChoice,
    engines: Engines,
    devset: DevSet,
    targets: Sequence[str],
    output: Path,
    longest_s: float,
) -> dict[str, dict[str, Any]]:
    """Run the cascade off-line on audio pieces of at most ``longest_s``, and write its scores."""
    assert choice.resolved is not None
    resolved, source = choice.resolved, choice.resolved.config.source_language
    output.mkdir(parents=True, exist_ok=True)
    context_of = resolved.config.speech.context_of
    transcripts = {
        talk.name: transcribe(
            engines, talk.wav, source, longest_s, spoken_terms(context_of(talk.name))
        )
        for talk in devset.talks
    }
    text = "".join(f"{transcripts[talk.name]}\n" for talk in devset.talks)
    (output / "transcript.txt").write_text(text, encoding="utf-8")
    errors = word_error_rate(devset, transcripts) if devset.transcript is not None else {}
    rows: dict[str, dict[str, Any]] = {}
    for target in targets:
        translations = translate(resolved, engines, transcripts, target)
        files, hypothesis = RunFiles(output / target), output / target / "hypothesis.txt"
        files.clean()
        text = "".join(f"{translations[talk.name]}\n" for talk in devset.talks)
        hypothesis.write_text(text, encoding="utf-8")
        given = omnisteval_arguments(files, devset, target, "text", hypothesis=hypothesis)
        found = run_omnisteval(given, files.folder)
        signature = {**choice.sign(devset, target, "off-line"), "piece_s": longest_s}
        scores = {"bleu": float(found["BLEU"]), "chrf": float(found["chrF"]), **errors}
        rows[target] = {**scores, "signature": signature}
        _write(files.folder, rows[target])
    return rows


def _write(folder: Path, row: dict[str, Any]) -> None:
    text = json.dumps(row, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "offline.json").write_text(text + "\n", encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("alignatt offline", **page(__doc__))
    add = parser.add_argument
    needed = {"required": True}
    shared_options(parser, "set", config=needed, target=needed, devset=needed, output=needed)
    text = (
        "longest piece of audio that the recognizer takes, in seconds; pieces end in pauses; "
        f"default {PIECE_S:.0f}, with the embedded models, which know single sentences, "
        f"{MICRO_PIECE_S:.0f}"
    )
    add("--piece-s", type=float, metavar="S", help=text)
    add("--comet", metavar="MODEL", help="score with COMET, as simulstream-eval")
    add("--comet-python", type=Path, metavar="FILE", help="interpreter with COMET")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    from alignatt_agent.cascade.loading import load_resolved, shutdown

    codes = [language(name).code for name in arguments.target]
    overrides = parse_overrides(arguments.overrides)
    contexts = arguments.devset / CONTEXTS
    choice = choose_agent(
        "alignatt4llm", arguments.config, overrides, None, codes, contexts, live=False
    )
    assert choice.resolved is not None
    spoken, output = choice.resolved.config.source_language, arguments.output
    devset = load_devset(arguments.devset, codes, output / "audio", spoken)
    check_scorer(codes)
    if arguments.comet:
        comet_python(arguments.comet_python)
    longest = arguments.piece_s or (MICRO_PIECE_S if choice.micro else PIECE_S)
    check_requests(choice.resolved, longest)
    try:
        engines = load_resolved(choice.resolved)
        rows = run(choice, engines, devset, codes, output, longest)
        shutdown()
        if arguments.comet:
            scored = [(RunFiles(output / code), devset, spoken, code) for code in rows]
            found = comet_sections(scored, arguments.comet, arguments.comet_python)
            for (code, row), section in zip(rows.items(), found, strict=True):
                row["comet"] = section
                _write(output / code, row)
    except AlignAttError as error:
        error.exit_status = 1  # something was started
        raise
    finally:
        shutdown()
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
