"""The locked environments contain the requirements; the installer reports what is missing."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
PYTHONS = ("3.11", "3.12", "3.13")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
X86, ARM = "x86_64-manylinux_2_31", "aarch64-manylinux_2_34"
"""Platforms, with the oldest C library for which all packages have wheels."""


def pins(name, python, platform=X86):
    """Version of every package of a lock that this Python gets, by normalised name."""
    found = {}
    for line in (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", line
            where = {"python_version": python, "python_full_version": f"{python}.0"}
            where["platform_machine"] = platform.partition("-")[0]
            if requirement.marker is None or requirement.marker.evaluate(where):
                key = canonicalize_name(requirement.name)
                assert key not in found, line
                found[key] = specifier.version
    return found


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", ["cpu", "cuda"])
def test_the_locks_hold_what_the_project_asks_for(extra, python):
    locked = pins(f"{extra}.txt", python)
    if extra == "cpu":
        locked |= pins("torch-cpu.txt", python)
    extras = (extra, "dev", "evaluation", "plots", "qr", *(["ray"] if extra == "cpu" else []))
    asked = [line for name in extras for line in PROJECT["optional-dependencies"][name]]
    for line in [*PROJECT["dependencies"], *asked]:
        requirement = Requirement(line)
        version = locked.get(canonicalize_name(requirement.name))
        assert version, f"{extra}.txt lacks {line}"
        assert requirement.specifier.contains(version, prereleases=True), line
    assert all(
        python in Requirement(f"x{PROJECT['requires-python']}").specifier for python in PYTHONS
    )


# ------------------------------------------------------------------ the installers
def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def write_python(path, version):
    """Write a program that says that it is Python of that version; with ``!`` it has no venv."""
    number = version.rstrip("!")
    missing = "sys.modules['ensurepip'] = None" if version.endswith("!") else ""
    facts = f"import sys; sys.version_info = {tuple(map(int, number.split('.')))}; {missing}"
    says = f'[ "$1" = --version ] && {{ echo "Python {number}"; exit; }}'
    write_program(path, f'{says}\nexec {sys.executable} -c "{facts}\n$2"')


def shell(line, **environment):
    return subprocess.run(
        ["/bin/sh", "-euc", f". requirements/common.sh\n{line}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("there", "newest", "named", "taken", "refusal"),
    [
        ({"python3.11": "3.11.9", "python3.12": "3.12.1"}, 13, "", "python3.11", ""),
        ({"python3.12": "3.12.1", "python3": "3.10.4"}, 13, "", "python3.12", ""),
        ({"python3.11": "3.10.4", "python3.13": "3.13.0"}, 13, "", "python3.13", ""),
        ({"python3": "3.12.3"}, 13, "", "python3", ""),
        ({"python3.13": "3.13.0", "python3": "3.12.3"}, 12, "", "python3", ""),
        ({"kept": "3.12.1"}, 13, "", "{}/kept", ""),  # uv knows where
        ({"python3.11": "3.11.9", "newer": "3.13.0"}, 13, "{}/newer", "{}/newer", ""),
        (
            {"python3.11": "3.11.9", "old": "3.10.4"},
            *(13, "{}/old", ""),
            "x: expected Python 3.11 to 3.13; PYTHON={}/old does not fit: Python 3.10.4;",
        ),
        ({}, 13, "nothing", "", "not found"),
        ({"python3": "3.14.0"}, 13, "", "", "install it with `uv python install 3.11`"),
        (
            {"python3": "3.14.0", "python3.12": "3.12.1!"},
            *(13, "", "", "install it with `apt-get install python3.12-venv`"),
        ),
    ],
)
def test_a_python_that_fits_is_taken(tmp_path, there, newest, named, taken, refusal):
    for name, version in there.items():
        write_python(tmp_path / name, version)
    if "kept" in there:
        asked = "[ \"$*\" = 'python find --system >=3.11,<3.14' ]"
        write_program(tmp_path / "uv", f"{asked} && echo {tmp_path}/kept")
    named = {"PYTHON": named.format(tmp_path)} if named else {}
    result = shell(f"find_python x {newest}", PATH=str(tmp_path), **named)
    assert result.stdout == (f"{taken}\n".format(tmp_path) if taken else "")
    assert refusal.format(tmp_path) in result.stderr
    assert (result.returncode, bool(result.stderr)) == (not taken, not taken)


@pytest.mark.parametrize("failing", range(4))
def test_where_torch_is_looked_for(tmp_path, failing):
    """pip's own settings, PyTorch's index, the package index; a failure says why."""
    places = ["settings", "pytorch", "index"]
    (tmp_path / "bin").mkdir()
    program = f"""case "$*" in
"-c "*) exit 1 ;;
*download.pytorch.org*torch-cpu.txt* | *torch-cpu.txt*download.pytorch.org*) place=pytorch ;;
*torch-cpu.txt*) place=settings ;;
*"--constraint requirements/cuda.txt torch==2.13.0") place=index ;;
esac
echo "$place" >> {tmp_path}/asked
case " {" ".join(places[:failing])} " in *" $place "*) ;; *) exit 0 ;; esac
echo "ERROR: nothing at $place (from versions: 1, 2)" >&2
exit 1"""
    write_program(tmp_path / "bin" / "python", program)
    result = shell(f"install_torch setup {tmp_path} cpu", PATH=os.environ["PATH"])
    assert (tmp_path / "asked").read_text().split() == places[: failing + 1]
    for place in places[:failing]:
        assert f"setup: failed: ERROR: nothing at {place}\n" in result.stdout
    assert result.returncode == (failing == 3)
    if failing == 3:
        assert result.stderr.count("(from versions: 1, 2)") == 3  # all that pip said
    elif failing == 2:
        assert "its CUDA libraries need 4 GB more on disk" in result.stdout
