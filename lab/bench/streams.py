"""Streams at once on the engines of one configuration."""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tabulate import tabulate

from alignatt_agent.cascade.loading import Engines, load_resolved, shutdown
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.machine import device
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.doctor import speakers
from alignatt_agent.engine.memory_plan import resolve
from lab.commands import write_json


@contextmanager
def opened(name: str, targets: Sequence[str]) -> Iterator[tuple[Resolved, Engines]]:
    """Start the engines of a configuration, and end them."""
    resolved = resolve(load_config(name), targets)
    try:
        yield resolved, load_resolved(resolved)
    finally:
        shutdown()


def measure(arguments: argparse.Namespace) -> bool:
    """Measure many streams at once; returns whether each emitted what it emits alone."""
    counts, rows = sorted(set(arguments.streams)), []
    jobs = speakers.excerpts(arguments.devset, arguments.target, counts[-1], arguments.seconds)
    with opened(arguments.config, arguments.target) as (resolved, engines):
        chunk_ms = resolved.config.chunk_ms
        found: dict[str, Any] = {"device": device(), "chunk_ms": chunk_ms, "rows": rows}
        for row in speakers.together(resolved, engines, jobs, counts, arguments.paced):
            rows.append(row)
            write_json(arguments.output / "streams.json", found)
    print(tabulate(rows, "keys", floatfmt=".3g"))
    if arguments.paced:
        found["kept_up_with"] = most = speakers.knee(rows)
        write_json(arguments.output / "streams.json", found)
        chunk = f"chunks of {chunk_ms} ms"
        print(f"kept up with: {most} streams (95 % of {chunk} are done before the next is there)")
    return all(row["identical"] == row["streams"] and row["units"] > 0 for row in rows)
