"""The stand-in for torchvision is enough for vLLM, and Transformers does not detect it."""

import importlib.util
import os
import subprocess
import sys

import pytest

from alignatt_agent.engine import plugin

SCRIPT = """
import os
os.environ["ALIGNATT_ENGINE_OWNER"] = str(os.getpid())
from alignatt_agent.engine import plugin
plugin._suit_onednn = lambda: None  # without vLLM
plugin.register(); plugin.register()
import importlib.util
from torchvision.transforms.v2 import functional
import torchvision.transforms.v2.functional as again
assert functional is again
assert importlib.util.find_spec("torchvision") is not None
from transformers.utils import is_torchvision_available
assert not is_torchvision_available()
"""


@pytest.mark.skipif(
    "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is not None,
    reason="torchvision is installed",
)
def test_placeholders():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)


@pytest.mark.parametrize("owner", [None, os.getpid()], ids=["nobody", "itself"])
def test_a_process_that_is_not_ours_is_not_touched_and_an_owner_watches_nobody(monkeypatch, owner):
    called = []
    monkeypatch.setattr(plugin, "prepare", lambda: called.append("prepare"))
    monkeypatch.setattr(plugin.crash_report, "listen", lambda: called.append("listen"))
    monkeypatch.delenv(plugin.OWNER, raising=False)
    if owner:
        monkeypatch.setenv(plugin.OWNER, str(owner))
    plugin.register()
    assert called == (["prepare"] if owner else [])


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
