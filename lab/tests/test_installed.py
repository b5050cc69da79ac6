"""The wheel in an empty environment, outside any checkout: `alignatt demo --once` translates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_S = 180
"""From the wheel to the end of the demo, once everything is downloaded."""


def run(*command, cwd, **environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    result = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_the_wheel_runs_in_an_empty_environment(tmp_path):
    uv = Path(sys.executable).with_name("uv")
    site, python = tmp_path / "site", tmp_path / "site" / "bin" / "python"
    run(sys.executable, "-m", "venv", "--without-pip", site, cwd=tmp_path)
    install = (uv, "pip", "install", "--no-config", "--python", python, "--no-deps")
    find = [f"--find-links={place}" for place in os.environ.get("PIP_FIND_LINKS", "").split()]
    try:  # what is downloaded, which is not timed
        run(*install, *find, "-r", ROOT / "requirements" / "torch-cpu.txt", cwd=tmp_path)
    except AssertionError as error:
        pytest.skip(f"no PyTorch for the CPU: {error}")
    run(*install, "-r", ROOT / "requirements" / "cpu.txt", cwd=tmp_path)
    begin = time.monotonic()
    pip = (sys.executable, "-m", "pip", "-qq", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "--wheel-dir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run(*install, wheel, cwd=tmp_path)
    (tmp_path / "empty").mkdir()
    text = run(site / "bin" / "alignatt", "demo", "--once", cwd=tmp_path / "empty", HOME=tmp_path)
    seconds = time.monotonic() - begin
    print(f"wheel to the end of the demo: {seconds:.0f} s")
    for code in ("de", "it", "zh"):
        assert len(re.findall(rf"(?m)^{code}: \S", text)) > 5, text
    assert seconds < MOST_S


def test_the_site_builds_without_a_warning():
    made = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    if re.search("No matching distribution|Could not find a version", made.stderr):
        pytest.skip("the package index cannot be reached")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "No issues found" in made.stdout + made.stderr
    front = (ROOT / "build" / "site" / "index.html").read_text(encoding="utf-8")
    pattern = r"""<(?:script|link|img)[^>]*(?:src|href)=["']?(https?://[^"' >]+)"""
    assert re.findall(pattern, front) == []  # nothing is loaded from another server
