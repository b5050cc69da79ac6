r"""Stream a dev set through an agent with the official harness, and score the output.

Examples:
  evaluate the embedded models on the embedded dev set; all three targets share the engines:
    simulstream-eval --config micro-low --target de it zh \
        --devset micro_models/devset --output outputs/dev-low

  evaluate both operating points of the paper on the IWSLT 2026 dev set, also with XCOMET-XL; run
  the command again to resume an interrupted run:
    simulstream-eval --config iwslt26-low iwslt26-high --target de it zh --comet xcomet-xl \
        --devset DIR --output OUT --resume

  stream in real time to measure a listener's latency (this takes as long as the talks):
    simulstream-eval --config micro-low --target de --paced --devset DIR --output OUT

  stream on a cluster, one talk and target at a time per worker; talks of a lost node are streamed
  again, and --resume skips finished talks:
    simulstream-eval --config iwslt26-low --target de it zh --ray 10.0.0.1:6379 \
        --devset DIR --output OUT --resume

  score an existing log of this or another system (Simulstream or OmniSTEval JSONL):
    simulstream-eval --score-only metrics.jsonl --target de --devset DIR --output OUT

  score a log whose units are subwords; spm.yaml states how to join them. For SentencePiece, write
  "detokenizer_type: simuleval" and "latency_unit: spm". For the tokenizer of a speech model in
  Transformers, write "detokenizer_type: hf" and "hf_model_name: ID":
    simulstream-eval --score-only metrics.jsonl --log-config spm.yaml --target de --devset DIR \
        --output OUT

a dev set consists of
    DIR/audio-segments.yaml   list of {wav, offset, duration} grouped by recording; times in seconds
    DIR/ref/TARGET.txt        one reference per segment
    DIR/ref/SOURCE.txt        the transcript, for word error rate and COMET; optional
    DIR/wav/*                 one unsegmented talk per file (also in DIR/audio or DIR); files
                              other than 16 kHz mono 16-bit WAV (e.g. stereo, MP3, MP4) are
                              converted and stored in OUT/audio
    DIR/contexts/TALK.txt     names and terms of a talk, for the recognizer; optional

A run writes OUT/report.html, OUT/report.md and, for each target, these files in OUT/TARGET/
(OUT/CONFIG/TARGET/ if there are several configurations):
    agent.yaml      the resolved configuration, which simulstream_inference also accepts
    metrics.jsonl   Simulstream's log, overwritten by every run
    steps.jsonl     the trace of each chunk: transcript, stage times, decisions
    scores.json     bleu, chrf, longyaal_cu_ms, longyaal_ca_ms, rtf, further measures (paced lag,
                    StreamLAAL, word error rate, stage times, regime, COMET) and a signature
    scores.tsv, evaluation_report.txt, instances.resegmented.jsonl   written by OmniSTEval

The column "paced" shows LongYAAL in real time, which includes the time that chunks wait for earlier
chunks. Without --paced, this value is simulated from the measured computation times.

exit status: 0 success; 1 the run or the scoring failed; 2 failure before the start
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alignatt_agent.cluster.connection import add_options, options_of
from alignatt_agent.config.agent_config import ConfigError, parse_overrides
from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.evaluation.agent_choice import known_agents
from alignatt_agent.evaluation.comet import MODELS, CometError, check_environment
from alignatt_agent.evaluation.plan import EvalRun, plan, plan_log
from alignatt_agent.evaluation.run import add_comet, score_all, write_reports
from alignatt_agent.evaluation.score import read_ceilings
from alignatt_agent.evaluation.stream import prepare, stream_all
from alignatt_agent.evaluation.talk_jobs import stream_on_cluster


def build_parser() -> argparse.ArgumentParser:
    """Build the argument parser."""
    parser = argparse.ArgumentParser("simulstream-eval", **page(__doc__))
    add = parser.add_argument
    text = (
        f"entry point in the group simulstream.agents ({', '.join(known_agents())}) or dotted name "
        "of a subclass of AlignAttAgent; default %(default)s"
    )
    add("--agent", default="alignatt4llm", help=text)
    either = parser.add_mutually_exclusive_group(required=True)
    shared_options(either, config={"nargs": "+"})
    text = "score this log instead of running an agent"
    either.add_argument("--score-only", type=Path, metavar="LOG", help=text)
    shared_options(
        parser,
        "source",
        "set",
        target={"required": True},
        devset={"required": True, "help": "dev set; see below"},
        output={"required": True},
    )
    text = (
        "skip targets that an earlier run finished with the same signature; restart interrupted "
        "targets with new logs"
    )
    add("--resume", action="store_true", help=text)
    add("--paced", action="store_true", help="deliver the audio in real time; see below")
    text = "after streaming, score N runs in parallel; default %(default)s"
    add("--jobs", type=int, default=1, metavar="N", help=text)
    text = (
        f"also score with COMET: {', '.join(MODELS)}, a hub ID or a checkpoint; needs "
        "`make setup-comet`"
    )
    add("--comet", metavar="MODEL", help=text)
    text = "also show the scores from this output folder of `alignatt offline`"
    add("--offline", type=Path, metavar="DIR", help=text)
    text = (
        "with --score-only: YAML file with the detokenizer_type and latency_unit of the log; "
        "default: agent.yaml in the log's folder"
    )
    add("--log-config", type=Path, metavar="YAML", help=text)
    add_options(parser, "stream")
    text = "number of engine sets; default: as many as fit on the cluster"
    add("--ray-workers", type=int, metavar="N", help=text)
    text = "check everything and print the equivalent commands without loading models"
    add("--dry-run", action="store_true", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Stream runs that have no log, score all runs and write reports; return the exit status."""
    arguments = build_parser().parse_args(argv)
    cluster = options_of(arguments, arguments.ray_workers)
    if arguments.comet:
        check_environment()
    runs = _plan(arguments)
    if arguments.dry_run:
        print("all checks passed; no model was loaded")
        print_commands(runs)
        return 0
    _print_notes(runs)
    ceilings: list[dict[str, Any]] = []
    if arguments.offline:
        ceilings = read_ceilings(arguments.offline, [run.signature for run in runs])
    pending: list[EvalRun] = []
    for run in runs:
        if run.log is not None:
            continue
        if arguments.resume and run.streamed:
            state = "scored" if run.scored else "streamed"
            print(f"{run.label}: skipped; already {state} with the same signature")
        else:
            pending.append(run)
    # All runs are prepared before the first one streams, so that no old score remains after a
    # failure.
    for run in pending:
        prepare(run, keep_talks=arguments.resume and cluster is not None)
    if cluster is not None and pending:
        complete = stream_on_cluster(pending, cluster, arguments.paced)
    else:
        complete = stream_all(pending, arguments.paced)
    # Targets that were finished before a failure are scored, too.
    finished = [run for run in runs if run.log is not None or run.files.finished.is_file()]
    scored = score_all(finished, arguments.jobs)
    if len(scored) < len(runs):
        complete = False
    if arguments.comet and scored:
        try:
            scored = add_comet(scored, arguments.comet)
        except CometError as error:
            print(f"simulstream-eval: COMET: {error}", file=sys.stderr)
            complete = False
    if scored:
        folder = runs[0].files.folder if arguments.score_only else arguments.output
        write_reports(scored, ceilings, folder)
        print_commands(runs)
    return 0 if complete else 1


def _plan(arguments: argparse.Namespace) -> list[EvalRun]:
    if arguments.score_only is None:
        return plan(
            agent=arguments.agent,
            configs=arguments.config,
            overrides=parse_overrides(arguments.overrides),
            source=arguments.source,
            targets=arguments.target,
            devset=arguments.devset,
            output=arguments.output,
            paced=arguments.paced,
        )
    if len(arguments.target) != 1:
        raise ConfigError("--score-only scores one log: specify exactly one language with --target")
    run = plan_log(
        log=arguments.score_only,
        target=arguments.target[0],
        devset=arguments.devset,
        output=arguments.output,
        log_config=arguments.log_config,
        source=arguments.source or "en",
    )
    return [run]


def _print_notes(runs: Sequence[EvalRun]) -> None:
    """Print the notes on the dev set, which all targets share, once."""
    notes: dict[str, None] = {}
    for run in runs:
        notes.update(dict.fromkeys(run.devset.notes))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)


def print_commands(runs: Sequence[EvalRun]) -> None:
    """Print the equivalent official commands."""
    print("\nequivalent official commands:")
    for run in runs:
        for command in run.commands:
            print(f"  {command}")
