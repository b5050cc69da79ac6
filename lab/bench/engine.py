"""The race of the engines over several starts, and what it says."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from alignatt_agent.doctor.config_checks import weight_bytes
from lab.bench import contenders
from lab.bench.contenders import Size
from lab.bench.rounds import Nonces, bench_prompts, percentages, race, race_figures
from lab.commands import machine
from lab.results_pages.__main__ import PAGES, markdown


def engine_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the models of ``--sizes``."""
    torch.set_num_threads(contenders.threads())
    quick, started, sizes = arguments.quick, time.monotonic(), {}
    for name in arguments.sizes or (["micro"] if quick else ["micro", "larger"]):
        kept = arguments.output / "models"
        size = contenders.micro() if name == "micro" else contenders.larger(kept)
        sizes[name] = measure(size, quick)
    return {
        **machine(),
        "threads": torch.get_num_threads(),
        "quick": quick,
        "row": "predicting",
        "sizes": sizes,
        "seconds": time.monotonic() - started,
    }


def measure(size: Size, quick: bool) -> dict[str, Any]:
    """Race all contenders on a model, over several starts of their engines."""
    tokenizer = AutoTokenizer.from_pretrained(contenders.micro().model.path)
    prompts, nonces = bench_prompts(tokenizer, 6 if quick else 16), Nonces(len(tokenizer))
    starts, seconds, races = 2 if quick else 4, size.seconds * (0.2 if quick else 1), []
    for start in range(starts):
        with contenders.contenders(size) as listed:
            title = f"{size.name}: start {start + 1} of {starts}"
            races.append(race(listed, prompts[start::starts], nonces, seconds, title))
    return {
        "checkpoint": Path(size.model.path).name,
        "weight_bytes": weight_bytes(size.model),
        "dtype": size.model.dtype,
        "heads": size.heads,
        "prompts": [[p.name, len(p.prompt.token_ids), p.tokens] for p in prompts],
        "turns": [found.turns for found in races],
        "race": race_figures(races),
        "percent": percentages(races),
    }


def lines(report: dict[str, Any]) -> Iterator[str]:
    """Format the figures as the pages of results do."""
    yield f"{report['device']}, {report['threads']} threads for every contender"
    for table in PAGES["pages"]["engine"]["tables"]:
        yield f"\n{table['title']}\n{markdown(table, report)}"
