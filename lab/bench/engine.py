"""The race of the engines over several starts, and what it says."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from alignatt_agent.doctor.config_checks import weight_bytes
from alignatt_agent.types import Prompt
from lab.bench import contenders
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
from lab.commands import machine, table


def engine_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the models of ``--sizes``."""
    torch.set_num_threads(contenders.threads())
    quick, started, sizes = arguments.quick, time.monotonic(), {}
    for name in arguments.sizes or (["micro"] if quick else ["micro", "larger"]):
        kept = arguments.output / "models"
        size = contenders.micro() if name == "micro" else contenders.larger(kept)
        sizes[name] = measure(size, quick, arguments.requests or (100 if quick else 1000))
    return {
        **machine(),
        "threads": torch.get_num_threads(),
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
        yield table([_row(name, timed) for name in names], headers)
        yield f"\ncompiled, {len(figures['turns'])} starts: % slower (95 % interval over starts)"
        rows = [
            [name, *(_percent(percent[f"{name}, {x}"]) for x in (COLD, WARM))] for name in SPLITS
        ]
        yield table(rows, ("", COLD, WARM))
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
