"""``make micro-models`` on a thousandth of its steps: all parts, stopped or not, the same bytes."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alignatt_agent.cli import main
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.head_sets import load_head_set

ROOT = Path(__file__).resolve().parents[2]
WORK = "work"
TOKENIZERS = ("gemma4", "qwen3-asr", "qwen3-aligner")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two builds side by side, each on one core."""
    folders = [tmp_path_factory.mktemp(f"build{i}") for i in (1, 2)]
    command = [sys.executable, "-m", "lab.micro_world", "--scale", "0.001", "--threads", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    builds = [
        subprocess.Popen(
            [*command, "--output", folder, "--work", folder / WORK],
            **pipes,
            cwd=ROOT,
            env=environment,
        )
        for folder in folders
    ]
    try:
        for build in builds:
            output, _ = build.communicate(timeout=600)
            assert build.returncode == 0, output[-4000:]
    finally:
        for build in builds:
            build.kill()
    return folders


def digests(folder):
    files = [
        f for f in folder.rglob("*") if f.is_file() and WORK not in f.relative_to(folder).parts
    ]
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_building_twice_gives_the_same_bytes(built):
    first, second = (digests(folder) for folder in built)
    assert len(first) > 30
    assert first == second


def test_built_files_are_the_shipped_ones_where_no_training_is_involved(built):
    ours, shipped = digests(built[0]), digests(ROOT / "micro_models")
    kept = [name for name in shipped if name.startswith("devset/")]
    kept += [f"{model}/tokenizer.json" for model in TOKENIZERS]
    assert {name: ours[name] for name in kept} == {name: shipped[name] for name in kept}
    assert set(shipped) <= set(ours)


def test_heads_of_the_built_model_can_be_calibrated(built, tmp_path):
    output = tmp_path / "set.json"
    config = tmp_path / "built.yaml"
    changed = {"models.translation.path": str(built[0] / "gemma4")}
    config.write_text(load_config("micro-low", changed).to_yaml())
    command = ["calibrate", "run", "--config", str(config), "--target", "zh"]
    command += ["--pairs", "micro:6:77", "--held-out", "micro:6:78"]
    assert main([*command, "--output", str(output)]) == 0
    assert len(load_head_set(str(output)).heads) == 8
