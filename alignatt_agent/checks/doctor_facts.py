"""Facts about this machine for ``alignatt-doctor``; nothing is judged here."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

from packaging.requirements import Requirement

from alignatt_agent.checks.doctor_machine import Gpu, Machine
from alignatt_agent.config.agent_config import ModelConfig

PACKAGE = "alignatt_agent"

_MIB = 1 << 20


def look_around() -> Machine:
    """Collect the facts; takes some seconds, because torch is imported."""
    metadata = importlib.metadata.metadata(PACKAGE)
    requirements = tuple(importlib.metadata.requires(PACKAGE) or ())
    names = {Requirement(line).name for line in requirements} | {"torchvision"}
    installed = {name: version for name in names if (version := _version(name))}
    torch_error = _import_error("torch")
    return Machine(
        python=platform.python_version(),
        requires_python=metadata["Requires-Python"] or "",
        requirements=requirements,
        installed=installed,
        torch_error=torch_error,
        torch_cuda=None if torch_error else importlib.import_module("torch").version.cuda,
        torchvision_error=_import_error("torchvision") if "torchvision" in installed else "",
        cores=len(os.sched_getaffinity(0)),
        free_memory=free_memory(),
        kv_space=os.environ.get("VLLM_CPU_KVCACHE_SPACE") or None,
        gpus=_gpus(),
    )


def free_memory() -> int:
    """Bytes of main memory that can be had without swapping."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no MemAvailable; vLLM runs on Linux only")


def weight_bytes(model: ModelConfig) -> int:
    """Bytes of the weight files of a checkpoint that was located."""
    return sum(path.stat().st_size for path in Path(model.path).glob("*.safetensors"))


def decoder_shape(model: ModelConfig) -> tuple[int, int]:
    """Decoder layers and attention heads per layer, from the checkpoint's ``config.json``."""
    config = json.loads((Path(model.path) / "config.json").read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    return text["num_hidden_layers"], text["num_attention_heads"]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import_error(module: str) -> str:
    try:
        importlib.import_module(module)
    except Exception as error:  # builds for another torch fail in many ways
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""


def _gpus() -> tuple[Gpu, ...]:
    """Ask the driver's own tool, so that no CUDA context is opened here."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    fields = "name,driver_version,memory.free,memory.total"
    answer = subprocess.run(
        [tool, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=False,
    )
    rows = [line.split(", ") for line in answer.stdout.splitlines() if line.count(", ") == 3]
    return tuple(Gpu(n, d, int(free) * _MIB, int(total) * _MIB) for n, d, free, total in rows)
