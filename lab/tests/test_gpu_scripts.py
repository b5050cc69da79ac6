"""The scripts for a GPU: parts are kept, limited and left alone; bundles come apart whole."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from alignatt_agent.cascade.loading import Engines
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.doctor.speakers import speak
from lab.tests.scripts import ROOT, load_script
from tests.fakes import agent as fakes

GPU = ROOT / "lab" / "gpu"

PARTS = """
import subprocess, sys, time
from pathlib import Path
from context import Context
from parts_class import Part

def good(context, value):
    with (context.output / "calls").open("a") as calls:
        calls.write("good ")
    return {"value": value, "summary": f"found {value}"}

def fails(context):
    raise RuntimeError("no such kernel")

def hangs(context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (context.output / "child").write_text(str(child.pid))
    time.sleep(60)

def dies(context):
    import os
    os.kill(os.getpid(), 9)

PARTS = (
    Part("fails", "", "parts:fails", {}, 1, {}),
    Part("hangs", "", "parts:hangs", {}, 1, {}),
    Part("dies", "", "parts:dies", {}, 1, {}),
    Part("good", "", "parts:good", {"value": 7}, 1, {"COLOUR": "red"}),
)
"""


@pytest.fixture
def run(tmp_path):
    """Run the script with parts of our own; returns exit status, messages and JSON by part."""
    folder = tmp_path / "a" / "b" / "gpu"
    folder.mkdir(parents=True)
    for name in ("run", "orchestrate.py", "context.py"):
        shutil.copy(GPU / name, folder)
    text = (folder / "orchestrate.py").read_text()
    (folder / "orchestrate.py").write_text(text.replace("LIMIT_S = 470", "LIMIT_S = 12"))
    shutil.copy(GPU / "parts.py", folder / "parts_class.py")
    (folder / "parts.py").write_text(PARTS)

    def call(*options):
        command = [sys.executable, folder / "run", "--output", tmp_path / "out", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = {
            path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json")
        }
        return done.returncode, done.stdout + done.stderr, found

    return call


def test_a_part_that_fails_hangs_or_dies_leaves_the_rest(run, tmp_path):
    status, text, found = run()
    assert status == 1, text
    assert {name: part["summary"] for name, part in found.items()} == {
        "fails": "FAILED: RuntimeError: no such kernel",
        "hangs": "FAILED: not done after 12 s",
        "dies": "FAILED: exit status -9",
        "good": "found 7",
    }
    assert found["good"]["result"] == {"value": 7}
    assert found["good"]["environment"] == {"COLOUR": "red"}
    assert found["good"]["unpinned"] == []
    assert "RuntimeError: no such kernel" in (tmp_path / "out" / "fails.log").read_text()
    child = int((tmp_path / "out" / "child").read_text())
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
    with tarfile.open(tmp_path / "out" / "results.tar.xz") as archive:
        assert {"good.json", "fails.log"} <= set(archive.getnames())


def test_what_succeeded_is_kept_and_the_time_is(run, tmp_path):
    calls = tmp_path / "out" / "calls"
    assert run("--only", "good")[0] == 0
    status, text, _ = run("--only", "good")
    assert (status, text.strip()) == (0, "good: kept")
    assert calls.read_text() == "good "
    status, text, _ = run("--only", "good", "--again", "--minutes", "0.01")
    assert status == 3
    assert "good: not started, " in text
    assert run("--only", "good", "--again")[0] == 0
    assert calls.read_text() == "good good "


def test_other_versions_need_the_switch_and_are_recorded(run, tmp_path, monkeypatch):
    fake = tmp_path / "site" / "transformers-1.0.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 1.0\n")
    monkeypatch.setenv("PYTHONPATH", str(fake.parent))
    assert run("--only", "good")[::2] == (2, {})
    status, text, found = run("--only", "good", "--unpinned")
    assert status == 0, text
    assert found["good"]["unpinned"][0].startswith("transformers: 1.0")


def test_the_parts_name_functions_that_exist(monkeypatch):
    monkeypatch.syspath_prepend(str(GPU))
    for part in load_script("lab/gpu/parts.py").PARTS:
        module, _, function = part.module.partition(":")
        source = (GPU / f"{module}.py").read_text()
        assert re.search(rf"^def {function}\(\s*context: Context", source, flags=re.M)


# ------------------------------------------------------------------ the bundle
def test_a_bundle_comes_apart_whole(tmp_path):
    bundle = load_script("lab/gpu/bundle")
    assert set(bundle.carried()) <= dict(bundle.locked()).keys()
    wheel = tmp_path / "vllm-1-py3-none-any.whl"
    files = {
        "vllm/__init__.py": b"x = 1\n",
        "vllm/_C_stable_libtorch.abi3.so": bytes(range(256)) * 400,
        "vllm/_moe_C.abi3.so": b"left out",
        "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so": b"left out",
        "other/module.so": b"of another package",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    site, output, there = (tmp_path / name for name in ("site", "bundle", "there"))
    output.mkdir()
    bundle.unpack_wheel(wheel, site)
    parts = bundle.pack(site, output, 300)
    assert len(parts) > 2
    bundle.write_manifest(output, parts, "3.12", {"vllm": "1"})
    command = [sys.executable, GPU / "unpack", output, there]
    subprocess.run(command, check=True, capture_output=True)
    found = {str(path.relative_to(there)): path for path in there.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == {
        name: data for name, data in files.items() if data != b"left out"
    }
    parts[1].write_bytes(b"damaged")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"missing or damaged in {output}: bundle.01" in done.stderr


# ------------------------------------------------------------------ the run on tape
class Served:
    """Stands for a served model of other dimensions; notes the steps of each request."""

    name, pids = "a large model", ()

    def __init__(self) -> None:
        self.steps = []

    def generate(self, prompt, sampling):
        assert sampling.ignore_eos
        self.steps.append(sampling.max_tokens)

    def stop(self):
        self.steps.append("stopped")

    shutdown = stop


@pytest.fixture
def forced(monkeypatch):
    module = load_script("lab/gpu/forced.py")
    module.aligned, module.drafted = [], []
    model = SimpleNamespace(processor=None, tokenizer=None, name="")
    monkeypatch.setattr(module, "SpeechModel", lambda served: model)
    monkeypatch.setattr(module, "TimingModel", lambda served: None)
    prompts = SimpleNamespace(ids=lambda language, context: (1, 2))
    monkeypatch.setattr(module, "RecognitionPrompt", lambda *_: prompts)
    aligner = SimpleNamespace(align=lambda audio, text, language: module.aligned.append(text))
    monkeypatch.setattr(module, "QwenAligner", lambda _: aligner)

    class Drafts:
        def __init__(self, served, heads, stops):
            assert stops == frozenset()

        def draft(self, prompt, tokens, readout=None, gate=None):
            module.drafted.append((prompt.token_ids[1], tokens, readout.heads))

    monkeypatch.setattr(module, "DraftEngine", Drafts)
    return module


@pytest.fixture
def world(tmp_path):
    resolved = resolve(load_config(str(fakes.write_config(tmp_path))), ["de"])
    found = fakes.FakeEngines()
    engines = Engines(found.asr, found.aligner, found.translation, found.tokenizer, 4, 4)
    return resolved, engines


def test_a_taped_run_decides_the_same_with_the_same_work_elsewhere(forced, world):
    resolved, engines = world
    tape, asr, job = forced.Tape.blank(), Served(), (fakes.talk(13), "de")
    recorded = speak(resolved, forced.record(engines, tape, len), job)
    transcripts, drafts = len(tape.transcripts), len(tape.drafts)
    assert min(transcripts, drafts) > 3
    machines = forced.Machines(asr, None, None, ((9, 9),))
    copy = tape.copy()
    played = speak(resolved, machines.play(engines, copy, 3), job)
    assert played.units == recorded.units
    assert not [*copy.transcripts, *copy.times, *copy.drafts]
    assert asr.steps == [max(1, heard.steps) for heard, _ in tape.transcripts]
    assert len(forced.aligned) == len(tape.times)
    assert forced.drafted == [(13, max(1, draft.steps), ((9, 9),)) for draft in tape.drafts]


def test_the_cascade_is_measured_at_every_chunk_and_with_many_streams(
    forced, world, tmp_path, monkeypatch
):
    """The parts themselves, on fake engines."""
    monkeypatch.setitem(sys.modules, "forced", forced)
    cascade = load_script("lab/gpu/cascade.py")
    resolved, engines = world
    started = []

    @contextmanager
    def opened(names, targets):
        yield {cascade.CONFIG: resolved}, engines

    def excerpts(devset, targets, count, seconds):
        return [(fakes.talk(13)[: int(seconds * 16000)], "de") for _ in range(count)]

    def start(role, model, heads, **options):
        assert Path(model.path, "config.json").is_file()
        started.append((role, len(heads), options["max_num_seqs"], Served()))
        return started[-1][-1]

    monkeypatch.setattr("lab.bench.streams.opened", opened)
    monkeypatch.setattr("alignatt_agent.doctor.speakers.excerpts", excerpts)
    monkeypatch.setattr("alignatt_agent.engine.pool.start", start)
    tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: text.split())
    found = SimpleNamespace(from_pretrained=lambda path: tokenizer)
    monkeypatch.setattr("transformers.AutoTokenizer", found)
    context = cascade.Context(tmp_path, self_test=True)
    found = json.loads(json.dumps(cascade.chunks(context)))
    assert [(row["chunk_ms"], row["audio_s"]) for row in found["rows"]] == [(250, 6.5), (500, 6.5)]
    assert all({"asr", "aligner", "replay"} <= row["rtf_by_stage"].keys() for row in found["rows"])
    assert [item[:3] for item in started] == [
        ("asr", 0, 4), ("aligner", 0, 4), ("translation", 8, 4),
    ]  # fmt: skip
    assert all(served.steps[-2:] == ["stopped"] * 2 for *_, served in started)
    found = cascade.streams(context)
    assert [row["streams"] for row in found["rows"]] == [1, 2]
    assert all(row["units"] > 3 and "lag_p95_s" in row for row in found["rows"])
    assert cascade.memory(context)["problem"] == ""
