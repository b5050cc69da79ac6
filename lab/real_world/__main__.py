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
QUICK_PARTS = 25
"""`--quick` takes one of so many parts of the data."""

STEPS = ("models", "speech", "recordings", "pairs", "heads", "curves", "page")


Results = Iterator[tuple[str, list[Path]]]
"""Names and files of the results of a step."""


def make(step: str, output: Path, seed: int, quick: bool) -> Results:
    """Run the missing parts of a step; yield the names and files of its results."""
    if step in SCRIPTED:
        script = Path(__file__).with_name("steps.sh")
        command = ["sh", "-eu", script, step, output, sys.executable, "quick" * quick]
        subprocess.run(command, check=True)
        yield step, list(output.glob(SCRIPTED[step]))
    elif step == "models":
        yield from checkpoints(output)
    elif step == "speech":
        yield from dev_sets(output, seed, quick)
    else:
        yield from calibration_pairs(output, seed, quick)


def dev_sets(output: Path, seed: int, quick: bool) -> Results:
    """Write the missing dev sets."""
    spoken, _ = handbook.divide(seed, parts=QUICK_PARTS if quick else 1)
    for number, (name, sentences) in enumerate(spoken.items()):
        folder = output / name
        if not (folder / "audio-segments.yaml").exists():
            # Each talk adds its number to the seed, so the sets are a hundred apart.
            devset.write(folder, sentences, seed + 100 * number)
        yield name, [path for path in folder.rglob("*") if path.is_file()]


def calibration_pairs(output: Path, seed: int, quick: bool) -> Results:
    """Write the missing files of pairs, with ``quick`` of the first target only."""
    parts = QUICK_PARTS if quick else 1
    _, pairs = handbook.divide(seed, parts=parts)
    codes = list(pairs)
    if quick:
        codes = codes[:1]
    for code in codes:
        chosen = output / f"pairs/en-{code}.tsv"
        held_out = output / f"pairs/en-{code}.held-out.tsv"
        if not chosen.exists() or not held_out.exists():
            links.write([chosen, held_out], code, pairs[code], output / "tools", parts)
        yield f"en-{code}", [chosen, held_out]


def checkpoints(output: Path) -> Results:
    """Print sizes, licenses and the free disk space; download models to the hub's cache."""
    entries = models.ARTIFACTS["models"]
    for entry in entries:
        size_mb = models.size_of(entry) / 1e6
        missing_mb = models.missing(entry) / 1e6
        sizes = f"{size_mb:,.0f} MB, {missing_mb:,.0f} MB missing"
        print(f"{entry['path']}: {sizes}, license {entry['license']}")
    missing_bytes = sum(map(models.missing, entries))
    print(require_disk(missing_bytes), flush=True)
    for entry in entries:
        snapshot = models.obtain(entry, output / "wheels")
        yield f"{entry['path']}@{entry['revision']}", list(snapshot.iterdir())
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
    installed = {
        "flite": shutil.which("flite") is not None,
        "sox": shutil.which("sox") is not None,
        "debian-handbook": handbook.HTML.is_dir(),
    }
    for package, is_installed in installed.items():
        if not is_installed:
            raise AlignAttError(f"{package} is not installed: run apt-get install {package}")
    output = arguments.output.expanduser()
    if arguments.quick:
        output = output / "quick"
    try:
        for step in STEPS:
            if step in arguments.only:
                for name, files in make(step, output, arguments.seed, arguments.quick):
                    print(f"{step}: {name}: {described(files)}", flush=True)
    except subprocess.CalledProcessError as error:
        raise FetchError(f"{error} See its message above. The same command resumes.") from None
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.real_world", main))
