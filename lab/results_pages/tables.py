"""The tables of every page: title, JSON files, command, columns, and what makes the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lab.results_pages import rows
from lab.results_pages.rows import Row


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of JSON files in lab/results, with the command that measures them."""

    title: str
    files: tuple[str, ...]
    command: str
    head: tuple[str, ...]
    rows: Callable[..., Iterable[Row]]
    note: str = ""


BENCH = "python -m lab.bench --output outputs/bench --only"
CURVES = "python -m lab.curves --streams 14 --devset outputs/tuning/devset"
FOLLOWS = "--config-low micro-follows-low --config-high micro-follows-high"
POINTS = ("policy", "point", "BLEU de / it / zh", "LongYAAL CU, s")
CLAIMS = ("point", "target", "BLEU", "LongYAAL CU, s", "BLEU over local_agreement")

README_TABLE = ResultTable(
    "Numbers", ("devset.json",), "make dev-low dev-high",
    ("Run", "Target", "BLEU", "chrF", "LongYAAL CU", "LongYAAL CA", "RTF"), rows.readme,
)  # fmt: skip

PAGES: dict[str, tuple[str, tuple[ResultTable, ...]]] = {
    "devset": ("The embedded dev set", (
        ResultTable(
            "Scores", ("devset.json",),
            "make dev-low dev-high\n"
            "alignatt offline --config micro-low --target de it zh --devset micro_models/devset "
            "--output outputs/offline\npython -m lab.results_pages --devset outputs",
            ("run", "configuration", "target", "BLEU", "chrF", "CU ms", "CA ms", "StreamLAAL ms",
             "WER % [95 %]", "RTF"), rows.devset,
            "4 talks, 297 s, 64 sentences. CU, CA: LongYAAL, computation-unaware and -aware.",
        ),
        ResultTable(
            "Latency by the clock", ("devset.json",), "make dev-low dev-high",
            ("run", "target", "LongYAAL ms", "mean lag ms", "p50", "p95", "p99",
             "longest silence, s"), rows.clock,
            "Replayed from measured computation times, backlog included.",
        ),
    )),
    "curves": ("Policies: quality against latency", (
        ResultTable(
            "A translator that completes sentences", ("curves-finishes.json",
            "curves-finishes-patient.json"), f"{CURVES} --output outputs/curves-finishes",
            POINTS, rows.curves,
            "363 sentences, 22 talks, seed 7000. ![Curves](../../lab/results/curves-finishes.png)",
        ),
        ResultTable(
            "A translator that follows the source", ("curves-follows.json",),
            f"{CURVES} --output outputs/curves-follows {FOLLOWS}", POINTS, rows.curves,
            "The same sentences. ![Curves](../../lab/results/curves-follows.png)",
        ),
        ResultTable(
            "Operating points on held-out sentences, completing",
            ("claims-finishes.json", "claims-finishes-zh.json"),
            "python -m lab.curves --streams 14 --devset outputs/claims/devset "
            "--output outputs/claims-finishes", CLAIMS, rows.claims,
            "1203 sentences, 73 talks, seed 9000; the margin is against agreement at the same CU.",
        ),
        ResultTable(
            "Operating points on held-out sentences, following", ("claims-follows.json",),
            "python -m lab.curves --streams 14 --devset outputs/claims/devset "
            f"--output outputs/claims-follows {FOLLOWS}", CLAIMS, rows.claims,
        ),
        ResultTable(
            "The gate with one setting changed at a time",
            ("ablation-finishes-de.json", "ablation-follows-de.json"),
            "python -m lab.curves --target de --points quick --streams 14 "
            "--devset outputs/tuning/devset --output outputs/ablation",
            ("setting", "peak accuracy %", "completes: BLEU, CU", "follows: BLEU, CU"),
            rows.ablation, "German, 363 sentences. Peak accuracy: aligned tokens of gold "
            "translations whose peak is on an aligned source word.",
        ),
    )),
    "head_sets": ("Head sets", (
        ResultTable(
            "Translation Scores of the shipped head sets",
            tuple(f"head_sets/{model}-en-{code}.json" for model in ("micro", "micro-follows")
                  for code in ("de", "it", "zh")), "make micro-heads",
            ("head set", "direction", "heads", "held-out pairs", "heads of the set, %",
             "all heads, %"), rows.head_sets,
            "Aligned tokens whose peak is on an aligned source word, averaged over the heads, on "
            "pairs that no head was selected on; 95 % bootstrap over pairs.",
        ),
    )),
    "engine": ("The engine", (
        ResultTable(
            "Milliseconds per token", ("engine.json",), "make bench",
            ("engine", "micro, 12.3 MiB", "random Gemma-4, 219.5 M parameters"), rows.race,
            "Median, one thread, float32.",
        ),
        ResultTable(
            "What attention rows cost", ("engine.json",), "make bench",
            ("compared", "micro", "219.5 M parameters"), rows.cost,
            "Difference of the time per token with its 95 % interval over fresh engine starts.",
        ),
        ResultTable(
            "Ending drafts early and verifying", ("early_stop.json",), f"{BENCH} early-stop",
            ("configuration", "target", "drafts that agree", "whole drafts", "ended early",
             "verified", "same output"), rows.early_stop,
            "Decoding steps (and time) per emitted token.",
        ),
        ResultTable(
            "Verification against speculative decoding", ("speculation.json",),
            "lab/bench/cpu/speculation --output outputs/speculation.json",
            ("transcripts", "same", "passes: ours", "vLLM's", "ms: ours", "vLLM's"),
            rows.speculation,
        ),
        ResultTable(
            "Engine starts", ("starts.json",), "lab/bench/cpu/starts --output outputs/starts.json",
            ("", "forked", "spawned", "ratio"), rows.starts, "Medians of three pairs.",
        ),
    )),
    "parity": ("Attention rows against Transformers", (
        ResultTable(
            "By model and precision", ("parity.json",), "make parity",
            ("model", "dtype", "cells passed", "largest difference", "largest mean difference",
             "same peak", "settled decisions equal"), rows.parity,
            "Cells: eager and compiled; alone, batched, prefix cache, chunked prefill.",
        ),
    )),
    "streams": ("Several streams and targets", (
        ResultTable(
            "Streams at once", ("streams.json",),
            f"{BENCH} streams --streams 1 4 8 16 20 24 32 --paced",
            ("streams", "audio per second", "lag p50, s", "lag p95, s", "same output as alone"),
            rows.streams, "`micro-low`. ![Plot](../../lab/results/streams.png)",
        ),
        ResultTable(
            "Several targets of one stream", ("targets.json",), f"{BENCH} targets",
            ("targets", "one by one, s", "together, s", "ratio", "same output"), rows.targets,
        ),
        ResultTable(
            "Schedules of the stages", ("schedules.json",),
            f"{BENCH} schedules --seconds 73 --loads 0.3 0.5 0.8 1.2",
            ("RTF in turn", "sync", "overlap", "async"), rows.schedules,
            "Lag of units by the clock, p50 / p95 in seconds; engines slowed by sleeps.",
        ),
    )),
    "scale": ("The server", (
        ResultTable(
            "Six speakers", ("replicas.json",),
            "lab/bench/cpu/replicas --output outputs/replicas.json",
            ("replicas", "talks with the same output as alone", "talks by replica",
             "audio per second"), rows.replicas,
        ),
        ResultTable(
            "A replica is killed", ("replicas-kill.json", "replicas-kill-fakes.json"),
            "lab/bench/cpu/replicas --kill --seconds 60 --rounds 1 --output outputs/kill.json",
            ("server", "rounds", "message after", "stream resumed after", "replicas back after",
             "lag p95 of others", "ratio to before"), rows.killed,
        ),
        ResultTable(
            "Hours of sound", ("soak.json", "soak-fakes.json", "slowed-live.json",
            "slowed-grid.json"), "lab/bench/cpu/soak --output outputs/soak.json",
            ("server, how it was fed", "minutes", "memory growth", "lag growth, s",
             "largest lag, s", "problems"), rows.soak,
        ),
    )),
}  # fmt: skip
