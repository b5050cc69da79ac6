"""The scripts for a GPU: parts are kept, limited and skipped; bundles unpack completely."""

import json
import os
import re
import subprocess
import tarfile
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace

import pytest

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.doctor.speakers import speak
from lab.gpu import __main__ as gpu
from lab.gpu import cascade, forced
from lab.gpu.parts import PARTS, Part
from tests.fakes import agent as fakes

BUNDLE = Path(gpu.__file__).with_name("bundle.sh")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command with parts of our own; returns exit status, messages and JSON by part."""
    options = {"good": {"value": 7}}
    parts = [
        Part(name, "", f"lab.tests.gpu_parts:{name}", 1, options.get(name, {}), {"COLOUR": "red"})
        for name in ("fails", "hangs", "dies", "good")
    ]
    monkeypatch.setattr(gpu, "PARTS", parts)
    monkeypatch.setattr(gpu, "LIMIT_S", 12)

    def call(*options):
        status = gpu.main(["--output", str(tmp_path / "out"), *options])
        found = {
            path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").glob("*.json")
        }
        return status, "".join(capsys.readouterr()), found

    return call


def test_a_part_that_fails_hangs_or_dies_leaves_the_rest(run, tmp_path):
    status, text, found = run()
    assert status == 1, text
    assert {name: part["summary"] for name, part in found.items()} == {
        "fails": "FAILED: RuntimeError: no such kernel",
        "hangs": "FAILED: not finished after 12 s",
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


def test_other_versions_are_recorded(run, tmp_path, monkeypatch):
    fake = tmp_path / "site" / "transformers-1.0.dist-info"
    fake.mkdir(parents=True)
    (fake / "METADATA").write_text("Metadata-Version: 2.1\nName: transformers\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(fake.parent))
    status, text, found = run("--only", "good")
    assert status == 0, text
    assert found["good"]["unpinned"][0].startswith("transformers: 1.0")


@pytest.mark.parametrize("name", sorted({part.function for part in PARTS}))
def test_the_parts_name_functions_that_exist(name):
    assert callable(resolve_name(name))


# ------------------------------------------------------------------ the bundle
UV = """#!/bin/sh
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/alignatt_agent" "$2/vllm/vllm_flash_attn" "$2/other"
head -c 100000 /dev/urandom > "$2/vllm/_C_stable_libtorch.abi3.so"
touch "$2/vllm/_moe_C.abi3.so" "$2/vllm/vllm_flash_attn/_fa2_C.abi3.so" "$2/other/module.so"
"""
"""Writes files that a bundle may contain, and files that it leaves out."""


def test_a_bundle_comes_apart_whole(tmp_path):
    lock = (BUNDLE.parents[2] / "requirements" / "cuda.txt").read_text()
    carried = (BUNDLE.parent / "carried.txt").read_text().splitlines()
    assert all(f"\n{name}==" in lock for name in carried if name[0] != "#")
    (tmp_path / "uv").write_text(UV)
    (tmp_path / "uv").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PART": "30000"}
    command = ["sh", str(BUNDLE), str(tmp_path / "out")]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    (join,) = re.findall("^sha256sum -c .*", (BUNDLE.parent / "README.md").read_text(), re.M)
    join = join.replace("/tmp/site", str(tmp_path / "site"))
    joined = partial(subprocess.run, ["sh", "-c", join], cwd=tmp_path / "out", capture_output=True)
    joined(check=True)
    found = {path.name: path.read_bytes() for path in (tmp_path / "site").rglob("*.so")}
    assert found.keys() == {"_C_stable_libtorch.abi3.so", "module.so"}
    assert len(found["_C_stable_libtorch.abi3.so"]) == 100_000
    (tmp_path / "out" / "bundle.01").write_bytes(b"damaged")
    assert "bundle.01: FAILED" in joined(check=False).stdout.decode()


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
def asked(monkeypatch):
    """Requests to played engines of a large model: texts to align, and drafts."""
    texts, drafts = [], []
    model = SimpleNamespace(processor=None, tokenizer=None, name="")
    prompts = SimpleNamespace(ids=lambda language, context: (1, 2))
    aligner = SimpleNamespace(align=lambda audio, text, language: texts.append(text))

    def draft(request):
        second_id = request.prompt.token_ids[1]
        drafts.append((second_id, request.max_tokens, request.readout.heads))

    for name, fake in {
        "SpeechModel": model,
        "TimingModel": None,
        "RecognitionPrompt": prompts,
        "QwenAligner": aligner,
        "DraftEngine": SimpleNamespace(draft=draft),
    }.items():
        monkeypatch.setattr(forced, name, lambda *_, fake=fake: fake)
    return texts, drafts


@pytest.fixture
def world(tmp_path):
    resolved = resolve(load_config(str(fakes.write_config(tmp_path))), ["de"])
    return resolved, fakes.FakeEngines()


def test_a_taped_run_decides_the_same_with_the_same_work_elsewhere(asked, world):
    resolved, engines = world
    tape, asr, job = forced.Tape(), Served(), (fakes.talk(13), "de")
    recorded = speak(resolved, forced.record(engines, tape, len), job)
    transcripts, drafts = len(tape.transcripts), len(tape.drafts)
    assert min(transcripts, drafts) > 3
    machines = forced.Machines(asr, None, None, ((9, 9),))
    player = machines.play(engines, tape, 3)
    played = speak(resolved, player, job)
    assert played.units == recorded.units
    assert player.asr.tape == forced.Tape()
    assert asr.steps == [max(1, heard.steps) for heard, _ in tape.transcripts]
    assert len(asked[0]) == len(tape.times)
    assert asked[1] == [(13, max(1, draft.steps), ((9, 9),)) for draft in tape.drafts]


def test_the_cascade_is_measured_at_every_chunk_and_with_many_streams(
    asked, world, tmp_path, monkeypatch
):
    """The parts themselves, on fake engines."""
    resolved, engines = world
    started = []

    def excerpts(devset, targets, count, seconds):
        return [(fakes.talk(13)[: int(seconds * 16000)], "de") for _ in range(count)]

    def start(role, model, heads, **options):
        assert Path(model.path, "config.json").is_file()
        started.append((role, len(heads), options["max_num_seqs"], Served()))
        return started[-1][-1]

    runtime = fakes.FakeRuntime(engines)
    monkeypatch.setattr(runtime, "resolve", lambda config, targets: resolved)
    monkeypatch.setattr(cascade, "Runtime", lambda: runtime)
    monkeypatch.setattr("alignatt_agent.doctor.speakers.excerpts", excerpts)
    monkeypatch.setattr(cascade, "start_model", start)
    tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: text.split())
    found = SimpleNamespace(from_pretrained=lambda path: tokenizer)
    monkeypatch.setattr(cascade, "AutoTokenizer", found)
    context = cascade.Context(tmp_path, self_test=True)
    found = json.loads(json.dumps(cascade.chunks(context)))
    assert found["problem"] == ""
    assert [(row["chunk_ms"], row["audio_s"]) for row in found["rows"]] == [(250, 6.5), (500, 6.5)]
    assert all({"asr", "aligner", "replay"} <= row["rtf_by_stage"].keys() for row in found["rows"])
    assert [item[:3] for item in started] == [
        ("asr", 0, 4), ("aligner", 0, 4), ("translation", len(resolved.heads), 4),
    ]  # fmt: skip
    assert all(served.steps[-2:] == ["stopped"] * 2 for *_, served in started)
    found = cascade.streams(context)
    assert [row["streams"] for row in found["rows"]] == [1, 2]
    assert all(row["units"] > 3 and "lag_p95_s" in row for row in found["rows"])
