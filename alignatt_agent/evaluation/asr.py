"""Evaluate the speech recognition of a run: word error rate, latency and errors in the live tail.

The report shows the error rate of the live tail by distance to the end of the audio, and suggests
a hold-back. The command reads the records of a run and loads no models.

Example:
  alignatt asr outputs/dev-low/de --devset micro_models/devset --output outputs/asr

RUN is a target folder written by simulstream-eval. All targets share the same transcript. DIR is a
dev set that contains ref/SOURCE.txt. A word's emission time is the time when the word became
accessible to the translation or, if the word changed later, the time of its last change.

The results are written to OUT/asr.json. If the extra `plots` is installed, a plot is written to
OUT/tail_error.svg.

exit status: 0 success; 2 a file is missing
"""

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.evaluation.plots import FigureError, tail_error_plot
from alignatt_agent.evaluation.run_files import RunFiles, write_json
from alignatt_agent.evaluation.score import ScoringError, check_scorer, score, scorer_settings
from alignatt_agent.evaluation.trace import TalkStep, read_steps
from alignatt_agent.evaluation.wer import (
    TailErrors,
    format_wer,
    reference_transcripts,
    streamed_transcripts,
    tail_errors,
    word_error_rate,
)
from alignatt_agent.text.running_text import common_prefix

RESULT = "asr.json"


def transcript_log(records: Iterable[TalkStep]) -> list[dict[str, Any]]:
    """Return the accessible words as a Simulstream log; revised words become deleted tokens."""
    lines: list[dict[str, Any]] = []
    talk = ""
    number = -1
    committed: list[str] = []
    logged: list[str] = []
    for record in records:
        if record.talk != talk:
            talk = record.talk
            number += 1
            committed = []
            logged = []
            lines.append({"id": number, "metadata": {"wav_name": f"{talk}.wav"}})
        for sentence in record.heard.sentences:
            committed += [word.text for word in sentence]
        live = record.heard.live
        accessible = committed + [word.text for word in live.words[: live.accessible]]
        # From the first changed word on, all words are logged again: the latency of a word is that
        # of its last change.
        unchanged = common_prefix(logged, accessible)
        lines.append(
            {
                "id": number,
                "total_audio_processed": record.audio_s,
                "computation_time": record.seconds["asr"] + record.seconds["aligner"],
                "generated_tokens": accessible[unchanged:],
                "deleted_tokens": logged[unchanged:],
            }
        )
        logged = accessible
    return lines


def transcript_latency(
    records: Iterable[TalkStep], devset: DevSet, source: str, folder: Path
) -> dict[str, float | None]:
    """Score the latency of the accessible words as if they were emitted text."""
    files = RunFiles(folder)
    files.clean()  # diagnose has refused folders of runs
    lines = transcript_log(records)
    files.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    files.config.write_text(yaml.safe_dump(scorer_settings(source)), encoding="utf-8")
    scores = score(files, devset, source, parse_log(files.metrics))
    return {
        "longyaal_cu_ms": scores.longyaal_cu_ms,
        "longyaal_ca_ms": scores.longyaal_ca_ms,
        "rtf": scores.rtf,
    }


def tail_report(errors: TailErrors) -> dict[str, Any]:
    """Return the error rate of each bin and the suggested hold-back."""
    lows, highs = errors.bands()
    word_counts = errors.words.sum(0).tolist()
    columns = zip(errors.edges_s, errors.rates(), lows, highs, word_counts, strict=False)
    bins = [
        {
            "from_ms": round(1000 * edge_s),
            "error": _percent(rate),
            "low": _percent(low),
            "high": _percent(high),
            "words": words,
        }
        for edge_s, rate, low, high, words in columns
    ]
    hold_back_s = errors.hold_back_s()
    hold_back_ms = None if hold_back_s is None else round(1000 * hold_back_s)
    return {"bins": bins, "hold_back_ms": hold_back_ms}


def diagnose(run: Path, devset: Path, source: str, output: Path) -> dict[str, Any]:
    """Evaluate the speech recognition of a run, and write ``asr.json`` and the plot.

    Raises:
        DevSetError: the dev set has problems, or lacks a talk of the run or a transcript.
        OutputError: ``output`` contains a run.
        ScoringError: ``run`` contains no trace, or the scorer failed.
    """
    code = language(source).code
    RunFiles(output).refuse_run(result_name=RESULT)
    check_scorer([code])
    # The transcript of the speech is scored like a translation into the spoken language.
    checked = load_devset(devset, [code], output, code, audio=False)
    path = RunFiles(run).records
    if not path.is_file():
        raise ScoringError(f"{path} does not exist: {run} is not a target folder of a streamed run")
    records = list(read_steps(path))
    errors = tail_errors(records, reference_transcripts(checked), language(code).spaced)
    report = {
        **word_error_rate(checked, streamed_transcripts(records), code),
        **transcript_latency(records, checked, code, output),
        "tail": tail_report(errors),
    }
    write_json(output / RESULT, report)
    try:
        (output / "tail_error.svg").write_text(tail_error_plot(errors), encoding="utf-8")
    except FigureError as error:
        print(f"alignatt asr: no plot: {error}", file=sys.stderr)
    return report


def table(report: dict[str, Any]) -> str:
    """Format the report for a terminal."""
    rows = []
    for tail_bin in report["tail"]["bins"]:
        if not tail_bin["words"]:
            continue
        band = f"{tail_bin['low']:.1f} - {tail_bin['high']:.1f}"
        rows.append((tail_bin["from_ms"], tail_bin["error"], band, tail_bin["words"]))
    head = ("ms before the end", "error %", "90 % band", "words")
    hold_back_ms = report["tail"]["hold_back_ms"]
    suggestion = "no hold-back suggested: too few words"
    if hold_back_ms is not None:
        suggestion = (
            f"suggested hold-back: {hold_back_ms} ms (speech.hold_back_ms); the error rate of "
            f"older words is stable"
        )
    lines = [
        f"WER {format_wer(report)} % (95 % bootstrap interval; with case and punctuation "
        f"{report['wer_exact']:.2f} %), CER {report['cer']:.2f} %, "
        f"LongYAAL CU {_whole(report['longyaal_cu_ms'])} ms, "
        f"CA {_whole(report['longyaal_ca_ms'])} ms, "
        f"RTF {report['rtf']:.3f}",
        "",
        tabulate(rows, head, stralign="right", floatfmt=".1f"),
        "",
        suggestion,
    ]
    return "\n".join(lines)


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    parser = argparse.ArgumentParser("alignatt asr", **page(__doc__))
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="target folder written by simulstream-eval")
    shared_options(
        parser,
        source={"default": "en", "help": "spoken language; default %(default)s"},
        devset={"required": True},
        output={"required": True},
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    arguments = build_parser().parse_args(argv)
    report = diagnose(
        run=arguments.run,
        devset=arguments.devset,
        source=arguments.source,
        output=arguments.output,
    )
    print(table(report))
    return 0


def _whole(value: float | None) -> str:
    return "nan" if value is None else f"{value:.0f}"


def _percent(rate: float) -> float | None:
    """Return a rate in percent, or ``None``, as JSON has no NaN."""
    if math.isnan(rate):
        return None
    return round(100 * rate, 2)
