"""Write docs/results/*.md and the table of README.md from the JSON files in lab/results.

Examples:
  write the pages:
    python -m lab.results_pages
  take over new figures of the engine first:
    python -m lab.results_pages --add outputs/bench/engine.json engine
  those of the embedded dev set:
    python -m lab.results_pages --devset outputs

The runs of the dev set are dev-low, dev-high, micro-follows-dev-low and micro-follows-dev-high of
`make`, offline and micro-follows-offline of `alignatt offline`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tabulate import tabulate

from alignatt_agent.command_line import page
from lab import results_tables as tables
from lab.results_tables import ResultTable

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCS, README = ROOT / "lab/results", ROOT / "docs/results", ROOT / "README.md"
RUNS = ("dev-low", "dev-high", "micro-follows-dev-low", "micro-follows-dev-high")
OFFLINE = ("offline", "micro-follows-offline")

BENCH = "python -m lab.bench --output outputs/bench --only"
CURVES = "python -m lab.curves --streams 14 --devset outputs/tuning/devset"
FOLLOWS = "--config-low micro-follows-low --config-high micro-follows-high"
POINTS = ("policy", "point", "BLEU de / it / zh", "LongYAAL CU, s")
CLAIMS = ("point", "target", "BLEU", "LongYAAL CU, s", "BLEU over local_agreement")

README_TABLE = ResultTable(
    "Numbers", ("devset.json",), "make dev-low dev-high",
    ("Run", "Target", "BLEU", "chrF", "LongYAAL CU", "LongYAAL CA", "RTF"), tables.readme,
)  # fmt: skip

PAGES: dict[str, tuple[str, tuple[ResultTable, ...]]] = {
    "devset": ("The embedded dev set", (
        ResultTable(
            "Scores", ("devset.json",),
            "make dev-low dev-high\n"
            "alignatt offline --config micro-low --target de it zh --devset micro_models/devset "
            "--output outputs/offline\npython -m lab.results_pages --devset outputs",
            ("run", "configuration", "target", "BLEU", "chrF", "CU ms", "CA ms", "StreamLAAL ms",
             "WER % [95 %]", "RTF"), tables.devset,
            "4 talks, 297 s, 64 sentences. CU, CA: LongYAAL, computation-unaware and -aware.",
        ),
        ResultTable(
            "Latency by the clock", ("devset.json",), "make dev-low dev-high",
            ("run", "target", "LongYAAL ms", "mean lag ms", "p50", "p95", "p99",
             "longest silence, s"), tables.clock,
            "Replayed from measured computation times, backlog included.",
        ),
    )),
    "curves": ("Policies: quality against latency", (
        ResultTable(
            "A translator that completes sentences", ("curves-finishes.json",
            "curves-finishes-patient.json"), f"{CURVES} --output outputs/curves-finishes",
            POINTS, tables.curves,
            "363 sentences, 22 talks, seed 7000. ![Curves](../../lab/results/curves-finishes.png)",
        ),
        ResultTable(
            "A translator that follows the source", ("curves-follows.json",),
            f"{CURVES} --output outputs/curves-follows {FOLLOWS}", POINTS, tables.curves,
            "The same sentences. ![Curves](../../lab/results/curves-follows.png)",
        ),
        ResultTable(
            "Operating points on held-out sentences, completing",
            ("claims-finishes.json", "claims-finishes-zh.json"),
            "python -m lab.curves --streams 14 --devset outputs/claims/devset "
            "--output outputs/claims-finishes", CLAIMS, tables.claims,
            "1203 sentences, 73 talks, seed 9000; the margin is against agreement at the same CU.",
        ),
        ResultTable(
            "Operating points on held-out sentences, following", ("claims-follows.json",),
            "python -m lab.curves --streams 14 --devset outputs/claims/devset "
            f"--output outputs/claims-follows {FOLLOWS}", CLAIMS, tables.claims,
        ),
        ResultTable(
            "The gate with one setting changed at a time",
            ("ablation-finishes-de.json", "ablation-follows-de.json"),
            "python -m lab.curves --target de --points quick --streams 14 "
            "--devset outputs/tuning/devset --output outputs/ablation",
            ("setting", "peak accuracy %", "completes: BLEU, CU", "follows: BLEU, CU"),
            tables.ablation, "German, 363 sentences. Peak accuracy: aligned tokens of gold "
            "translations whose peak is on an aligned source word.",
        ),
    )),
    "engine": ("The engine", (
        ResultTable(
            "Milliseconds per token", ("engine.json",), "make bench",
            ("engine", "micro, 12.3 MiB", "random Gemma-4, 219.5 M parameters"), tables.race,
            "Median, one thread, float32.",
        ),
        ResultTable(
            "What attention rows cost", ("engine.json",), "make bench",
            ("compared", "micro", "219.5 M parameters"), tables.cost,
            "Difference of the time per token with its 95 % interval over fresh engine starts.",
        ),
        ResultTable(
            "Ending drafts early and verifying", ("early_stop.json",), f"{BENCH} early-stop",
            ("configuration", "target", "drafts that agree", "whole drafts", "ended early",
             "verified", "same output"), tables.early_stop,
            "Decoding steps (and time) per emitted token.",
        ),
        ResultTable(
            "Verification against speculative decoding", ("speculation.json",),
            "lab/bench/cpu/speculation --output outputs/speculation.json",
            ("transcripts", "same", "passes: ours", "vLLM's", "ms: ours", "vLLM's"),
            tables.speculation,
        ),
        ResultTable(
            "Engine starts", ("starts.json",), "lab/bench/cpu/starts --output outputs/starts.json",
            ("", "forked", "spawned", "ratio"), tables.starts, "Medians of three pairs.",
        ),
    )),
    "parity": ("Attention rows against Transformers", (
        ResultTable(
            "By model and precision", ("parity.json",), "make parity",
            ("model", "dtype", "cells passed", "largest difference", "largest mean difference",
             "same peak", "settled decisions equal"), tables.parity,
            "Cells: eager and compiled; alone, batched, prefix cache, chunked prefill.",
        ),
    )),
    "streams": ("Several streams and targets", (
        ResultTable(
            "Streams at once", ("streams.json",),
            f"{BENCH} streams --streams 1 4 8 16 20 24 32 --paced",
            ("streams", "audio per second", "lag p50, s", "lag p95, s", "same output as alone"),
            tables.streams, "`micro-low`. ![Plot](../../lab/results/streams.png)",
        ),
        ResultTable(
            "Several targets of one stream", ("booth.json",), f"{BENCH} booth",
            ("targets", "one by one, s", "together, s", "ratio", "same output"), tables.targets,
        ),
        ResultTable(
            "Schedules of the stages", ("schedules.json",),
            f"{BENCH} schedules --seconds 73 --loads 0.3 0.5 0.8 1.2",
            ("RTF in turn", "sync", "overlap", "async"), tables.schedules,
            "Lag of units by the clock, p50 / p95 in seconds; engines slowed by sleeps.",
        ),
    )),
    "scale": ("The server", (
        ResultTable(
            "Six speakers", ("replicas.json",),
            "lab/bench/cpu/replicas --output outputs/replicas.json",
            ("replicas", "talks with the same output as alone", "talks by replica",
             "audio per second"), tables.replicas,
        ),
        ResultTable(
            "A replica is killed", ("replicas-kill.json", "replicas-kill-fakes.json"),
            "lab/bench/cpu/replicas --kill --seconds 60 --rounds 1 --output outputs/kill.json",
            ("server", "rounds", "message after", "stream resumed after", "replicas back after",
             "lag p95 of others", "ratio to before"), tables.killed,
        ),
        ResultTable(
            "Hours of sound", ("soak.json", "soak-fakes.json", "slowed-live.json",
            "slowed-grid.json"), "lab/bench/cpu/soak --output outputs/soak.json",
            ("server, how it was fed", "minutes", "memory growth", "lag growth, s",
             "largest lag, s", "problems"), tables.soak,
        ),
    )),
}  # fmt: skip

_MARKED = re.compile(r"(<!-- results -->\n).*?(<!-- /results -->)", re.DOTALL)
_KEPT = ("bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms", "rtf", "stream_laal_cu_ms", "paced")
_TIMED = ("longyaal_ca_ms", "rtf", "paced")


def pages() -> dict[Path, str]:
    """Return every generated file with its content."""
    found = {}
    for name, (title, shown) in PAGES.items():
        parts = [f"# {title}", "Generated by `make results` from the JSON that every table names."]
        for table in shown:
            parts += [f"## {table.title}", *([table.note] if table.note else [])]
            parts += [_markdown(table), _origin(table)]
        found[DOCS / f"{name}.md"] = "\n\n".join(parts) + "\n"
    text = README.read_text(encoding="utf-8")
    if not _MARKED.search(text):
        raise SystemExit(f"{README} lacks the lines <!-- results --> and <!-- /results -->")
    found[README] = _MARKED.sub(rf"\g<1>\n{_markdown(README_TABLE)}\n\n\g<2>", text)
    return found


def _markdown(table: ResultTable) -> str:
    rows = list(table.rows(*(_read(name) for name in table.files)))
    if not rows:
        return "*Not measured with these models yet.*"
    texts = [
        any(row[k][:1].isalpha() or row[k][:1] == "`" for row in rows) for k in range(len(rows[0]))
    ]
    sides = ["left" if text else "right" for text in texts]
    return str(tabulate(rows, table.head, "pipe", colalign=sides, disable_numparse=True))


def _origin(table: ResultTable) -> str:
    lines = []
    for name in table.files:
        data = _read(name)
        about = data.get("signature", data)
        versions = about.get("versions", {})
        facts = [f"[{name}](../../lab/results/{name})", *map(" ".join, data["recorded"].items())]
        facts += [about[key] for key in ("device", "devset") if isinstance(about.get(key), str)]
        facts += [f"{key} {versions[key]}" for key in ("vllm", "torch") if key in versions]
        lines.append("* " + ", ".join(facts))
    return "\n".join([*lines, "", "```sh", table.command, "```"])


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return data


def _recorded() -> dict[str, str]:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, "date": datetime.date.today().isoformat()}


def add(path: Path, name: str) -> None:
    """Copy a JSON file to lab/results/NAME.json, with commit and date."""
    data = json.loads(path.read_text(encoding="utf-8"))
    content = data if isinstance(data, dict) else {"rows": data}
    _write(f"{name}.json", {**content, "recorded": _recorded()})


def add_devset(outputs: Path, untimed: bool) -> None:
    """Collect the scores of the embedded dev set from the folders of its runs."""
    rows, offline = [], []
    signature: dict[str, Any] = {}
    for run in RUNS:
        for path in sorted((outputs / run).glob("*/scores.json")):
            scores = json.loads(path.read_text(encoding="utf-8"))
            signature = scores["signature"]
            about = {"run": run, "config": signature["config"], "target": signature["target"]}
            kept = {key: None if untimed and key in _TIMED else scores.get(key) for key in _KEPT}
            rows.append({**about, **kept, "transcript": scores.get("transcript")})
    for run in OFFLINE:
        for path in sorted((outputs / run).glob("*/offline.json")):
            scores = json.loads(path.read_text(encoding="utf-8"))
            about = {
                "run": run,
                "config": scores["signature"]["config"],
                "target": path.parent.name,
            }
            kept = {key: scores.get(key) for key in ("bleu", "chrf", "wer", "wer_interval")}
            offline.append({**about, **kept})
    if not rows:
        raise SystemExit(f"{outputs} holds no scores of {', '.join(RUNS)}: run make dev-low first")
    about = {key: signature[key] for key in ("versions", "device", "audio")}
    _write("devset.json", {"recorded": _recorded(), **about, "rows": rows, "offline": offline})


def _write(name: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (RESULTS / name).write_text(text + "\n", encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = argparse.ArgumentParser("lab.results_pages", **page(__doc__))
    add = parser.add_argument
    text = "take over new figures as lab/results/NAME.json, with the commit and date of today"
    add("--add", nargs=2, action="append", default=[], metavar=("FILE", "NAME"), help=text)
    add("--devset", type=Path, metavar="OUTPUTS", help="take over the runs of the dev set")
    text = "with --devset: leave times out, because other processes used the cores"
    add("--untimed", action="store_true", help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line."""
    arguments = build_parser().parse_args(argv)
    for path, name in arguments.add:
        add(Path(path), name)
    if arguments.devset:
        add_devset(arguments.devset, arguments.untimed)
    DOCS.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
