"""``python -m alignatt_agent.checks.bench``: what capture costs, everything paired."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from alignatt_agent.checks import bench_contenders, bench_report
from alignatt_agent.checks.bench_contenders import Contender, Running, Size, running
from alignatt_agent.checks.bench_duel import duel, duel_figures
from alignatt_agent.checks.bench_parts import early_stop, replay_cost, streams
from alignatt_agent.checks.bench_prompts import BenchPrompt, Nonces, bench_prompts
from alignatt_agent.checks.bench_rounds import race
from alignatt_agent.checks.bench_statistics import Bar
from alignatt_agent.config.quiet import quieten
from alignatt_agent.engine.transformers_engine import Seam
from alignatt_agent.evaluation.signature import device
from alignatt_agent.types import Readout

SEAMS: tuple[Seam, Seam] = ("eager", "sdpa")

EPILOG = """\
contenders, every vLLM one eager and compiled
  transformers eager          with all attention matrices materialised
  transformers sdpa qk-fast   fused attention, wanted rows recomputed
  vllm plain                  no capture worker
  vllm capture                rows of 8 heads with every draft
  vllm capture + early stop   and the gate inside the engine; here it never closes

cold: nothing of the prompt is in the prefix cache. warm: its whole blocks are, as in a stream.
The prompts are 60, 180 and 420 tokens long, half of them with an accepted prefix; drafts have 16
to 20 tokens and never end by themselves.

examples
  everything, some 30 minutes on two free cores:
    python -m alignatt_agent.checks.bench --output outputs/bench
  four minutes, to see that it works:
    python -m alignatt_agent.checks.bench --output outputs/bench --quick

exit status: 0 measured, whether or not the bars are met; 1 something failed
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure.

    Attributes:
        prompts: how many of the 16 prompts.
        race: seconds of the race of all contenders, for each model.
        starts: of each engine in the duel of plain against capture.
        duel: seconds of a race between those that were started together.
        rounds: rounds of the replay measurement.
        requests: requests that must leave nothing behind.
        streams: seconds of each number of streams.
        sentences: dev sentences for early stop.
    """

    prompts: int
    race: dict[str, float]
    starts: int
    duel: dict[str, float]
    rounds: dict[str, int]
    requests: dict[str, int]
    streams: float
    sentences: int


FULL = Plan(
    prompts=16,
    race={"micro": 120, "larger": 220},
    starts=4,
    duel={"micro": 20, "larger": 45},
    rounds={"micro": 8, "larger": 1},
    requests={"micro": 1000, "larger": 100},
    streams=5.0,
    sentences=24,
)
QUICK = Plan(
    prompts=6,
    race={"micro": 12, "larger": 25},
    starts=2,
    duel={"micro": 3, "larger": 6},
    rounds={"micro": 1, "larger": 1},
    requests={"micro": 100, "larger": 10},
    streams=1.0,
    sentences=4,
)


def measure(size: Size, plan: Plan) -> tuple[dict[str, Any], list[Bar]]:
    """Run everything on one model."""
    readout, name = Readout(size.heads, "predicting"), size.name
    tokenizer = bench_contenders.prompt_tokenizer()
    prompts, nonces = bench_prompts(tokenizer, plan.prompts), Nonces(len(tokenizer))
    few = prompts[:6]  # one of each kind
    rounds = duel(size, few, nonces, plan.starts, plan.duel[name])
    with contextlib.ExitStack() as stack:
        engines: dict[tuple[str, str], Running] = {}
        starts = [(kind, mode) for mode in bench_report.MODES for kind in ("plain", "capture")]
        for kind, mode in tqdm(starts, desc=f"{name}: starting engines"):
            heads = size.heads if kind == "capture" else ()
            engines[kind, mode] = stack.enter_context(running(size, heads, mode == "eager"))
        eager, fused = (bench_contenders.reference(size, seam) for seam in SEAMS)
        contenders = [
            Contender(bench_report.EAGER_HF, eager, readout),
            Contender(bench_report.FUSED_HF, fused, readout),
            *_vllm_contenders(engines, readout),
        ]
        plain, capture = engines["plain", "compiled"], engines["capture", "compiled"]
        everyone = race(contenders, prompts, nonces, plan.race[name], name)
        stop = None
        if size.trained:
            stop = early_stop(capture, size, readout, tokenizer, plan.sentences)
        reference = next(prompt for prompt in prompts if prompt.is_reference)
        figures = {
            "checkpoint": Path(size.model.path).name,
            "parameters": sum(p.numel() for p in eager.model.parameters()),
            "dtype": size.model.dtype,
            "heads": size.heads,
            "prompts": [[p.name, len(p.prompt.token_ids), p.tokens] for p in prompts],
            "race": bench_report.race_figures(everyone),
            "duel": duel_figures(rounds),
            "early_stop": stop,
            "streams": list(streams(capture, readout, reference, nonces, plan.streams, name)),
            "memory": _memory(capture, plain, prompts[0], plan.requests[name]),
            "workers": {" ".join(key): engine.describe() for key, engine in engines.items()},
            "idle_cpu_share": everyone.idle_cpu / everyone.busy,
        }
    figures["replay"] = _replay(size, few, plan.rounds[name])
    return figures, bench_report.bars(name, everyone, rounds, stop)


def _vllm_contenders(
    engines: Mapping[tuple[str, str], Running], readout: Readout
) -> Iterator[Contender]:
    for mode in bench_report.MODES:
        plain, capture = engines["plain", mode], engines["capture", mode]
        yield Contender(f"{bench_report.PLAIN}, {mode}", plain.drafts, owner=plain)
        yield Contender(f"{bench_report.CAPTURE}, {mode}", capture.drafts, readout, owner=capture)
        name = f"{bench_report.EARLY}, {mode}"
        yield Contender(name, capture.drafts, readout, gated=True, owner=capture)


def _replay(size: Size, prompts: Sequence[BenchPrompt], rounds: int) -> list[dict[str, Any]]:
    """Measure replay of one head, the usual 8 and all of them, on an engine each."""
    costs = []
    for heads in tqdm((size.heads[:1], size.heads, size.all_heads), desc=f"{size.name}: replay"):
        with running(size, heads, eager=True) as engine:
            costs.append(replay_cost(engine, heads, prompts, rounds))
    return costs


def _memory(capture: Running, plain: Running, prompt: BenchPrompt, requests: int) -> dict[str, Any]:
    """Measure memory, and whether requests leave anything behind."""
    readout = Readout(capture.heads, "predicting")
    before = capture.describe()["capture_bytes"]
    for _ in range(requests):
        capture.drafts.draft(prompt.prompt, 1, readout)
    (held, *_), after = capture.model.ask_workers("alignatt_held"), capture.describe()
    resident, peak = capture.resident_bytes()
    return {
        "resident_bytes": resident,
        "peak_resident_bytes": peak,
        "plain_resident_bytes": plain.resident_bytes()[0],
        "peak_device_bytes": after["peak_device_bytes"],
        "capture_bytes": after["capture_bytes"],
        "capture_bytes_before": before,
        "requests": requests,
        "rows_held": held,
    }


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m alignatt_agent.checks.bench",
        description="Measure what attention capture costs inside vLLM, and what vLLM saves, "
        "against Transformers; all contenders paired in one run.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of engine.json; the random-weight model is kept in DIR/models",
    )
    parser.add_argument(
        "--sizes",
        nargs="+",
        choices=("micro", "larger"),
        help="models to measure; default: both, only micro with --quick",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer prompts and shorter rounds: a smoke test"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    quieten()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(bench_contenders.threads())
    plan = QUICK if arguments.quick else FULL
    names = arguments.sizes or (["micro"] if arguments.quick else ["micro", "larger"])
    started = time.monotonic()
    report: dict[str, Any] = {
        "device": device(),
        "threads": torch.get_num_threads(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("alignatt_agent", "torch", "transformers")},
            "vllm": importlib.import_module("vllm").__version__,
        },
        "quick": arguments.quick,
        "plan": asdict(plan),
        "row": "predicting",
        "sizes": {},
        "bars": [],
    }
    for name in names:
        size = (
            bench_contenders.micro()
            if name == "micro"
            else bench_contenders.larger(arguments.output / "models")
        )
        lacking = bench_contenders.lacking_memory(size)
        if lacking:
            print(f"bench: {lacking}", file=sys.stderr)
            return 1
        report["sizes"][name], found = measure(size, plan)
        report["bars"] += [{**bar.as_dict(), "line": str(bar)} for bar in found]
    report["seconds"] = time.monotonic() - started
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "engine.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print("\n".join(bench_report.lines(report)))
    print(f"\nwritten to {path} after {report['seconds'] / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
