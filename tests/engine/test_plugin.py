"""The stand-in for torchvision: enough for vLLM, invisible to Transformers."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time

import pytest

from alignatt_agent.engine import plugin

needs_no_torchvision = pytest.mark.skipif(
    "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is not None,
    reason="torchvision is installed",
)

SCRIPT = """
import os
os.environ["ALIGNATT_ENGINE_OWNER"] = str(os.getpid())
from alignatt_agent.engine.plugin import register
register(); register()
import importlib.util
from torchvision.transforms.v2 import functional
import torchvision.transforms.v2.functional as again
assert functional is again
assert importlib.util.find_spec("torchvision") is not None
from transformers.utils import is_torchvision_available
assert not is_torchvision_available()
"""

FOREIGN = """
import sys
from vllm import _custom_ops as ops
from alignatt_agent.engine.plugin import register
from transformers.models.auto.video_processing_auto import AutoVideoProcessor
from transformers.processing_utils import ProcessorMixin
def state():
    owned = ops.onednn_mm if hasattr(ops, "onednn_mm") else None
    checked = ProcessorMixin.check_argument_for_proper_class
    return owned, AutoVideoProcessor.from_pretrained, checked, "torchvision" in sys.modules
before = state()
register()
assert state() == before
"""

OWNED = """
import os, subprocess, sys, time
os.environ["ALIGNATT_ENGINE_OWNER"] = str(os.getpid())
child = (
    "import os, time; from alignatt_agent.engine.plugin import register; register();"
    "print(os.getpid(), flush=True); time.sleep(60)"
)
subprocess.Popen([sys.executable, "-c", child])
time.sleep(60)
"""

FORKING = """
import os, sys, time

def leave_alone(cls, config):
    before = os.environ.get(METHOD)
    prepare(cls, config)
    os.environ.pop(METHOD)
    if before is not None:
        os.environ[METHOD] = before

if __name__ == "__main__":
    METHOD = "VLLM_WORKER_MULTIPROC_METHOD"
    os.environ[METHOD] = "fork"
    from vllm.platforms.cpu import CpuPlatform
    prepare = CpuPlatform.check_and_update_config.__func__
    CpuPlatform.check_and_update_config = classmethod(leave_alone)
    from alignatt_agent.config.agent_config import ModelConfig
    from alignatt_agent.engine import fork_server, pool
    fork_server.begin = fork_server.use = lambda: None
    model = ModelConfig(path=sys.argv[1], dtype="float32")
    print(*pool.start("translation", model, [(0, 1)]).pids, flush=True)
    time.sleep(120)
"""


@needs_no_torchvision
def test_placeholders():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)


def test_nothing_is_touched_in_a_process_that_is_not_ours():
    environment = {key: value for key, value in os.environ.items() if key != plugin.OWNER}
    subprocess.run([sys.executable, "-c", FOREIGN], check=True, timeout=120, env=environment)


def test_an_engine_process_does_not_outlive_its_owner():
    # The orphan holds the pipe of our reader until it ends.
    owner = subprocess.Popen([sys.executable, "-c", OWNED], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert int(owner.stdout.readline()) > 0
    print(f"gone {seconds_until_gone(owner):.1f} s after its owner was killed")


def seconds_until_gone(owner):
    """Kill the owner; its engine holds the pipe until it ends, and looks once a second."""
    begin = time.monotonic()
    owner.kill()
    owner.wait()
    owner.communicate(timeout=45)
    return time.monotonic() - begin


def test_engines_are_spawned_where_vllm_would_fork(checkpoints, tmp_path):
    """vLLM's platform for CUDA leaves the start method at "fork", the one for CPUs forces "spawn".

    A forked engine never runs our plug-in, and so outlives its owner.
    """
    script = tmp_path / "owner.py"
    script.write_text(FORKING)
    owner = subprocess.Popen(
        [sys.executable, str(script), str(checkpoints / "gemma4")], stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    (engine,) = map(int, owner.stdout.readline().split())
    try:
        print(f"gone {seconds_until_gone(owner):.1f} s after its owner was killed")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(engine, signal.SIGKILL)


def test_linear_layers_take_any_number_of_rows_with_few_kernels():
    import torch
    from vllm import _custom_ops as ops
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        pytest.skip("not the CPU build")
    plugin.prepare()
    weight = torch.randn(24, 16)
    handler = ops.create_onednn_mm(weight.t(), 32)
    for rows in (*range(1, 40), 255, 256, 257, 300):
        given = torch.randn(2, 16, rows).transpose(1, 2)  # with gaps
        wanted = given.contiguous() @ weight.t()
        assert torch.allclose(ops.onednn_mm(handler, given, None), wanted, atol=1e-5)
    assert len({rows + plugin.padding(rows) for rows in range(1, 257)}) <= 32
    assert all((rows + plugin.padding(rows)) % 64 == 0 for rows in range(257, 2000))
