"""The locked environments and the extra for cards resolve from nothing.

They ask the package index: skipped without a network. Nothing is installed.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.test_requirements import ARM, PROJECT, PYTHONS, REQUIREMENTS, ROOT, X86, pins

# Pure Python without a wheel on the index: built when they are installed.
UNBUILT = ("docopt", "mosestokenizer", "toolwrapper", "uctools")
WHEELS = ["--only-binary", ":all:", *(f"--no-binary={name}" for name in UNBUILT)]


def resolve(lines, folder, *options):
    """Ask the package index, with this machine's settings for pip and uv switched off."""
    options = ["--quiet", "--no-header", "--no-annotate", "--no-python-downloads", *options]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    result = subprocess.run(
        [Path(sys.executable).with_name("uv"), "pip", "compile", "-", *options],
        input="\n".join(lines),
        env={**environment, "XDG_CONFIG_HOME": str(folder), "XDG_CONFIG_DIRS": str(folder)},
        cwd=ROOT,  # for [tool.uv]
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to fetch" in result.stderr:
        pytest.skip(f"the package index cannot be reached: {result.stderr.splitlines()[0]}")
    return result


def test_the_cuda_lock_resolves_from_nothing(tmp_path):
    lock = (REQUIREMENTS / "cuda.txt").read_text(encoding="utf-8").splitlines()
    result = resolve(lock, tmp_path, "--universal", "--python-version", PYTHONS[0])
    assert result.returncode == 0, result.stderr
    # Every supported Python gets the locked versions and no other packages.
    found = {line.partition(" ")[0] for line in result.stdout.splitlines()}
    assert found == {line.partition(" ")[0] for line in lock if not line.startswith("#")}


@pytest.mark.parametrize(
    ("name", "python", "platform"),
    [  # on x86_64, these tests run on the first Python, and the other lock was resolved above
        *(("cpu.txt", python, X86) for python in PYTHONS[1:]),
        *(("cpu.txt", "3.13", ARM), ("cuda.txt", "3.12", ARM)),
    ],
)
def test_the_locks_have_wheels(name, python, platform, tmp_path):
    wanted = [f"{name}=={version}" for name, version in pins(name, python, platform).items()]
    options = ["--python-version", python, "--python-platform", platform, *WHEELS]
    result = resolve(wanted, tmp_path, "--no-deps", *options)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == sorted(wanted)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", [X86, ARM])
def test_the_extra_for_cards_resolves_from_the_public_index(python, platform, tmp_path):
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["cuda"], *extras["evaluation"]]
    options = ["--python-version", python, "--python-platform", platform, *WHEELS]
    found = resolve(wanted, tmp_path, *options)
    assert found.returncode == 0, found.stderr
    assert "vllm==0.32.0\n" in found.stdout
