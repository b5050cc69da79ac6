"""Figures, verdicts and the printed table of the bench."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from alignatt_agent.checks.bench_duel import FLOOR, MEASURED, SPLITS, split
from alignatt_agent.checks.bench_prompts import BenchPrompt
from alignatt_agent.checks.bench_rounds import COLD, WARM, Race
from alignatt_agent.checks.bench_statistics import (
    Bar,
    Estimate,
    paired_ratio,
    slowdown_bar,
    speedup_bar,
    spread,
)

EAGER_HF, FUSED_HF = "transformers eager", "transformers sdpa qk-fast"

PLAIN, CAPTURE, EARLY = "vllm plain", "vllm capture", "vllm capture + early stop"

MODES = ("eager", "compiled")
"""How each of the three vLLM contenders runs."""

SLOWDOWN_LIMIT = {"micro": 15.0, "larger": 3.0}
"""Largest slowdown by capture on each model, in percent."""

SPEEDUP_LIMIT = {"micro": 3.0, "larger": 1.7}
"""Smallest speed-up over Transformers eager on each model, capture included."""

STEPS_LIMIT = 2.0
"""Most decode steps per accepted token with early stop."""

IDLE_LIMIT = 0.1
"""Processor time of the idle engines, as a share of the timed seconds, above which they compete."""


def race_figures(race: Race) -> dict[str, Any]:
    """Summarise a race: milliseconds per token, and ratios to the baselines, pair by pair."""
    figures: dict[str, Any] = {}
    kinds = sorted({prompt.name for prompt in race.prompts})
    for (name, state), values in race.milliseconds.items():
        entry: dict[str, Any] = {"ms_per_token": asdict(spread(values))}
        reference = race.of(name, state, _is_reference)
        if reference:
            entry["ms_per_token_180_20"] = asdict(spread(reference))
        entry["cpu_ms_per_token"] = race.engine_cpu.get((name, state))
        entry["by_prompt"] = {
            kind: asdict(spread(race.of(name, state, partial(_is_kind, kind)))) for kind in kinds
        }
        for baseline, base in (
            ("plain", race.of(f"{PLAIN}, {name.rpartition(', ')[2]}", state)),
            ("transformers_eager", race.of(EAGER_HF, COLD) if state == COLD else []),
        ):
            if base:
                entry[f"ratio_to_{baseline}"] = asdict(paired_ratio(values, base))
        figures[f"{name}, {state}"] = entry
    return figures


def _is_kind(kind: str, prompt: BenchPrompt) -> bool:
    return prompt.name == kind


def _is_reference(prompt: BenchPrompt) -> bool:
    return prompt.is_reference


def bars(size: str, race: Race, rounds: Sequence[Race], stop: dict[str, Any] | None) -> list[Bar]:
    """Hold the figures of one model against what the engine has to show.

    Args:
        size: ``"micro"`` or ``"larger"``.
        race: with all contenders.
        rounds: of the duel.
        stop: figures of early stop on prompts as a stream makes them.
    """
    found = []
    for state in (WARM, COLD):
        name = f"{size}: capture of 8 heads against plain, compiled, {state}"
        slowdown, floor = (split(rounds, key, state) for key in (MEASURED, FLOOR))
        found.append(slowdown_bar(name, slowdown, floor, SLOWDOWN_LIMIT[size]))
    ours = f"{CAPTURE}, compiled"
    for state in (COLD, WARM):
        name = f"{size}: capture of 8 heads, compiled, {state}, over Transformers eager"
        theirs = race.of(EAGER_HF, COLD)
        found.append(speedup_bar(name, race.of(ours, state), theirs, SPEEDUP_LIMIT[size]))
    if stop is not None:
        before = stop["draft-then-scan"]["steps_per_accepted_token"]
        figure = stop["early stop"]["steps_per_accepted_token"]
        name = f"{size}: decode steps per accepted token with early stop"
        found.append(
            Bar(name, figure, STEPS_LIMIT, False, f"draft-then-scan {before:.3g}, dev sentences")
        )
    return found


def lines(report: dict[str, Any]) -> Iterator[str]:
    """Format a report for people."""
    yield f"{report['device']}, {report['threads']} threads for every contender"
    for size, figures in report["sizes"].items():
        yield ""
        yield (
            f"{size}: {figures['checkpoint']}, {figures['parameters'] / 1e6:.1f} M parameters; "
            f"milliseconds per token, median (quartiles)"
        )
        heading = ("cold", "warm", "processor", "to plain", "to HF eager")
        yield "  {:<36}{:>22}{:>22}{:>11}{:>10}{:>13}".format("", *heading)
        yield from _contender_lines(figures["race"])
        yield from _duel_lines(figures["duel"])
        yield "  replay per draft, ms: " + "; ".join(
            f"{part['heads']} heads {part['replay']:.3g} (begin {part['begin']:.2g}, finish "
            f"{part['finish']:.2g}, fetch {part['fetch']:.2g}; processor {part['replay_cpu']:.3g}; "
            f"a remote call {part['call']:.2g}; with rows - without {part['whole']:.3g})"
            for part in figures["replay"]
        )
        yield "  streams: " + "; ".join(
            f"{part['streams']}: {part['tokens_per_s']:.0f} tokens/s, {part['drafts_per_s']:.1f} "
            "drafts/s"
            for part in figures["streams"]
        )
        for name, part in (figures["early_stop"] or {}).items():
            yield (
                f"  {name}: {part['steps_per_accepted_token']:.2f} steps and "
                f"{part['ms_per_accepted_token']:.2f} ms per accepted token, "
                f"{part['ms_per_generated_token']:.2f} ms per generated token"
            )
        memory = figures["memory"]
        yield (
            f"  memory: engine {memory['resident_bytes'] / 2**20:.0f} MiB resident with capture, "
            f"{memory['plain_resident_bytes'] / 2**20:.0f} without; capture buffers "
            f"{memory['capture_bytes'] / 2**20:.1f} MiB; rows held of {memory['requests']} "
            f"requests: {memory['rows_held']}"
        )
        share = figures["idle_cpu_share"]
        verdict = "" if share <= IDLE_LIMIT else ": they compete, the figures are not to be trusted"
        yield f"  idle engines used {100 * share:.1f} % of the timed seconds{verdict}"
    yield ""
    for bar in report["bars"]:
        yield bar["line"]


def _contender_lines(race: dict[str, Any]) -> Iterator[str]:
    names = dict.fromkeys(key.rpartition(", ")[0] for key in race)
    for name in names:
        cold, warm = race.get(f"{name}, {COLD}", {}), race.get(f"{name}, {WARM}", {})
        to_plain = (warm or cold).get("ratio_to_plain")
        to_eager = cold.get("ratio_to_transformers_eager")
        yield (
            f"  {name:<36}{_spread(cold):>22}{_spread(warm):>22}"
            f"{(warm or cold)['cpu_ms_per_token'] or 0:>11.3g}"
            f"{_median(to_plain):>10}{_median(to_eager):>13}"
        )


def _duel_lines(duel: dict[str, Any]) -> Iterator[str]:
    starts = len(duel["turns"])
    yield f"  compiled, {starts} starts of each engine: % slower (95 % interval over starts)"
    for name in SPLITS:
        found = [str(Estimate(**duel["percent"][f"{name}, {state}"])) for state in (COLD, WARM)]
        yield f"    {name:<34}{found[0]:>22}{found[1]:>22}"


def _median(ratio: dict[str, float] | None) -> str:
    return f"{ratio['median']:.3f}" if ratio else "-"


def _spread(entry: dict[str, Any]) -> str:
    if not entry:
        return "-"
    figure = entry["ms_per_token"]
    return f"{figure['median']:.3g} ({figure['q1']:.3g}-{figure['q3']:.3g})"
