"""Select the rows of the tables of results from the JSON files."""

import re
from collections.abc import Container, Iterator
from inspect import cleandoc
from itertools import groupby
from operator import itemgetter
from string import Formatter
from typing import Any

from pydantic import BaseModel

from alignatt_agent.policy import POLICIES, Policy

Row = dict[str, Any]
TARGETS = ("de", "it", "zh")


class Cells(Formatter):
    """Formats rows by the templates of ``pages.yaml``, which describes them."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        """Return a value, or ``None`` where the row has none."""
        try:
            return super().get_field(field_name, args, kwargs)
        except KeyError:
            return None, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value, a list of values, or a figure with its interval."""
        form, _, rest = format_spec.partition("*")
        factor, _, unit = rest.partition(" ")
        text = _text(value, form, float(factor or 1))
        return f"{text} {unit}" if unit and text != "-" and not isinstance(value, str) else text


def _text(value: Any, form: str, scale: float) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        known = any(item is not None for item in value)
        return " / ".join(_text(item, form, scale) for item in value) if known else "-"
    if isinstance(value, dict):
        middle, *ends = (_text(value[key], form, scale) for key in ("value", "low", "high"))
        return middle if ends[0] == "-" else f"{middle} [{', '.join(ends)}]"
    return format(value * scale if scale != 1 else value, form)


# ------------------------------------------------------------------ selections of rows
def listed(*files: Row) -> Iterator[Row]:
    """Yield the files' own rows."""
    yield from (row for data in files for row in data["rows"])


def policies() -> Iterator[Row]:
    """Yield every policy and its keys, with the text of their docstrings."""
    yield from _described("all policies", Policy, {"name"}, "")
    for name, kind in POLICIES.items():
        yield from _described(f"**`{name}`**", kind, Policy.model_fields, f" Reads {kind.reads}.")


def _described(
    name: str, kind: type[BaseModel], without: Container[str], more: str
) -> Iterator[Row]:
    meaning: dict[str, str] = {}
    for parent in reversed(kind.__mro__):  # a class describes only the keys that it adds or changes
        text = cleandoc(parent.__doc__ or "")
        meaning |= re.findall(r"^    (\w+): (.+(?:\n     .+)*)", text, re.MULTILINE)
    yield {"key": name, "default": "", "meaning": text.partition("\n")[0] + more}
    for key, field in kind.model_fields.items():
        if key not in without:
            told = " ".join(meaning[key].split())
            yield {"key": f"`{key}`", "default": f"`{field.default}`", "meaning": told}


def embedded_summary(data: Row) -> Iterator[Row]:
    """Yield one row per run of the completing translator, with lists over the targets."""
    off = {"longyaal_cu_ms": "off-line", "longyaal_ca_ms": "", "rtf": ""}
    for key, command, more in (("rows", "make ", {}), ("offline", "alignatt ", off)):
        listed = [row for row in data[key] if "follows" not in row["run"]]
        for run, group in groupby(listed, itemgetter("run")):
            by_target = {row["target"]: row for row in group}
            found = [by_target[code] for code in TARGETS if code in by_target]
            lists = {name: [row.get(name) for row in found] for name in found[0]}
            yield {**lists, "command": f"`{command}{run}`", **more}


SUMMARIZED = {
    ("alignatt", "low"): "`laptop-low`",
    ("alignatt", "high"): "`laptop-high`",
    ("local_agreement", "2 drafts, chunk 1000"): "agreement of two drafts",
}
"""Names of runs in the summary of real models, by policy and label."""


def real_summary(claims: Row, offline: Row) -> Iterator[Row]:
    """Yield one row per policy with lists over the targets, and the off-line scores."""
    for (curve, label), name in SUMMARIZED.items():
        runs = [_run(claims["targets"][code]["runs"], curve, label) for code in TARGETS]
        row: Row = {"name": name, "target": list(TARGETS)}
        for key in ("bleu", "chrf", "cu_ms"):
            row[key] = [run[key]["value"] for run in runs]
        yield row
    by_target = {row["signature"]["target"]: row for row in offline["rows"]}
    row = {"name": "off-line", "target": list(TARGETS), "cu_ms": "off-line"}
    for key in ("bleu", "chrf"):
        row[key] = [by_target[code][key] for code in TARGETS]
    yield row


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
        runs = [_run(claims["targets"][code]["runs"], curve, label) for code in TARGETS]
        row: Row = {"name": name}
        for key in ("bleu", "chrf", "cu_ms"):
            row[key] = [run[key]["value"] for run in runs]
        row["gain"] = [_gain(claims["differences"], code, curve, label) for code in TARGETS]
        yield row


def _gain(differences: list[Row], target: str, curve: str, label: str) -> Row | None:
    """Return the BLEU of `laptop-high` minus that of a policy, if it was computed."""
    for item in differences:
        compared = item["target"], item["point"], item["label"]
        if compared == (target, "high", label) and item["curve"].startswith(curve):
            return dict(item["bleu"])
    return None


def _run(runs: list[Row], curve: str, label: str) -> Row:
    """Return the run of a policy with a label."""
    for run in runs:
        if run["curve"].startswith(curve) and run["label"] == label:
            return run
    raise KeyError(f"no run of {curve} with the label {label}")


def devset(data: Row) -> Iterator[Row]:
    """Yield streamed and off-line runs with their word error rates."""
    for row in (*data["rows"], *data.get("offline", ())):
        found = row.get("transcript") or row
        low, high = found.get("wer_interval") or (None, None)
        rate = {"value": found.get("wer"), "low": low, "high": high}
        yield {**row, "wer": None if rate["value"] is None else rate}


def clock(data: Row) -> Iterator[Row]:
    """Yield the runs that were replayed in real time."""
    yield from (row for row in data["rows"] if row.get("paced"))


def curves(*files: Row) -> Iterator[Row]:
    """Yield the points of the grid; a later file adds points."""
    points: dict[tuple[str, str], dict[str, Row]] = {}
    for data in files:
        for code, target in data["targets"].items():
            for run in target["runs"]:
                points.setdefault((run["curve"], run["label"]), {})[code] = run
    for (curve, label), runs in points.items():
        found = [runs.get(code) for code in TARGETS]
        lists = {key: [run and run[key]["value"] for run in found] for key in ("bleu", "cu_ms")}
        yield {"curve": curve, "label": label, **lists}


def points(data: Row) -> Iterator[Row]:
    """Yield the runs of a sweep, target by target, with their intervals."""
    for code, target in data["targets"].items():
        yield from ({"target": code, **run} for run in target["runs"])


def bench(*files: Row) -> Iterator[Row]:
    """Yield the rules of the policy bench, target by target, by rising lag."""
    for data in files:
        for code, rules in data["targets"].items():
            for row in sorted(rules, key=lambda row: float(row["lag"]["value"])):
                yield {"target": code, "words": data["words"], **row}


def differences(data: Row) -> Iterator[Row]:
    """Yield operating points minus single runs of rivals."""
    yield from data["differences"]


def claims(*files: Row) -> Iterator[Row]:
    """Yield operating points against agreement; a later file replaces points of an earlier one."""
    runs: dict[tuple[str, str], Row] = {}
    margins: dict[tuple[str, str], Row | None] = {}
    for data in files:
        for code, target in data["targets"].items():
            points = (run for run in target["runs"] if run["name"].startswith("operating"))
            runs |= {(code, run["label"]): run for run in points}
        for item in data["dominance"]["comparisons"]:
            asked = item["rival"], item["latency"], item["quality"]
            if asked == ("local_agreement", "cu_ms", "bleu"):
                rivals = data["targets"][item["target"]]["runs"]
                times = [x["cu_ms"]["value"] for x in rivals if x["curve"] == item["rival"]]
                inside = min(times) <= item["latency_ms"] <= max(times)
                margins[item["target"], item["point"]] = item["margin"] if inside else None
    for (code, point), run in runs.items():
        ahead = margins[code, point] or "not comparable"
        yield {**run, "point": point, "target": code, "margin": ahead}


def ablation(finishes: Row, follows: Row) -> Iterator[Row]:
    """Yield changed settings, for both translators."""
    for one, two in zip(*(data["ablation"]["de"] for data in (finishes, follows)), strict=True):
        yield {"label": one["label"], "finishes": one, "follows": two}


def head_sets(*files: Row) -> Iterator[Row]:
    """Yield head sets with the number of their heads."""
    yield from ({**data, "count": len(data["heads"])} for data in files)


def both_rows(*files: Row) -> Iterator[Row]:
    """Yield the held-out scores of head sets, for both conventions of a row."""
    for data in files:
        for name, found in sorted(data["rows"].items()):
            held_out = {**data["held_out"], **found}
            yield {"direction": data["direction"], "row": name, **held_out}


def race(data: Row) -> Iterator[Row]:
    """Yield the time per token of every contender, for both sizes of model."""
    for name in data["sizes"]["micro"]["race"]:
        found = {key: size["race"].get(name, {}) for key, size in data["sizes"].items()}
        times = {key: item.get("ms_per_token", {}).get("median") for key, item in found.items()}
        yield {"name": name, **times}


def cost(data: Row) -> Iterator[Row]:
    """Yield each comparison with its interval, for both sizes of model."""
    for name in data["sizes"]["micro"]["percent"]:
        found = {key: size["percent"][name] for key, size in data["sizes"].items()}
        figures = {key: {**item, "value": item["percent"]} for key, item in found.items()}
        yield {"name": name, **figures}


def parity(data: Row) -> Iterator[Row]:
    """Yield one row per model and precision."""
    key = itemgetter("subject", "dtype")
    for (subject, dtype), group in groupby(sorted(data["cells"], key=key), key):
        cells = list(group)
        gaps = [cell["same_dtype"] for cell in cells]
        yield {
            "subject": subject,
            "dtype": dtype,
            "cells": len(cells),
            "passed": sum(cell["passed"] for cell in cells),
            "largest": max(gap["largest"] for gap in gaps),
            "mean": max(gap["mean"] for gap in gaps),
            "peaks": sum(gap["same_peak"] for gap in gaps) / (sum(x["rows"] for x in gaps) or 1),
            "same": sum(cell["verdicts"]["same_settled"] for cell in cells),
            "settled": sum(cell["verdicts"]["settled"] for cell in cells),
        }
