"""Select the rows of the tables of results from the JSON files."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from inspect import cleandoc
from itertools import groupby
from operator import itemgetter
from typing import Any

from pydantic import BaseModel

from alignatt_agent.policy import POLICIES, Policy
from lab.curves.grid import HINDSIGHT

Row = dict[str, Any]
TARGETS = ("de", "it", "zh")


def listed(*files: Row) -> Iterator[Row]:
    """Yield the files' own rows."""
    for data in files:
        yield from data["rows"]


# ------------------------------------------------------------------ policies
def policies() -> Iterator[Row]:
    """Yield every policy and its keys, with the text of their docstrings."""
    yield from _described("all policies", Policy, {"name"}, "")
    for name, kind in POLICIES.items():
        yield from _described(f"**`{name}`**", kind, Policy.model_fields, f" Reads {kind.reads}.")


def _described(
    name: str, kind: type[BaseModel], without: Container[str], suffix: str
) -> Iterator[Row]:
    meanings: dict[str, str] = {}
    # A class describes only the keys that it adds or changes, so its parents come first.
    for parent in reversed(kind.__mro__):
        docstring = cleandoc(parent.__doc__ or "")
        meanings |= re.findall(r"^    (\w+): (.+(?:\n     .+)*)", docstring, re.MULTILINE)
    # The last docstring is that of the policy itself.
    summary = docstring.partition("\n")[0]
    yield {"key": name, "default": "", "meaning": summary + suffix}
    for key, field in kind.model_fields.items():
        if key in without:
            continue
        meaning = " ".join(meanings[key].split())
        yield {"key": f"`{key}`", "default": f"`{field.default}`", "meaning": meaning}


# ------------------------------------------------------------------ the embedded dev set
def embedded_summary(data: Row) -> Iterator[Row]:
    """Yield one row per run of the completing translator, with lists over the targets."""
    for run, rows in _completing_runs(data["rows"]).items():
        yield {**_lists(rows), "command": f"`make {run}`"}
    for run, rows in _completing_runs(data["offline"]).items():
        yield {
            **_lists(rows),
            "longyaal_cu_ms": "off-line",
            "longyaal_ca_ms": "",
            "rtf": "",
            "command": f"`alignatt {run}`",
        }


def _completing_runs(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the rows of each run of the completing translator, in the order of ``TARGETS``."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        if "follows" not in row["run"]:
            runs.setdefault(row["run"], []).append(row)
    for run in runs.values():
        run.sort(key=lambda row: TARGETS.index(row["target"]))
    return runs


def _lists(rows: Sequence[Row]) -> Row:
    """Return one row with the values of several rows as lists."""
    lists: Row = {name: [] for name in rows[0]}
    for row in rows:
        for name, values in lists.items():
            values.append(row.get(name))
    return lists


def devset(data: Row) -> Iterator[Row]:
    """Yield streamed and off-line runs with their word error rates."""
    for row in (*data["rows"], *data.get("offline", ())):
        # Streamed runs have a part about the transcript, off-line runs have its figures.
        transcript = row.get("transcript") or row
        word_errors: Row | None = None
        if transcript.get("wer") is not None:
            low, high = transcript.get("wer_interval") or (None, None)
            word_errors = {"value": transcript["wer"], "low": low, "high": high}
        yield {**row, "wer": word_errors}


def clock(data: Row) -> Iterator[Row]:
    """Yield the runs that were replayed in real time."""
    for row in data["rows"]:
        if row.get("paced"):
            yield row


# ------------------------------------------------------------------ real models
SUMMARIZED = {
    ("alignatt", "low"): "`laptop-low`",
    ("alignatt", "high"): "`laptop-high`",
    ("local_agreement", "2 drafts, chunk 1000"): "agreement of two drafts",
}
"""Names of runs in the summary of real models, by policy and label."""


def real_summary(claims: Row, offline: Row) -> Iterator[Row]:
    """Yield one row per policy with lists over the targets, and the off-line scores."""
    for (curve, label), name in SUMMARIZED.items():
        figures = _figures_by_target(claims, curve, label)
        yield {"name": name, "target": list(TARGETS), **figures}
    by_target = {row["signature"]["target"]: row for row in offline["rows"]}
    yield {
        "name": "off-line",
        "target": list(TARGETS),
        "cu_ms": "off-line",
        "bleu": [by_target[code]["bleu"] for code in TARGETS],
        "chrf": [by_target[code]["chrf"] for code in TARGETS],
    }


COMPARED = {
    ("alignatt", "low"): "gate (`laptop-low`)",
    ("alignatt", "high"): "gate (`laptop-high`)",
    (
        "alignatt",
        "2 drafts, margin -2, hold-back 100, chunk 1000",
    ): "gate and agreement of two drafts",
    ("local_agreement", "2 drafts, chunk 1000"): "agreement of two drafts",
    ("hold_n", "n 4, chunk 1000"): "`hold_n`, n = 4",
    ("wait_k", "k 6, rate 1.0, chunk 1000"): "`wait_k`, k = 6",
    ("confidence", "probability 0.5, chunk 1000"): "`confidence`, probability 0.5",
    ("none", "whole drafts, chunk 1000"): "`none`",
}
"""Names of the policies that evidence.md compares, by policy and label."""


def real_policies(claims: Row) -> Iterator[Row]:
    """Yield one row per policy with lists over the targets, and what `laptop-high` gains."""
    for (curve, label), name in COMPARED.items():
        gains = [_gain(claims["differences"], code, "high", curve, label) for code in TARGETS]
        yield {"name": name, **_figures_by_target(claims, curve, label), "gain": gains}


ORACLE = "own off-line translation, chunk 500"
"""Label of the oracle."""
BOUNDED = {
    ("alignatt", "low"): "gate and 2 drafts (`default-low`)",
    ("alignatt", "high"): "gate and 3 drafts (`default-high`)",
    ("local_agreement", "2 drafts, chunk 500"): "agreement of 2 drafts",
    ("local_agreement", "3 drafts, chunk 500"): "agreement of 3 drafts",
    ("local_agreement", "4 drafts, chunk 500"): "agreement of 4 drafts",
    ("oracle", ORACLE): "oracle",
}
"""Names of the policies with chunks of 500 ms that evidence.md compares, by policy and label."""


def real_bounds(data: Row) -> Iterator[Row]:
    """Yield one row per policy, with what it gains over agreement and what the oracle gains.

    The gain over agreement is at equal latency. The gain of the oracle is the plain difference.
    """
    margins = _margins_over_agreement(data)
    for (curve, label), name in BOUNDED.items():
        yield {
            "name": name,
            **_figures_by_target(data, curve, label),
            "over_agreement": [margins.get((code, label)) for code in TARGETS],
            "oracle": [_gain(data["differences"], code, ORACLE, curve, label) for code in TARGETS],
        }


def _figures_by_target(claims: Row, curve: str, label: str) -> Row:
    """Return the figures of a policy with a label, as lists over the targets."""
    figures: Row = {"bleu": [], "chrf": [], "cu_ms": []}
    for code in TARGETS:
        run = _run(claims["targets"][code]["runs"], curve, label)
        for key, values in figures.items():
            values.append(run[key]["value"])
    return figures


def _gain(differences: list[Row], target: str, point: str, curve: str, label: str) -> Row | None:
    """Return the BLEU of an operating point or bound minus that of a policy, if it was computed."""
    for difference in differences:
        compared = difference["target"], difference["point"], difference["label"]
        # The name of a curve begins with its policy.
        if compared == (target, point, label) and difference["curve"].startswith(curve):
            return dict(difference["bleu"])
    return None


def _run(runs: list[Row], curve: str, label: str) -> Row:
    """Return the run of a policy with a label."""
    for run in runs:
        if run["curve"].startswith(curve) and run["label"] == label:
            return run
    raise KeyError(f"no run of {curve} with the label {label}")


# ------------------------------------------------------------------ curves and claims
def curves(*files: Row) -> Iterator[Row]:
    """Yield the points of the grid; a later file adds points."""
    points: dict[tuple[str, str], dict[str, Row]] = {}
    for data in files:
        for code, target in data["targets"].items():
            for run in target["runs"]:
                points.setdefault((run["curve"], run["label"]), {})[code] = run
    for (curve, label), runs in points.items():
        row: Row = {"curve": curve, "label": label, "bleu": [], "cu_ms": []}
        for code in TARGETS:
            run = runs.get(code)
            # A point may be measured for some of the targets only.
            row["bleu"].append(None if run is None else run["bleu"]["value"])
            row["cu_ms"].append(None if run is None else run["cu_ms"]["value"])
        yield row


def points(data: Row) -> Iterator[Row]:
    """Yield the runs of a sweep, target by target, with their intervals."""
    for code, target in data["targets"].items():
        for run in target["runs"]:
            yield {"target": code, **run}


def bench(*files: Row) -> Iterator[Row]:
    """Yield the rules of the policy bench, target by target, by rising lag."""
    for data in files:
        for code, rules in data["targets"].items():
            for row in sorted(rules, key=lambda row: float(row["lag"]["value"])):
                yield {"target": code, "words": data["words"], **row}


def numbers(data: Row) -> Iterator[Row]:
    """Yield the counts of wrong numbers, target by target."""
    for code, rules in data["targets"].items():
        for row in rules:
            yield {"target": code, **row}


def differences(data: Row) -> Iterator[Row]:
    """Yield operating points minus single runs of rivals, and the means of all targets."""
    for row in (*data["differences"], *_means(data, "differences")):
        # Choices in hindsight are no runs.
        if row["curve"] != HINDSIGHT:
            yield row


def margins(data: Row) -> Iterator[Row]:
    """Yield the operating points against agreement at equal latency, and the means of all targets.

    Each row has the margins of all qualities.
    """
    rows: dict[tuple[str, str], Row] = {}
    for comparison in (*data["dominance"]["comparisons"], *_means(data, "comparisons")):
        if (comparison["rival"], comparison["latency"]) != ("local_agreement", "cu_ms"):
            continue
        target, point = comparison["target"], comparison["point"]
        row = rows.setdefault((target, point), {"target": target, "point": point})
        row[comparison["quality"]] = comparison["margin"]
    yield from rows.values()


def _means(data: Row, key: str) -> Iterator[Row]:
    """Yield the means of all targets; a sweep of one target has none."""
    for row in data.get("means", {}).get(key, ()):
        yield {"target": "mean", **row}


def claims(*files: Row) -> Iterator[Row]:
    """Yield operating points against agreement; a later file replaces points of an earlier one."""
    runs: dict[tuple[str, str], Row] = {}
    margins: dict[tuple[str, str], Row | None] = {}
    for data in files:
        for code, target in data["targets"].items():
            for run in target["runs"]:
                if run["name"].startswith("operating"):
                    runs[code, run["label"]] = run
        margins |= _margins_over_agreement(data)
    for (code, point), run in runs.items():
        margin = margins[code, point] or "not comparable"
        yield {**run, "point": point, "target": code, "margin": margin}


def _margins_over_agreement(data: Row) -> dict[tuple[str, str], Row | None]:
    """Return BLEU margins over the curve of agreement, by target and operating point.

    A margin is ``None`` where the latency of the point is outside the curve.
    """
    margins: dict[tuple[str, str], Row | None] = {}
    for comparison in data["dominance"]["comparisons"]:
        rival, target = comparison["rival"], comparison["target"]
        if rival != "local_agreement":
            continue
        if (comparison["latency"], comparison["quality"]) != ("cu_ms", "bleu"):
            continue
        curve = [run for run in data["targets"][target]["runs"] if run["curve"] == rival]
        latencies = [run["cu_ms"]["value"] for run in curve]
        inside = min(latencies) <= comparison["latency_ms"] <= max(latencies)
        margins[target, comparison["point"]] = comparison["margin"] if inside else None
    return margins


def ablation(finishes: Row, follows: Row) -> Iterator[Row]:
    """Yield changed settings, for both translators."""
    settings = zip(finishes["ablation"]["de"], follows["ablation"]["de"], strict=True)
    for completing, following in settings:
        yield {"label": completing["label"], "finishes": completing, "follows": following}


# ------------------------------------------------------------------ head sets
def head_sets(*files: Row) -> Iterator[Row]:
    """Yield head sets with the number of their heads."""
    for data in files:
        yield {**data, "count": len(data["heads"])}


def both_rows(*files: Row) -> Iterator[Row]:
    """Yield the held-out scores of head sets, for both conventions of a row."""
    for data in files:
        for name, scores in sorted(data["rows"].items()):
            yield {"direction": data["direction"], "row": name, **data["held_out"], **scores}


# ------------------------------------------------------------------ the engine
def race(data: Row) -> Iterator[Row]:
    """Yield the time per token of every contender, for both sizes of model."""
    for name in data["sizes"]["micro"]["race"]:
        row: Row = {"name": name}
        for size, figures in data["sizes"].items():
            contender = figures["race"].get(name, {})
            row[size] = contender.get("ms_per_token", {}).get("median")
        yield row


def cost(data: Row) -> Iterator[Row]:
    """Yield each comparison with its interval, for both sizes of model."""
    for name in data["sizes"]["micro"]["percent"]:
        row: Row = {"name": name}
        for size, figures in data["sizes"].items():
            comparison = figures["percent"][name]
            row[size] = {**comparison, "value": comparison["percent"]}
        yield row


def parity(data: Row) -> Iterator[Row]:
    """Yield one row per model and precision."""
    key = itemgetter("subject", "dtype")
    for (subject, dtype), group in groupby(sorted(data["cells"], key=key), key):
        yield {"subject": subject, "dtype": dtype, **_parity_figures(list(group))}


def _parity_figures(cells: Sequence[Row]) -> Row:
    """Return the figures of several cells of the parity matrix together."""
    totals: Counter[str] = Counter()
    for cell in cells:
        totals["passed"] += cell["passed"]
        totals["rows"] += cell["same_dtype"]["rows"]
        totals["same_peak"] += cell["same_dtype"]["same_peak"]
        totals["same"] += cell["verdicts"]["same_settled"]
        totals["settled"] += cell["verdicts"]["settled"]
    return {
        "cells": len(cells),
        "passed": totals["passed"],
        "largest": max(cell["same_dtype"]["largest"] for cell in cells),
        "mean": max(cell["same_dtype"]["mean"] for cell in cells),
        # Without compared rows, the share is 0.
        "peaks": totals["same_peak"] / (totals["rows"] or 1),
        "same": totals["same"],
        "settled": totals["settled"],
    }
