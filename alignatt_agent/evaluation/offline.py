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
    source = language(resolved.config.source_language)
    target_language = language(target)
    joiner = " " if target_language.spaced else ""
    translations: dict[str, str] = {}
    for talk, transcript in transcripts.items():
        context = resolved.config.speech.context_of(talk)
        stream = open_stream(resolved, engines, source, [target_language], context)
        translator = stream.targets[target_language.code].translator
        # Only the text of the words is read; off-line transcripts have no word times.
        words = [Word(text, 0.0, 0.0) for text in split_words(transcript)]
        sentences, rest = split_sentences(words, None, source.code)
        if rest:
            sentences.append(tuple(rest))
        units: list[str] = []
        for sentence in tqdm(sentences, desc=f"{target} {talk}"):
            units += translator.complete(sentence).units
            translator.reset()
        # Each talk is one line of the output file.
        translations[talk] = joiner.join("".join(units).split())
    return translations


def run(
    runs: Sequence[EvalRun], resolved: Resolved, engines: Engines, output: Path, longest_s: float
) -> dict[str, dict[str, Any]]:
    """Run the cascade off-line on pieces of at most ``longest_s`` seconds; write the scores."""
    devset = runs[0].devset
    source = runs[0].source
    output.mkdir(parents=True, exist_ok=True)
    transcripts: dict[str, str] = {}
    for talk in devset.talks:
        terms = spoken_terms(resolved.config.speech.context_of(talk.name))
        transcripts[talk.name] = transcribe(engines, talk.wav, source, longest_s, terms)
    # All targets share the transcripts, which are written before translation can fail.
    _write_lines(output / "transcript.txt", transcripts)
    errors: dict[str, Any] = {}
    if devset.transcript is not None:
        errors = word_error_rate(devset, transcripts, source)
    rows: dict[str, dict[str, Any]] = {}
    for target_run in runs:
        target = target_run.target
        translations = translate(resolved, engines, transcripts, target)
        files = target_run.files
        files.clean()
        hypothesis = files.folder / "hypothesis.txt"
        _write_lines(hypothesis, translations)
        arguments = omnisteval_arguments(files, devset, target, "text", hypothesis)
        scores = run_omnisteval(arguments, files.folder)
        rows[target] = {
            "bleu": float(scores["BLEU"]),
            "chrf": float(scores["chrF"]),
            **errors,
            "signature": {**target_run.signature, "latency": "off-line", "piece_s": longest_s},
        }
        write_json(files.folder / OUTPUT, rows[target])
    return rows


def _write_lines(path: Path, texts: Mapping[str, str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts.values()), encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    parser = argparse.ArgumentParser("alignatt offline", **page(__doc__))
    add = parser.add_argument
    shared_options(
        parser,
        "set",
        config={"required": True},
        target={"required": True},
        devset={"required": True},
        output={"required": True},
    )
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
        agent="alignatt4llm",
        configs=[arguments.config],
        overrides=parse_overrides(arguments.overrides),
        source=None,
        targets=arguments.target,
        devset=arguments.devset,
        output=arguments.output,
        live=False,
    )
    for target_run in runs:
        target_run.files.refuse_run(result_name=OUTPUT)
    choice = runs[0].choice
    assert choice is not None
    if arguments.comet:
        check_environment()
    default_s = MICRO_PIECE_S if choice.micro else PIECE_S
    longest_s = arguments.piece_s or default_s
    runtime = choice.cls.runtime
    runtime.check(choice.resolved, longest_s)
    try:
        with closing(runtime):
            engines = runtime.load(choice.resolved)
            rows = run(runs, choice.resolved, engines, arguments.output, longest_s)
        # COMET follows when the engines are closed, because its model needs the GPU.
        if arguments.comet:
            sections = comet_sections(runs, arguments.comet)
            for target_run, section in zip(runs, sections, strict=True):
                row = rows[target_run.target]
                row["comet"] = section
                write_json(target_run.files.folder / OUTPUT, row)
    except AlignAttError as error:
        error.exit_status = 1  # the models were already loaded
        raise
    print(table(rows))
    if choice.micro:
        print(f"** {MICRO_LABEL} **")
    return 0


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Format the scores for a terminal."""
    scores = []
    for target, row in rows.items():
        comet = row.get("comet", {}).get("score")
        scores.append((target, row["bleu"], row["chrf"], format_wer(row), comet))
    head = ("target", "BLEU", "chrF", "WER % [95 % interval]", "COMET")
    digits = ("", ".2f", ".2f", "", ".4f")
    return str(tabulate(scores, head, floatfmt=digits, numalign="right", missingval="-"))
