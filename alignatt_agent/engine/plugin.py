"""A vLLM plug-in that runs in all vLLM processes of the environment but changes only ours.

The plug-in lets vLLM's Qwen3-ASR and Gemma-4 load without torchvision: their modules import image
processors, which refer to torchvision but do not need it for audio and text. On a CPU, it adapts
the inputs of vLLM's linear layers to oneDNN, and adds kernels for 8-bit layers. It reports errors
of engines, and stops our engine processes as soon as they are finished or their owner is killed.
"""

import importlib.util
import multiprocessing.util
import os
import sys
import threading
import time
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import psutil
from torch.nn.functional import pad

from alignatt_agent.engine import crash_report

OWNER = "ALIGNATT_ENGINE_OWNER"
"""Environment variable with the ID of the process that owns the engines."""

_PLACEHOLDERS = (
    "torchvision",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "torchvision.transforms.v2",
    "torchvision.transforms.v2.functional",
)


def register() -> None:
    """Prepare a process of our engines or their owner; a second call has no effect."""
    owner = int(os.environ.get(OWNER, "0"))
    if not owner:
        return
    prepare()
    if owner != os.getpid():
        _add_int8_kernels()
        crash_report.listen()
        watch(owner)
        if multiprocessing.parent_process() is not None:
            # At the lowest priority, this runs after all other finalizers.
            multiprocessing.util.Finalize(None, _leave, exitpriority=-100)


def prepare() -> None:
    """Let vLLM's models load without torchvision in this process, and adapt inputs to oneDNN."""
    if "torchvision" not in sys.modules and importlib.util.find_spec("torchvision") is None:
        _stand_in_for_torchvision()
        _stand_in_for_video_processors()
    _suit_onednn()


def _add_int8_kernels() -> None:
    """Add the kernels for 8-bit layers that are needed without VNNI instructions or in float32."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        from alignatt_agent.engine import int8_kernels

        int8_kernels.register()


def _suit_onednn() -> None:
    """Pass contiguous inputs to vLLM's oneDNN operator, with few different numbers of rows.

    Whether the output of a convolution is transposed depends on the machine and the input's length.
    oneDNN compiles a kernel for every layer and number of rows, and vLLM keeps only 32 kernels.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    from vllm import _custom_ops as ops

    plain = ops.onednn_mm
    if hasattr(plain, "suited"):
        return

    def onednn_mm(handler: Any, x: Any, bias: Any) -> Any:
        rows = x.reshape(-1, x.shape[-1])
        count = len(rows)
        added = padding(count)
        if added:
            rows = pad(rows, (0, 0, 0, added))
        out = plain(handler, rows.contiguous(), bias)
        return out[:count].view(*x.shape[:-1], -1)

    onednn_mm.suited = True  # type: ignore[attr-defined]
    ops.onednn_mm = onednn_mm


def padding(rows: int) -> int:
    """Return the number of rows to add; 31 kernels then suffice for up to 256 rows."""
    if rows <= 16:
        return 0
    if rows <= 256:
        return -rows % 16
    return -rows % 64


@cache
def watch(owner: int) -> None:
    """Start a thread that stops this process after ``owner`` exits; a second call has no effect."""
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()


def _end_with(owner: int) -> None:
    """Stop this process within seconds after ``owner`` or the fork server exits.

    ``prctl(PR_SET_PDEATHSIG)`` is not suitable. It reacts to the exit of the starting thread, which
    belongs to a pool, and to the exit of the fork server instead of the owner.
    """
    parent = multiprocessing.parent_process()
    begun_by = os.getppid()
    if parent is not None and parent.pid == owner:
        # The id is not sufficient: a dead owner keeps its id until its parent waits for it.
        while parent.is_alive() and os.getppid() == begun_by:
            parent.join(1.0)
    elif begun_by == owner:
        while os.getppid() == owner:
            time.sleep(1.0)
    else:
        while psutil.pid_exists(owner):
            time.sleep(1.0)
    os._exit(1)


def _leave() -> None:
    """Exit a finished process without the last garbage collection (5 s on a busy machine)."""
    if sys.exc_info()[0] in (None, SystemExit):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _stand_in_for_torchvision() -> None:
    """Register empty modules under torchvision's names."""
    # Transformers looks for torchvision only once. It must do so before the placeholders exist, or
    # it would offer image processors that cannot work.
    from transformers.utils import is_torchvision_available

    is_torchvision_available()
    for name in _PLACEHOLDERS:
        module = ModuleType(name, "Placeholder: torchvision is not installed.")
        # ``find_spec`` raises ValueError for a loaded module without a spec.
        module.__spec__ = ModuleSpec(name, loader=None, is_package=True)
        module.__path__ = []
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    # Transformers' image processor for Gemma-4 uses this class in an annotation.
    for name in ("torchvision.transforms.functional", "torchvision.transforms.v2.functional"):
        sys.modules[name].InterpolationMode = type("InterpolationMode", (), {})  # type: ignore[attr-defined]


def _stand_in_for_video_processors() -> None:
    """Replace video processors, which need torchvision; Gemma-4 loads one with its audio tower."""
    from transformers.feature_extraction_utils import FeatureExtractionMixin
    from transformers.models.auto.video_processing_auto import AutoVideoProcessor
    from transformers.processing_utils import ProcessorMixin

    class NoVideo(FeatureExtractionMixin):  # type: ignore[misc]  # it must be serializable
        model_input_names: tuple[str, ...] = ()

    check = ProcessorMixin.check_argument_for_proper_class

    def lenient(processor: Any, name: str, argument: Any) -> Any:
        if isinstance(argument, NoVideo):
            return NoVideo
        return check(processor, name, argument)

    AutoVideoProcessor.from_pretrained = lambda *_, **__: NoVideo()
    ProcessorMixin.check_argument_for_proper_class = lenient
