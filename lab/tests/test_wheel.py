"""The wheel beside the locked dependencies, without a checkout: what it holds and what runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import soundfile

ROOT = Path(__file__).resolve().parents[2]
BY_NAME = """
import alignatt_agent
from alignatt_agent.cli import run
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.resources import find_path, known_resources
from alignatt_agent.serve.demo import TALKS

print(alignatt_agent.__file__)
for name in known_resources("agent_configs", ".yaml"):
    config = alignatt_agent.load_config(name)
    print(name, *(load_head_set(item).direction for item in config.head_sets.values()))
print(find_path(TALKS[1]))
print(run("calibrate", ["run", "--model", "any", "--target", "de", "--pairs", "micro:2"]))
"""


def run(*command, cwd, **environment):
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    status, text = run(*pip, "wheel", *options, ROOT, cwd=folder)
    assert status == 0, text
    (built,) = folder.glob("*.whl")
    status, text = run(*pip, "install", "--no-deps", "--target", folder / "site", built, cwd=folder)
    assert status == 0, text
    # The checkout is installed in this environment, too: the maker of the micro world is not.
    (folder / "site" / "lab.py").write_text("raise ModuleNotFoundError(__name__)\n")
    (folder / "empty").mkdir()
    return built


def installed(wheel, *command):
    """Run from an empty directory with the wheel before everything else."""
    site, empty = wheel.parent / "site", wheel.parent / "empty"
    return run(sys.executable, *command, cwd=empty, PYTHONPATH=str(site), COLUMNS="100")


def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{inside}{path.relative_to(ROOT).as_posix()}"
        for folder, inside in (
            ("alignatt_agent", ""),
            ("agent_configs", "alignatt_agent/data/"),
            ("head_sets", "alignatt_agent/data/"),
            ("micro_models", "alignatt_agent/data/"),
        )
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "devset"} & set(path.parts)
    }
    assert held == expected
    assert "alignatt_agent/submission/templates/server.yaml" in held
    assert wheel.stat().st_size < 60 << 20  # the package index takes 100 MB


def test_the_talks_of_the_wheel_are_those_of_the_dev_set():
    for talk, seconds in (("talk-a", None), ("talk-b", 36)):  # all of it, or its first sentences
        packed, _ = soundfile.read(ROOT / f"micro_models/talks/{talk}.flac", dtype="int16")
        spoken, _ = soundfile.read(ROOT / f"micro_models/devset/wav/{talk}.wav", dtype="int16")
        assert (packed == spoken[: packed.size]).all()
        assert packed.size // 16_000 == (seconds or spoken.size // 16_000)


def test_the_installed_wheel_runs_without_a_checkout(wheel):
    alignatt = wheel.parent / "site" / "bin" / "alignatt"
    status, text = installed(wheel, alignatt, "--help")
    assert status == 0, text
    assert "submission" in text
    status, text = installed(wheel, "-c", BY_NAME)
    assert status == 0, text
    assert text.startswith(str(wheel.parent / "site"))
    assert "micro-low en-de en-it en-zh" in text
    assert "site/alignatt_agent/data/micro_models/talks/talk-b.flac" in text
    # The generator of micro:N pairs is not in a wheel either.
    assert "run from a checkout" in text
    assert "\n2\n" in text
    status, text = installed(wheel, alignatt, "doctor", "--no-engines")
    assert "Traceback" not in text
    assert "ok    asr checkpoint           micro_models/qwen3-asr#sha256:" in text
    assert "FAIL  asr" not in text
