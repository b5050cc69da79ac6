"""The wheel: its contents, and commands without a checkout; the documentation site."""

import os
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import soundfile

ROOT = Path(__file__).resolve().parents[2]
HANGS_S = 1200
"""A command that takes longer hangs."""
MOST_RATIO = 2
"""Duration of the first demo of a new environment, which also compiles all modules, to ours."""

BY_NAME = """
import alignatt_agent
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.resources import find_path, known_resources
from alignatt_agent.serve.demo import TALKS

print(alignatt_agent.__file__)
for name in known_resources("agent_configs", ".yaml"):
    config = alignatt_agent.load_config(name)
    print(name, *(load_head_set(item).direction for item in config.head_sets.values()))
print(find_path(TALKS[1]))
"""


def run(*command, cwd, check=True, **environment):
    """Run outside this checkout; returns the output."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, **{key: str(value) for key, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
    )
    text = result.stdout + result.stderr
    assert result.returncode == 0 or not check, text
    return text


def build(folder):
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "wheel", "--no-deps")
    run(*pip, "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    built = build(folder)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")
    run(*pip, "install", "--no-deps", "--target", folder / "site", built, cwd=folder)
    (folder / "empty").mkdir()
    return built


def installed(wheel, *command, check=True):
    """Run from an empty directory with the wheel before everything else."""
    site, empty = wheel.parent / "site", wheel.parent / "empty"
    command = (sys.executable, *command)
    return run(*command, cwd=empty, check=check, PYTHONPATH=site, COLUMNS="100")


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
    assert "submission" in installed(wheel, alignatt, "--help")
    text = installed(wheel, "-c", BY_NAME)
    assert text.startswith(str(wheel.parent / "site"))
    assert "micro-low en-de en-it en-zh" in text
    assert "site/alignatt_agent/data/micro_models/talks/talk-b.flac" in text
    text = installed(wheel, alignatt, "doctor", "--no-engines", check=False)
    assert "Traceback" not in text
    assert "ok    asr checkpoint           micro_models/qwen3-asr#sha256:" in text
    assert "FAIL  asr" not in text


def test_the_wheel_runs_in_an_empty_environment(tmp_path):
    uv = Path(sys.executable).with_name("uv")
    site, python = tmp_path / "site", tmp_path / "site" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", site, cwd=tmp_path)
    install = (uv, "pip", "install", "--no-config", "--python", python, "--no-deps")
    find = [f"--find-links={place}" for place in os.environ.get("PIP_FIND_LINKS", "").split()]
    try:
        run(*install, *find, "-r", ROOT / "requirements" / "torch-cpu.txt", cwd=tmp_path)
    except AssertionError as error:
        pytest.skip(f"no PyTorch for the CPU: {error}")
    run(*install, "-r", ROOT / "requirements" / "cpu.txt", cwd=tmp_path)
    run(*install, build(tmp_path), cwd=tmp_path)
    text, seconds = timed_demo(site / "bin" / "alignatt", tmp_path / "installed")
    # Machines differ, so the time is compared with that of the checkout on the same machine.
    _, checkout_seconds = timed_demo(Path(sys.executable).with_name("alignatt"), tmp_path / "ours")
    print(f"the demo took {seconds:.0f} s, and {checkout_seconds:.0f} s in the checkout")
    assert seconds < MOST_RATIO * checkout_seconds
    for code in ("de", "it", "zh"):
        assert len(re.findall(rf"(?m)^{code}: \S", text)) > 5, text


def timed_demo(alignatt, home):
    """Run a demo with an empty home folder; return its output and its duration in seconds."""
    home.mkdir()
    begin = time.monotonic()
    text = run(alignatt, "demo", "--once", cwd=home, HOME=home)
    return text, time.monotonic() - begin


def test_the_site_builds_without_a_warning():
    made = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    if re.search("No matching distribution|Could not find a version", made.stderr):
        pytest.skip("the package index cannot be reached")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "No issues found" in made.stdout + made.stderr
    front = (ROOT / "build" / "site" / "index.html").read_text(encoding="utf-8")
    pattern = r"""<(?:script|link|img)[^>]*(?:src|href)=["']?(https?://[^"' >]+)"""
    assert re.findall(pattern, front) == []  # nothing is loaded from another server
