"""Measure what attention capture and early stop cost and save; all contenders paired in one run.

engine: milliseconds per token, everything paired; every vLLM contender eager and compiled
  transformers eager          with all attention matrices materialised
  transformers sdpa qk-fast   fused attention, wanted rows recomputed
  vllm plain                  no capture worker
  vllm capture                rows of 8 heads with every draft
  vllm capture + early stop   and the gate inside the engine; here it never closes
cold: nothing of the prompt is in the prefix cache. warm: its whole blocks are, as in a stream.
The prompts are 60, 180 and 420 tokens long, half of them with an accepted prefix; drafts have 16
to 20 tokens and never end by themselves. All engines are started several times, since two
processes of the same engine differ by some percent; memory is read after many requests.

early-stop: decoding steps and milliseconds per emitted token with whole drafts, with drafts that
end inside the engine where the gate closes, and with the last draft verified; decoding
steps per transcript with and without verification. All transcripts and emissions have to be the
same. Where several drafts have to agree, the gate on single drafts is measured, too.

streams: many at once on the same engines; each has to emit what it emits alone. With --paced the
audio comes by the clock; lag is the time from the end of a chunk's audio to its emission.

targets: one stream with all targets, as in alignatt translate, against a stream for each; share is
the part of the time, share_of_stages the part that the streams' stage times predict.

schedules: the lag of units by the clock (median, 95 %, mean, and how much it grew from the first to
the last quarter) where stages run in turn, overlap, or never wait, with engines slowed by sleeps.

Examples:
  everything, about an hour on two free cores:
    python -m lab.bench --output outputs/bench
  some minutes, to see that it works:
    python -m lab.bench --output outputs/bench --quick
  how many speakers this machine keeps up with, and how late it is for more of them:
    python -m lab.bench --output outputs/bench --only streams --streams 1 2 4 8 16 32 --paced
  what overlapping stages gain, on a whole talk, also where stages in turn are too slow:
    python -m lab.bench --output outputs/bench --only schedules --seconds 73 --loads 0.5 0.8 1.2
  what 10,000 requests leave behind in the engine:
    python -m lab.bench --output outputs/bench --only engine --sizes micro --requests 10000

writes OUT/engine.json, OUT/early_stop.json, OUT/streams.json, OUT/targets.json, OUT/schedules.json

exit status: 0 measured, and streams emit what they have to; 1 they do not, or something failed;
2 nothing was started
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate
from transformers import AutoTokenizer
from transformers.utils import logging

from alignatt_agent.cascade.loading import Engines
from alignatt_agent.cli import report_errors
from alignatt_agent.config.command_line import page, shared_options
from alignatt_agent.config.machine import device, versions
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor import speakers
from alignatt_agent.doctor.config_checks import weight_bytes
from alignatt_agent.evaluation.plots import FigureError
from alignatt_agent.types import Prompt
from lab.bench import contenders, schedules, streams, targets
from lab.bench.contenders import CAPTURE, PLAIN, Contender, Size
from lab.bench.rounds import (
    COLD,
    SPLITS,
    WARM,
    Nonces,
    bench_prompts,
    percentages,
    race,
    race_figures,
)
from lab.bench.streams_plot import draw_lags

PARTS = ("engine", "early-stop", "streams", "targets", "schedules")

EARLY_STOP = (
    "config", "target", "drafts", "chunks", "identical", "tokens",
    "steps a transcript", "verified", "steps a token", "early", "verified",
    "ms a token", "early", "verified",
)  # fmt: skip
"""Heads of the table of early stop."""


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("python -m lab.bench", **page(__doc__))
    add = parser.add_argument
    shared_options(parser, output={"required": True})
    text = f"parts to run, of: {', '.join(PARTS)}; default all"
    add("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=text)
    add("--quick", action="store_true", help="less of everything: to see that it works")
    add = parser.add_argument_group("engine").add_argument
    text = "embedded model and one of 200 M parameters, kept in OUT/models; --quick: only micro"
    add("--sizes", nargs="+", choices=("micro", "larger"), help=text)
    text = "requests that must leave nothing behind; default 1000, with --quick 100"
    add("--requests", type=int, metavar="N", help=text)
    group = parser.add_argument_group("early-stop, streams, targets, schedules")
    add = group.add_argument
    text = "of the same models; other parts than early-stop take the first; default %(default)s"
    shared_options(
        group,
        config={"nargs": "+", "default": ["micro-low", "micro-high"], "help": text},
        target={"default": ["de", "it", "zh"]},
        devset={"default": Path("micro_models/devset")},
    )
    text = "how many at once, one number after the other; default %(default)s"
    add("--streams", type=int, nargs="+", default=[16], metavar="N", help=text)
    text = "deliver the audio by the clock and measure the lag of what is emitted"
    add("--paced", action="store_true", help=text)
    add("--seconds", type=float, default=30.0, help="of each; default %(default)s")
    text = "schedules: real-time factors that stages in turn are slowed to; default %(default)s"
    loads = schedules.LOADS
    add("--loads", type=float, nargs="+", default=loads, metavar="RTF", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args(argv)
    logging.disable_progress_bar()
    if arguments.quick:
        arguments.target, arguments.config = arguments.target[:1], arguments.config[:1]
        arguments.streams, arguments.seconds = arguments.streams[:1], 10.0
    arguments.output.mkdir(parents=True, exist_ok=True)
    if "engine" in arguments.only:
        report = engine_report(arguments)
        _write(arguments.output / "engine.json", report)
        print("\n".join(lines(report)))
    if set(arguments.only) == {"engine"}:
        return 0
    with streams.opened(arguments.config, arguments.target) as (configs, engines):
        good, first = True, configs[arguments.config[0]]
        talks = speakers.talks(arguments.devset)
        chosen = talks[:1] if arguments.quick else talks
        if "early-stop" in arguments.only:
            rows = list(streams.early_stop(configs, engines, arguments.target, chosen))
            _write(arguments.output / "early_stop.json", rows)
            print(tabulate([row.values() for row in rows], EARLY_STOP, floatfmt=".2f"))
            good = streams.saves(rows)
        if "streams" in arguments.only:
            good &= _streams(arguments, first, engines)
        if "targets" in arguments.only:
            found = targets.shared_recognition(first, engines, arguments.target, chosen)
            _write(arguments.output / "targets.json", found)
            print(tabulate([found], "keys"))
            good &= found["identical"] and found["units"] > 0
        if "schedules" in arguments.only:
            jobs = speakers.excerpts(arguments.devset, arguments.target, 1, arguments.seconds)
            rows = list(schedules.schedules(first, engines, jobs[0], arguments.loads))
            _write(arguments.output / "schedules.json", {"device": device(), "rows": rows})
            print(tabulate(rows, "keys"))
    return 0 if good else 1


def _streams(arguments: argparse.Namespace, resolved: Resolved, engines: Engines) -> bool:
    """Measure many streams at once; returns whether each emitted what it emits alone."""
    counts = sorted(set(arguments.streams))
    jobs = speakers.excerpts(arguments.devset, arguments.target, counts[-1], arguments.seconds)
    rows: list[dict[str, Any]] = []
    found = {"device": device(), "chunk_ms": resolved.config.chunk_ms, "rows": rows}
    for row in speakers.together(resolved, engines, jobs, counts, arguments.paced):
        rows.append(row)
        _write(arguments.output / "streams.json", found, quiet=True)
    print(tabulate(rows, "keys", floatfmt=".3g"))
    if arguments.paced:
        found["kept_up_with"] = most = speakers.knee(rows)
        _write(arguments.output / "streams.json", found)
        chunk = f"chunks of {resolved.config.chunk_ms} ms"
        print(f"kept up with: {most} streams (95 % of {chunk} are done before the next is there)")
        try:
            path = arguments.output / "streams.png"
            draw_lags(rows, most, resolved.config.chunk_ms / 1000, path)
        except FigureError as error:
            print(f"no figure: {error}")
    return all(row["identical"] == row["streams"] and row["units"] > 0 for row in rows)


def _write(path: Path, document: Any, quiet: bool = False) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if not quiet:
        print(f"\nwritten to {path}")


def engine_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the models of ``--sizes``."""
    torch.set_num_threads(contenders.threads())
    quick, started, sizes = arguments.quick, time.monotonic(), {}
    for name in arguments.sizes or (["micro"] if quick else ["micro", "larger"]):
        kept = arguments.output / "models"
        size = contenders.micro() if name == "micro" else contenders.larger(kept)
        sizes[name] = measure(size, quick, arguments.requests or (100 if quick else 1000))
    return {
        "device": device(),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "quick": quick,
        "row": "predicting",
        "sizes": sizes,
        "seconds": time.monotonic() - started,
    }


def measure(size: Size, quick: bool, requests: int) -> dict[str, Any]:
    """Race all contenders on a model, over several starts of their engines."""
    contenders.check_memory(size)
    tokenizer = AutoTokenizer.from_pretrained(contenders.micro().model.path)
    prompts, nonces = bench_prompts(tokenizer, 6 if quick else 16), Nonces(len(tokenizer))
    starts, seconds, races = 2 if quick else 4, size.seconds * (0.2 if quick else 1), []
    for start in range(starts):
        with contenders.contenders(size) as listed:
            title = f"{size.name}: start {start + 1} of {starts}"
            races.append(race(listed, prompts[start::starts], nonces, seconds, title))
            if start == starts - 1:
                memory = memory_of(listed, prompts[0].prompt, requests)
    return {
        "checkpoint": Path(size.model.path).name,
        "weight_bytes": weight_bytes(size.model),
        "dtype": size.model.dtype,
        "heads": size.heads,
        "prompts": [[p.name, len(p.prompt.token_ids), p.tokens] for p in prompts],
        "turns": [found.turns for found in races],
        "race": race_figures(races),
        "percent": percentages(races),
        "memory": memory,
    }


def memory_of(listed: Sequence[Contender], prompt: Prompt, requests: int) -> dict[str, Any]:
    """Return resident bytes of plain and capturing engines, and what requests leave behind."""
    plain, capture = (x for x in listed if x.name in (f"{PLAIN}, compiled", f"{CAPTURE}, compiled"))
    figures = {"requests": requests, "plain_resident_bytes": plain.resident_bytes()}
    for number in range(requests):
        capture.engine.draft(prompt, 1, capture.readout)
        if number == min(99, requests - 1):
            figures["early_resident_bytes"] = capture.resident_bytes()
    assert capture.served is not None
    held = sum(capture.served.ask_workers("alignatt_held"))
    return {**figures, "resident_bytes": capture.resident_bytes(), "rows_held": held}


def lines(report: dict[str, Any]) -> Iterator[str]:
    """Format the figures of the engine for people."""
    yield f"{report['device']}, {report['threads']} threads for every contender"
    for name, figures in report["sizes"].items():
        yield (
            f"\n{name}: {figures['checkpoint']}, {figures['weight_bytes'] / 2**20:.1f} MiB of "
            "weights; milliseconds per token, median (quartiles)"
        )
        timed, percent, memory = figures["race"], figures["percent"], figures["memory"]
        names = dict.fromkeys(key.rpartition(", ")[0] for key in timed)
        headers = ("", COLD, WARM, "processor", "to plain", "to HF eager")
        yield _table([_row(name, timed) for name in names], headers)
        yield f"\ncompiled, {len(figures['turns'])} starts: % slower (95 % interval over starts)"
        rows = [
            [name, *(_percent(percent[f"{name}, {x}"]) for x in (COLD, WARM))] for name in SPLITS
        ]
        yield _table(rows, ("", COLD, WARM))
        mib = {key: f"{size / 2**20:.1f}" for key, size in memory.items()}
        yield (
            f"\nmemory: {mib['plain_resident_bytes']} MiB resident without capture; with it "
            f"{mib['early_resident_bytes']} after {min(100, memory['requests'])} requests, "
            f"{mib['resident_bytes']} after {memory['requests']}, {memory['rows_held']} rows held"
        )


def _row(name: str, timed: dict[str, Any]) -> list[str]:
    cold, warm = timed[f"{name}, {COLD}"], timed.get(f"{name}, {WARM}", {})
    best = warm or cold
    times = [entry.get("ms_per_token") for entry in (cold, warm)]
    ratios = [best.get("ratio_to_plain"), cold.get("ratio_to_transformers_eager")]
    return [
        name,
        *(f"{x['median']:.3g} ({x['q1']:.3g}-{x['q3']:.3g})" if x else "-" for x in times),
        f"{best['cpu_ms_per_token']:.3g}",
        *(f"{x['median']:.3f}" if x else "-" for x in ratios),
    ]


def _percent(found: dict[str, float]) -> str:
    return f"{found['percent']:+.1f} ({found['low']:+.1f} to {found['high']:+.1f})"


def _table(rows: Iterable[Sequence[Any]], headers: Sequence[str]) -> str:
    return str(tabulate(rows, headers, "plain", disable_numparse=True))


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.bench", main))
