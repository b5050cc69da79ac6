"""Measure the cascade on real models and real text, on two cores.

Dev sets and calibration pairs come from the Debian Administrator's Handbook and its human
translations. Then heads are chosen and curves are measured. A step whose files exist is not
repeated, so the same command resumes an interrupted run. To repeat a step, delete its files.

Examples:
  run all steps (takes hours):
    python -m lab.real_world
  run all steps on 4 % of the data, into German only, in OUTPUT/quick (takes 15 min):
    python -m lab.real_world --quick
  prepare only the inputs of other commands (minutes with a fast network):
    python -m lab.real_world --only models speech recordings pairs

steps
  models       the checkpoints of laptop-low, in the Hugging Face cache
  speech       OUTPUT/tuning and OUTPUT/claims: dev sets with references in de, it, zh
  recordings   OUTPUT/recordings: three real recordings without references
  pairs        OUTPUT/pairs: pairs with word alignments, for choosing and for evaluating heads
  heads        OUTPUT/heads: a head set for every target and row, and one for any target
  curves       OUTPUT/curves-tuning, OUTPUT/curves-claims and OUTPUT/offline-claims, the ceiling
  page         OUTPUT/real.md: the tables of docs/results/real.md, from these results

exit status: 0 success; 1 a download or a command failed; 2 a program is not installed
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from alignatt_agent.cli import report_errors
from alignatt_agent.fetch.hub import FetchError, require_disk
from alignatt_agent.types import AlignAttError
from lab import commands
from lab.real_world import OUTPUT, devset, handbook, links, models

SCRIPTED = {
    "recordings": "recordings/*.wav",
    "heads": "heads/*.json",
    "curves": "curves-*/*.json",
    "page": "real.md",
}
STEPS = ("models", "speech", "recordings", "pairs", "heads", "curves", "page")


def make(step: str, output: Path, seed: int, quick: bool) -> Iterator[tuple[str, list[Path]]]:
    """Run the missing parts of a step; yield the names and files of its results."""
    if step in SCRIPTED:
        script = Path(__file__).with_name("steps.sh")
        command = ["sh", "-eu", script, step, output, sys.executable, "quick" * quick]
        subprocess.run(command, check=True)
        yield step, [*output.glob(SCRIPTED[step])]
    elif step == "models":
        yield from checkpoints(output)
    else:
        parts = 25 if quick else 1
        spoken, pairs = handbook.divide(seed, parts=parts)
        for number, name in enumerate(spoken if step == "speech" else ()):
            if not (output / name / "audio-segments.yaml").exists():
                devset.write(output / name, spoken[name], seed + 100 * number)
            yield name, [path for path in (output / name).rglob("*") if path.is_file()]
        for code, found in [*pairs.items()][: 1 if quick else None] if step == "pairs" else ():
            files = [output / f"pairs/en-{code}{part}.tsv" for part in ("", ".held-out")]
            if not all(path.exists() for path in files):
                links.write(files, code, found, output / "tools", parts)
            yield f"en-{code}", files


def checkpoints(output: Path) -> Iterator[tuple[str, list[Path]]]:
    """Print sizes, licenses and the free disk space; download models to the hub's cache."""
    entries = models.ARTIFACTS["models"]
    for entry in entries:
        size, missing = models.size_of(entry) / 1e6, models.missing(entry) / 1e6
        sizes = f"{size:,.0f} MB, {missing:,.0f} MB missing"
        print(f"{entry['path']}: {sizes}, license {entry['license']}")
    print(require_disk(sum(map(models.missing, entries))), flush=True)
    for entry in entries:
        snapshot = models.obtain(entry, output / "wheels")
        yield f"{entry['path']}@{entry['revision']}", [*snapshot.iterdir()]
    # A process of its own, because a conversion leaves 2 GB of memory occupied.
    subprocess.run([sys.executable, "-m", "alignatt_agent.cli", "fetch", "laptop-low"], check=True)


def described(files: Sequence[Path]) -> str:
    """Return number, size and SHA-256 of files, as one file in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(files):
        with path.open("rb") as file:
            while block := file.read(1 << 22):
                digest.update(block)
    size = sum(path.stat().st_size for path in files)
    return f"{len(files)} files, {size / 1e6:,.1f} MB, sha256 {digest.hexdigest()}"


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.real_world", __doc__)
    add = parser.add_argument
    add("--only", nargs="+", choices=STEPS, default=STEPS, metavar="STEP", help="default: all")
    add("--output", type=Path, default=OUTPUT, help="default: %(default)s")
    add("--quick", action="store_true", help="4 %% of the data, into German, in OUTPUT/quick")
    add("--seed", type=int, default=0, help="seed of pages, pauses and noise; default: %(default)s")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    there = {tool: shutil.which(tool) for tool in ("flite", "sox")}
    for package, found in {**there, "debian-handbook": handbook.HTML.is_dir()}.items():
        if not found:
            raise AlignAttError(f"{package} is not installed: run apt-get install {package}")
    quick, output = arguments.quick, arguments.output.expanduser()
    output = output / "quick" if quick else output
    try:
        for step in (name for name in STEPS if name in arguments.only):
            for name, files in make(step, output, arguments.seed, quick):
                print(f"{step}: {name}: {described(files)}", flush=True)
    except subprocess.CalledProcessError as error:
        raise FetchError(f"{error} See its message above. The same command resumes.") from None
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.real_world", main))
