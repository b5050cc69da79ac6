"""The dev set inside a bundle: segmentation, references and lengths, without the audio."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from alignatt_agent.evaluation.devset import SEGMENTATION, DevSet, DevSetError, wav_seconds


def streamed(wavs: Path) -> dict[str, float]:
    """Return the length in seconds of every recording that a run streamed, by stem.

    Args:
        wavs: list of recordings, one path a line, as ``simulstream_inference`` takes it.

    Raises:
        DevSetError: the list or a recording is gone.
    """
    return {path.stem: wav_seconds(path) for path in _listed(wavs)}


def find_devset(wavs: Path) -> Path:
    """Return the dev set that a run streamed, from the list of its recordings.

    Raises:
        DevSetError: the list is gone or the recordings are not in a dev set.
    """
    first = _listed(wavs)[0]
    for folder in first.parents:
        if (folder / SEGMENTATION).is_file():
            return folder
    raise DevSetError(
        f"no {SEGMENTATION} above {first}, which {wavs} lists; name the dev set with --devset DIR"
    )


def _listed(wavs: Path) -> list[Path]:
    lines = wavs.read_text(encoding="utf-8").splitlines() if wavs.is_file() else []
    paths = [Path(line.strip()) for line in lines if line.strip()]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing or not paths:
        what = f"lists {missing[0]}, which does not exist" if missing else "names no recording"
        raise DevSetError(
            f"{wavs} {what}: the bundle needs the length of every recording; run simulstream-eval "
            f"again, or put the recordings back"
        )
    return paths


def copy_devset(source: Path, folder: Path) -> None:
    """Copy the segmentation and every reference; other languages serve to tell outputs apart."""
    (folder / "ref").mkdir(parents=True)
    shutil.copyfile(source / SEGMENTATION, folder / SEGMENTATION)
    for reference in sorted((source / "ref").glob("*.txt")):
        shutil.copyfile(reference, folder / "ref" / reference.name)


def typed_devset(devset: DevSet, folder: str) -> DevSet:
    """Return ``devset`` with the paths that a command has, typed next to ``folder``."""
    references = {code: Path(folder, "ref", f"{code}.txt") for code in devset.references}
    return replace(devset, segmentation=Path(folder, SEGMENTATION), references=references)
