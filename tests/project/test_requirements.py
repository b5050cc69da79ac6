"""The locked environments: they resolve from nothing, and the installer says what it lacks.

What asks the package index needs a network and is skipped without one. Nothing is installed.
"""

from __future__ import annotations

import os
import re
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
# Pure Python without a wheel on the index: built when they are installed.
UNBUILT = ("docopt", "mosestokenizer", "toolwrapper", "uctools")


def pins(name, python):
    """Version of every package of a lock that this Python gets, by normalised name."""
    found = {}
    for line in (REQUIREMENTS / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            requirement = Requirement(line)
            (specifier,) = requirement.specifier
            assert specifier.operator == "==", line
            where = {"python_version": python, "python_full_version": f"{python}.0"}
            if requirement.marker is None or requirement.marker.evaluate(where):
                key = canonicalize_name(requirement.name)
                assert key not in found, line
                found[key] = specifier.version
    return found


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
    # Every Python that is supported gets the locked versions, and nothing else beside them.
    found = {line.partition(" ")[0] for line in result.stdout.splitlines()}
    assert found == {line.partition(" ")[0] for line in lock if not line.startswith("#")}


def test_a_conflict_is_found(tmp_path):
    """A lock made where pip offered a torch without CUDA had this Triton."""
    wanted = pins("cuda.txt", "3.11") | {"triton": "3.9.0"}
    lines = [f"{name}=={wanted[name]}" for name in ("torch", "triton", "numpy")]
    result = resolve(lines, tmp_path, "--universal", "--python-version", PYTHONS[0])
    assert result.returncode != 0
    assert "No solution found" in result.stderr
    assert "you require triton==3.9.0" in " ".join(result.stderr.split())


@pytest.mark.parametrize("python", PYTHONS[1:])  # the first one is what these tests run on
def test_the_cpu_lock_has_wheels(python, tmp_path):
    wanted = [f"{name}=={version}" for name, version in pins("cpu.txt", python).items()]
    options = ["--no-deps", "--python-version", python, "--only-binary", ":all:"]
    options += [option for name in UNBUILT for option in ("--no-binary", name)]
    options += ["--python-platform", "x86_64-manylinux_2_31"]
    result = resolve(wanted, tmp_path, *options)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == sorted(wanted)


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", ["cpu", "cuda"])
def test_the_locks_hold_what_the_project_asks_for(extra, python):
    locked = pins(f"{extra}.txt", python)
    if extra == "cpu":
        locked |= pins("torch-cpu.txt", python)
    extras = (extra, "dev", "plots", *(["ray"] if extra == "cpu" else []))
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
def python(folder, name, version, venv=True):
    """Write a program that says that it is Python of that version."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = tuple(map(int, version.split(".")))
    missing = "" if venv else "sys.modules['ensurepip'] = None"
    program = folder / name
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "Python {version}"; exit; }}\n'
        f'exec {sys.executable} -c "import sys; sys.version_info = {numbers}; {missing}\n$2"\n'
    )
    program.chmod(0o755)
    return str(program)


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
    ("there", "newest", "taken"),
    [
        ({"python3.11": "3.11.9", "python3.12": "3.12.1"}, 13, "python3.11"),
        ({"python3.12": "3.12.1", "python3": "3.10.4"}, 13, "python3.12"),
        ({"python3.11": "3.10.4", "python3.13": "3.13.0"}, 13, "python3.13"),
        ({"python3": "3.12.3"}, 13, "python3"),
        ({"python3.13": "3.13.0", "python3": "3.12.3"}, 12, "python3"),
    ],
)
def test_any_python_that_fits_is_taken(tmp_path, there, newest, taken):
    for name, version in there.items():
        python(tmp_path, name, version)
    result = shell(f"find_python setup {newest}", PATH=str(tmp_path))
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{taken}\n", "")


def test_the_python_that_uv_keeps_is_found(tmp_path):
    kept = python(tmp_path / "elsewhere", "python3.12", "3.12.1")
    uv = tmp_path / "uv"
    uv.write_text(f"#!/bin/sh\n[ \"$*\" = 'python find --system >=3.11,<3.14' ] && echo {kept}\n")
    uv.chmod(0o755)
    assert shell("find_python setup 13", PATH=str(tmp_path)).stdout == f"{kept}\n"


def test_python_overrides_and_is_not_replaced(tmp_path):
    python(tmp_path, "python3.11", "3.11.9")
    newer = python(tmp_path, "python3.13", "3.13.0")
    assert shell("find_python x 13", PATH=str(tmp_path), PYTHON=newer).stdout == f"{newer}\n"
    old = python(tmp_path, "old", "3.10.4")
    result = shell("find_python x 13", PATH=str(tmp_path), PYTHON=old)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"x: needs Python 3.11 to 3.13; PYTHON={old} is none: Python 3.10.4;" in result.stderr
    assert "not found" in shell("find_python x 13", PATH="", PYTHON="nothing").stderr


def test_without_a_python_the_command_is_named(tmp_path):
    python(tmp_path, "python3", "3.14.0")
    result = shell("find_python setup 13", PATH=str(tmp_path))
    assert result.returncode == 1
    assert "get it with `uv python install 3.11`" in result.stderr
    python(tmp_path, "python3.12", "3.12.1", venv=False)
    result = shell("find_python setup 13", PATH=str(tmp_path))
    assert (result.returncode, result.stdout) == (1, "")
    assert "get it with `apt-get install python3.12-venv`" in result.stderr


@pytest.mark.parametrize("failing", range(4))
def test_where_torch_is_looked_for(tmp_path, failing):
    """pip's own settings, PyTorch's index, the package index; a failure says why."""
    places = ["settings", "pytorch", "index"]
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.write_text(f"""#!/bin/sh
case "$*" in
"-c "*) exit 1 ;;
*download.pytorch.org*torch-cpu.txt* | *torch-cpu.txt*download.pytorch.org*) place=pytorch ;;
*torch-cpu.txt*) place=settings ;;
*"--constraint requirements/cuda.txt torch==2.13.0") place=index ;;
esac
echo "$place" >> {tmp_path}/asked
case " {" ".join(places[:failing])} " in *" $place "*) ;; *) exit 0 ;; esac
echo "ERROR: nothing at $place (from versions: 1, 2)" >&2
exit 1
""")
    program.chmod(0o755)
    result = shell(f"install_torch setup {tmp_path} cpu", PATH=os.environ["PATH"])
    assert (tmp_path / "asked").read_text().split() == places[: failing + 1]
    for place in places[:failing]:
        assert f"setup: no: ERROR: nothing at {place}\n" in result.stdout
    assert result.returncode == (failing == 3)
    if failing == 3:
        assert result.stderr.count("(from versions: 1, 2)") == 3  # all that pip said
    elif failing == 2:
        assert "its CUDA libraries take 4 GB more on disk" in result.stdout


def test_the_image_installs_by_the_same_script():
    template = ROOT / "alignatt_agent" / "submission" / "templates" / "Dockerfile"
    dockerfile = template.read_text(encoding="utf-8")
    assert 'RUN sh requirements/install.sh "${EXTRA}"' in dockerfile
    assert re.search(r"^COPY source/requirements/ requirements/$", dockerfile, flags=re.M)
    (version,) = re.findall(r"^ARG PYTHON_IMAGE=python:(3\.\d+)", dockerfile, flags=re.M)
    assert version in PYTHONS
