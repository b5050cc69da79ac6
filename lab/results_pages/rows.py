"""Rows of the tables of results, from the content of their JSON files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Any

Data = dict[str, Any]
Row = Sequence[str]
TARGETS = ("de", "it", "zh")


def number(value: float | None, form: str = ".2f") -> str:
    """Format a figure; a dash for one that was not measured."""
    return "-" if value is None else format(value, form)


def with_interval(figure: Data, form: str = ".1f", scale: float = 1.0) -> str:
    """Format a figure with its interval, e.g. ``77.7 [76.0, 79.6]``."""
    value, low, high = (scale * figure[key] for key in ("value", "low", "high"))
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def each(values: Iterable[float | None], form: str, scale: float = 1.0, unit: str = "") -> str:
    """Format the figures of several targets, e.g. ``76.3 / 73.5 / 83.0``."""
    found = list(values)
    if all(value is None for value in found):
        return "-"
    shown = (number(None if value is None else scale * value, form) for value in found)
    return " / ".join(shown) + unit


def _by_run(rows: Iterable[Data]) -> Iterator[tuple[Data, dict[str, Data]]]:
    for _, group in groupby(rows, lambda row: row["run"]):
        found = {row["target"]: row for row in group}
        yield next(iter(found.values())), {code: found[code] for code in TARGETS if code in found}


def readme(data: Data) -> Iterator[Row]:
    """One row per run, as in README.md."""
    for first, runs in _by_run([row for row in data["rows"] if "follows" not in row["run"]]):
        quality = (each((row[key] for row in runs.values()), ".1f") for key in ("bleu", "chrf"))
        latency = (
            each((row[key] for row in runs.values()), ".2f", 0.001, " s")
            for key in ("longyaal_cu_ms", "longyaal_ca_ms")
        )
        rtf = each((row["rtf"] for row in runs.values()), ".2f")
        yield f"`make {first['run']}`", " / ".join(runs), *quality, *latency, rtf
    for _, runs in _by_run([row for row in data["offline"] if "follows" not in row["run"]]):
        quality = (each((row[key] for row in runs.values()), ".1f") for key in ("bleu", "chrf"))
        yield "`alignatt offline`", " / ".join(runs), *quality, "off-line", "", ""


def devset(data: Data) -> Iterator[Row]:
    """Scores of every run and target."""
    for row in data["rows"]:
        transcript = row["transcript"] or {}
        yield (
            *(row["run"], row["config"], row["target"]),
            *(number(row[key]) for key in ("bleu", "chrf")),
            *(number(row[key], ".0f") for key in ("longyaal_cu_ms", "longyaal_ca_ms")),
            number(row.get("stream_laal_cu_ms"), ".0f"),
            *(_wer(transcript), number(row["rtf"], ".3f")),
        )
    for row in data["offline"]:
        scores = (number(row[key]) for key in ("bleu", "chrf"))
        yield row["run"], row["config"], row["target"], *scores, "-", "-", "-", _wer(row), "-"


def _wer(row: Data) -> str:
    if row.get("wer") is None:
        return "-"
    low, high = row.get("wer_interval") or (None, None)
    return f"{row['wer']:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low is not None else "")


def clock(data: Data) -> Iterator[Row]:
    """Latency by the clock of every run and target."""
    for row in data["rows"]:
        if paced := row.get("paced"):
            keys = ("longyaal_ms", "mean_ms", "p50_ms", "p95_ms", "p99_ms")
            shown = (number(paced[key], ".0f") for key in keys)
            yield row["run"], row["target"], *shown, number(paced["longest_silence_s"], ".1f")


def curves(*files: Data) -> Iterator[Row]:
    """One row per point of the grid; a later file adds points."""
    points: dict[tuple[str, str], dict[str, Data]] = {}
    for data in files:
        for code, target in data["targets"].items():
            for run in target["runs"]:
                points.setdefault((run["curve"], run["label"]), {})[code] = run
    for (curve, label), runs in points.items():
        found = [runs.get(code) for code in TARGETS]
        bleu = each((run["bleu"]["value"] if run else None for run in found), ".1f")
        cu = each((run["cu_ms"]["value"] if run else None for run in found), ".2f", 0.001)
        yield curve, label, bleu, cu


def claims(*files: Data) -> Iterator[Row]:
    """Operating points against agreement; a later file replaces points."""
    runs: dict[tuple[str, str], Data] = {}
    margins: dict[tuple[str, str], Data] = {}
    for data in files:  # a later file replaces the points of an earlier one
        for code, target in data["targets"].items():
            points = (run for run in target["runs"] if run["name"].startswith("operating"))
            runs |= {(code, run["label"]): run for run in points}
        for item in data["dominance"]["comparisons"]:
            key = item["rival"], item["latency"], item["quality"]
            if key == ("local_agreement", "cu_ms", "bleu"):
                margins[item["target"], item["point"]] = item["margin"]
    for (code, point), run in runs.items():
        margin = margins[code, point]
        ahead = "never that fast" if margin["value"] is None else with_interval(margin, "+.1f")
        shown = with_interval(run["bleu"]), with_interval(run["cu_ms"], ".2f", 0.001)
        yield point, code, *shown, ahead


def ablation(finishes: Data, follows: Data) -> Iterator[Row]:
    """One row per changed setting, for both translators."""
    for one, two in zip(*(data["ablation"]["de"] for data in (finishes, follows)), strict=True):
        accuracy = each((item.get("peak_accuracy") for item in (one, two)), ".1f", 100)
        scores = (
            f"{item['bleu']['value']:.1f}, {item['cu_ms']['value'] / 1000:.2f} s"
            for item in (one, two)
        )
        yield one["label"], accuracy, *scores


def head_sets(*files: Data) -> Iterator[Row]:
    """Translation Scores of head sets, on pairs that no head was selected on."""
    for data in files:
        held_out, count = data["held_out"], str(len(data["heads"]))
        scores = (
            with_interval(held_out[key]["micro"], ".1f", 100) for key in ("head_set", "all_heads")
        )
        yield data["file"], data["direction"], count, str(held_out["n_pairs"]), *scores


def race(data: Data) -> Iterator[Row]:
    """Time per token of every contender, for both sizes of model."""
    sizes = [data["sizes"][key] for key in ("micro", "larger")]
    for name in sizes[0]["race"]:
        found = [size["race"].get(name, {}).get("ms_per_token", {}) for size in sizes]
        yield name, *(number(item.get("median"), ".1f") for item in found)


def cost(data: Data) -> Iterator[Row]:
    """Relative cost with its interval, for both sizes of model."""
    sizes = [data["sizes"][key]["percent"] for key in ("micro", "larger")]
    for name in sizes[0]:
        intervals = ({"value": item[name]["percent"], **item[name]} for item in sizes)
        yield name, *(f"{with_interval(item, '+.1f')} %" for item in intervals)


def early_stop(data: Data) -> Iterator[Row]:
    """Steps per emitted token of whole, ended and verified drafts."""
    for row in data["rows"]:
        kinds = ("whole", "early", "verified")
        shown = (f"{row[f'steps_per_token_{kind}']:.2f} "
                 f"({row[f'ms_per_token_{kind}']:.0f} ms)" for kind in kinds)  # fmt: skip
        same = "yes" if row["identical"] else "no"
        yield row["config"], row["target"], str(row["drafts_that_agree"]), *shown, same


def starts(data: Data) -> Iterator[Row]:
    """Median start times of the engines, and the median ratio of the pairs."""
    for order in ("first", "second"):
        forked, spawned = (data["seconds"][kind][order] for kind in ("forked", "spawned"))
        ratio = median(a / b for a, b in zip(forked, spawned, strict=True))
        yield (
            f"{order} start",
            f"{median(forked):.1f} s",
            f"{median(spawned):.1f} s",
            f"{ratio:.2f}",
        )


def parity(data: Data) -> Iterator[Row]:
    """One row per model and precision."""
    key = lambda cell: (cell["subject"], cell["dtype"])  # noqa: E731
    for (subject, dtype), group in groupby(sorted(data["cells"], key=key), key):
        cells = list(group)
        rows = sum(cell["same_dtype"]["rows"] for cell in cells)
        peaks = sum(cell["same_dtype"]["same_peak"] for cell in cells) / rows
        gates = [
            sum(cell["verdicts"][name] for cell in cells) for name in ("same_settled", "settled")
        ]
        largest, mean = (
            max(cell["same_dtype"][name] for cell in cells) for name in ("largest", "mean")
        )
        passed = sum(cell["passed"] for cell in cells)
        yield (subject, dtype, f"{passed} of {len(cells)}", f"{largest:.1e}", f"{mean:.1e}",
               f"{100 * peaks:.2f} %", f"{gates[0]} of {gates[1]}")  # fmt: skip


def speculation(data: Data) -> Iterator[Row]:
    """Verification of transcripts against vLLM's speculative decoding."""
    pairs = (number(data[key][who], ".2f") for key in ("passes", "ms") for who in ("ours", "vllm"))
    yield str(data["transcripts"]), str(data["same"]), *pairs


def targets(data: Data) -> Iterator[Row]:
    """Several targets of one stream."""
    seconds = (number(data[key], ".1f") for key in ("seconds_one_by_one", "seconds_together"))
    same = "yes" if data["identical"] else "no"
    yield str(data["targets"]), *seconds, number(data["share"]), same


def streams(data: Data) -> Iterator[Row]:
    """Lag and throughput by number of streams."""
    for row in data["rows"]:
        lags = (number(row[key]) for key in ("lag_p50_s", "lag_p95_s"))
        same = f"{row['identical']} of {row['streams']}"
        yield str(row["streams"]), number(row["audio_s_per_s"], ".1f"), *lags, same


def schedules(data: Data) -> Iterator[Row]:
    """Lag of units under every schedule, by load."""
    for _, group in groupby(data["rows"], lambda row: row["load"]):
        rows = list(group)
        lags = (f"{row['lag_p50_s']:.2f} / {row['lag_p95_s']:.2f}" for row in rows)
        yield number(rows[0]["rtf_in_turn"]), *lags


def replicas(data: Data) -> Iterator[Row]:
    """Six speakers on several replicas."""
    for row in data["rounds"]:
        spread = " + ".join(map(str, row["spread"]))
        yield str(row["replicas"]), str(row["same"]), spread, number(row["audio_per_s"], ".1f")


def killed(*files: Data) -> Iterator[Row]:
    """What speakers see when a replica is killed."""
    for data in files:
        rounds = data["rounds"]
        told, back = (
            [x for row in rounds for x in row[key]] for key in ("told_after_s", "went_on_after_s")
        )
        again = [row["back_after_s"] for row in rounds]
        lags = [row["neighbours"]["after"]["p95"] for row in rounds]
        spans = (
            f"{min(values):.1f} to {max(values):.1f} s" for values in (told, back, again, lags)
        )
        yield data["command"], str(len(rounds)), *spans, number(data["lag_against_peace"])


def soak(*files: Data) -> Iterator[Row]:
    """Memory and lag after hours of sound."""
    for data in files:
        growth = max(item["trend"] for item in data["growth"].values())
        problems = "; ".join(data["problems"]) or "none"
        yield (f"`{data['command']}`, {data['fed']}", f"{sum(data['sound'].values()) / 60:.0f}",
               f"{100 * growth:.1f} %", number(data["lag_growth_s"], "+.2f"),
               number(data["lag_max_s"], ".1f"), problems)  # fmt: skip
