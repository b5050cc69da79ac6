"""The stand-in for torchvision: enough for vLLM, invisible to Transformers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

needs_no_torchvision = pytest.mark.skipif(
    "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is not None,
    reason="torchvision is installed",
)

SCRIPT = """
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

OWNED = """
import os, subprocess, sys, time
os.environ["ALIGNATT_ENGINE_OWNER"] = str(os.getpid())
child = "from alignatt_agent.engine.plugin import register; register(); import time; time.sleep(60)"
print(subprocess.Popen([sys.executable, "-c", child]).pid, flush=True)
time.sleep(60)
"""


@needs_no_torchvision
def test_placeholders():
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)


def test_an_engine_process_does_not_outlive_its_owner():
    # The orphan holds the pipe of our reader until it ends.
    owner = subprocess.Popen([sys.executable, "-c", OWNED], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert int(owner.stdout.readline()) > 0
    owner.kill()
    owner.wait()
    owner.communicate(timeout=45)
