r"""Stream a dev set through an agent with the official harness, score it, print a signed table.

Examples:
  the embedded micro models on the embedded dev set, three targets, engines loaded once:
    simulstream-eval --config micro-low --target de it zh \
        --devset micro_models/devset --output outputs/dev-low

  the same without the gate, for comparison:
    simulstream-eval --config micro-low --set policy.name=none --target de \
        --devset micro_models/devset --output outputs/no-gate

  both operating points of the paper on the IWSLT 2026 dev set, with XCOMET-XL; the same command
  resumes an interrupted call:
    simulstream-eval --config iwslt26-low iwslt26-high --target de it zh --comet xcomet-xl \
        --devset DIR --output OUT --resume

  the latency that a listener experiences: audio in real time (takes as long as the talks):
    simulstream-eval --config micro-low --target de --paced --devset DIR --output OUT

  on a cluster, one talk and target per worker; talks of a lost node are repeated, and --resume
  continues after the last finished talk:
    simulstream-eval --config iwslt26-low --target de it zh --ray 10.0.0.1:6379 \
        --devset DIR --output OUT --resume

  with the off-line scores of the same models in the same table:
    alignatt offline --config micro-low --target de --devset DIR --output OFFLINE
    simulstream-eval --config micro-low --target de --devset DIR --output OUT --offline OFFLINE

  score an existing log, ours or another system's (Simulstream or OmniSTEval JSONL):
    simulstream-eval --score-only metrics.jsonl --target de --devset DIR --output OUT

  the same if its units are pieces of words; spm.yaml names what joins them, for SentencePiece
  "detokenizer_type: simuleval" and "latency_unit: spm", for any other tokenizer
  "detokenizer_type: hf" and "hf_model_name: FOLDER":
    simulstream-eval --score-only metrics.jsonl --log-config spm.yaml --target de --devset DIR \
        --output OUT

a dev set is
    DIR/audio-segments.yaml   list of {wav, offset, duration}, seconds, grouped by recording
    DIR/ref/TARGET.txt        one reference per segment
    DIR/ref/SOURCE.txt        the transcript, for word error rate and COMET; optional
    DIR/wav/*                 one unsegmented talk each (or in DIR/audio, or in DIR). Files other
                              than 16 kHz mono 16-bit WAV (stereo, MP3, MP4, FLAC, ...) are
                              converted into OUT/audio
    DIR/contexts/TALK.txt     names and terms of a talk, for the recognizer; optional

a run writes OUT/report.html, OUT/report.md and, per target, OUT/TARGET/ (OUT/CONFIG/TARGET/)
    agent.yaml      the resolved configuration; simulstream_inference takes it unchanged
    metrics.jsonl   Simulstream's log, fresh in every run
    steps.jsonl     the trace of each chunk: transcript, stage times, decisions
    scores.json     bleu, chrf, longyaal_cu_ms, longyaal_ca_ms, rtf, further measures (paced lag,
                    StreamLAAL, word error rate, stage times, regime, COMET) and a signature
    scores.tsv, evaluation_report.txt, instances.resegmented.jsonl   written by OmniSTEval

the paced column is LongYAAL in real time, backlog included: a chunk is computed once it has arrived
and all earlier chunks are done. Without --paced it is simulated from the measured compute times.

exit status: 0 scored; 1 the run or the scoring failed; 2 nothing was started
"""

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from alignatt_agent.cluster.connection import add_options, options_of
from alignatt_agent.config.agent_config import ConfigError, parse_overrides
from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.evaluation.agent_choice import known_agents
from alignatt_agent.evaluation.comet import MODELS, PYTHON, check_python
from alignatt_agent.evaluation.plan import plan, plan_log
from alignatt_agent.evaluation.run import evaluate, print_commands


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("simulstream-eval", **page(__doc__))
    add = parser.add_argument
    text = (
        f"entry point of the group simulstream.agents ({', '.join(known_agents())}), dotted class, "
        "or path of a Simulstream YAML; default %(default)s"
    )
    add("--agent", default="alignatt4llm", help=text)
    shared_options(
        parser,
        "source",
        "set",
        config={"nargs": "+"},
        target={"required": True},
        devset={"required": True, "help": "dev set, see below"},
        output={"required": True},
    )
    text = (
        "skip targets that were finished with an equal signature; interrupted ones start again "
        "with fresh logs"
    )
    add("--resume", action="store_true", help=text)
    add("--paced", action="store_true", help="deliver the audio in real time, see below")
    text = "score N runs at a time, after streaming; default %(default)s"
    add("--jobs", type=int, default=1, metavar="N", help=text)
    text = (
        f"also score with COMET: {', '.join(MODELS)}, an id on the hub, or a checkpoint; needs "
        "`make setup-comet`"
    )
    add("--comet", metavar="MODEL", help=text)
    text = "interpreter with COMET; default %(default)s"
    add("--comet-python", type=Path, default=PYTHON, metavar="FILE", help=text)
    text = "also show the scores in this output of alignatt offline (same models, same dev set)"
    add("--offline", type=Path, metavar="DIR", help=text)
    text = "score this log instead of running an agent"
    add("--score-only", type=Path, metavar="LOG", help=text)
    text = (
        "with --score-only: YAML with detokenizer_type and latency_unit of a Simulstream log; "
        "default: agent.yaml next to it"
    )
    add("--log-config", type=Path, metavar="YAML", help=text)
    text = "with --score-only: elapsed times accumulate over a talk, as in SimulEval's logs"
    add("--fix-simuleval-ca", action="store_true", help=text)
    add_options(parser, "stream")
    text = "sets of engines; default: as many as fit on the cluster"
    add("--ray-workers", type=int, metavar="N", help=text)
    text = "check everything and print the equivalent commands without loading models"
    add("--dry-run", action="store_true", help=text)
    add("--version", action="version", version=f"%(prog)s {version('alignatt-agent')}")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    cluster = options_of(arguments, arguments.ray_workers)
    if arguments.comet:
        check_python(arguments.comet_python)
    root = arguments.output
    if arguments.fix_simuleval_ca and arguments.score_only is None:
        raise ConfigError("--fix-simuleval-ca has no meaning without --score-only")
    if arguments.score_only is not None:
        if len(arguments.target) != 1:
            raise ConfigError("--score-only scores one log: name exactly one --target")
        run = plan_log(
            arguments.score_only,
            arguments.target[0],
            arguments.devset,
            arguments.output,
            arguments.log_config,
            arguments.source or "en",
            arguments.fix_simuleval_ca,
        )
        runs, root = [run], run.files.folder
    else:
        runs = plan(
            arguments.agent,
            arguments.config or [None],
            parse_overrides(arguments.overrides),
            arguments.source,
            arguments.target,
            arguments.devset,
            arguments.output,
            arguments.paced,
        )
    if arguments.dry_run:
        print("all checks passed; no model was loaded")
        print_commands(runs)
        return 0
    return evaluate(
        runs,
        root,
        resume=arguments.resume,
        paced=arguments.paced,
        jobs=arguments.jobs,
        comet=arguments.comet,
        comet_python=arguments.comet_python,
        offline=arguments.offline,
        cluster=cluster,
    )
