"""Remote calls that look into a capturing worker; vLLM adds them to it on request.

Passed as ``worker_extension_cls``. Until a clock is started they change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

EXTENSION = "alignatt_agent.checks.bench_worker.WorkerProbe"

PHASES = ("begin", "finish", "fetch")
"""Methods of ``Capture``: before the forward pass, after it, and when rows are handed over."""


class WorkerProbe:
    """Mixin for ``engine.worker.CaptureWorker``."""

    _capture: Any
    vllm_config: Any

    def alignatt_start_clock(self) -> None:
        """Count calls and host seconds of the capture from now on.

        On a GPU these are the seconds that the host spends; its kernels run on behind.
        """
        self._alignatt_clock = {phase: [0, 0.0, 0.0] for phase in PHASES}
        for phase in PHASES:
            counted = _counted(getattr(self._capture, phase), self._alignatt_clock[phase])
            setattr(self._capture, phase, counted)

    def alignatt_stop_clock(self) -> dict[str, list[float]]:
        """Stop counting; return ``[calls, seconds, processor seconds]`` of each phase."""
        for phase in PHASES:
            delattr(self._capture, phase)
        return self._alignatt_clock

    def alignatt_describe(self) -> dict[str, Any]:
        """Return threads, device, attention backends and memory of this worker, as builtins."""
        taps = self._capture.taps
        cuda = torch.cuda.is_available()
        return {
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name() if cuda else "cpu",
            "backends": sorted({type(tap.layer.impl).__name__ for tap in taps}),
            "caches": sorted({str(tuple(tap.owner.kv_cache.shape[1:])) for tap in taps}),
            "cache_dtype": str(taps[0].owner.kv_cache.dtype) if taps else "none",
            "capture_bytes": _bytes(self._capture, self._model_memory()),
            "peak_device_bytes": torch.cuda.max_memory_allocated() if cuda else 0,
        }

    def _model_memory(self) -> list[tuple[int, int]]:
        """Address ranges of the caches and weights, which the capture only looks at."""
        ranges = []
        for layer in self.vllm_config.compilation_config.static_forward_context.values():
            tensors = [getattr(layer, "kv_cache", None), *layer.parameters()]
            ranges += [_range(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)]
        return ranges


def _counted(method: Callable[..., Any], count: list[float]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        start, used = time.perf_counter(), time.thread_time()
        try:
            return method(*arguments)
        finally:
            count[0] += 1
            count[1] += time.perf_counter() - start
            count[2] += time.thread_time() - used

    return call


def _bytes(root: Any, foreign: list[tuple[int, int]]) -> int:
    """Bytes of all arrays and tensors that our own objects below ``root`` hold."""
    held: dict[int, int] = {}
    for array in _arrays(root, set()):
        begin, end = _range(array)
        if not any(low <= begin < high for low, high in foreign):
            held[begin] = max(held.get(begin, 0), end - begin)
    return sum(held.values())


def _range(array: torch.Tensor | np.ndarray[Any, Any]) -> tuple[int, int]:
    if isinstance(array, torch.Tensor):
        storage = array.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    return array.ctypes.data, array.ctypes.data + array.nbytes


def _arrays(item: Any, seen: set[int]) -> Iterator[torch.Tensor | np.ndarray[Any, Any]]:
    if id(item) in seen:
        return
    seen.add(id(item))
    if isinstance(item, (torch.Tensor, np.ndarray)):
        yield item
        return
    children: list[Any] = []
    if isinstance(item, dict):
        children = list(item.values())
    elif isinstance(item, (list, tuple)):
        children = list(item)
    elif type(item).__module__.startswith("alignatt_agent."):
        names = [name for cls in type(item).__mro__ for name in getattr(cls, "__slots__", ())]
        children = [getattr(item, name) for name in names if hasattr(item, name)]
        children += list(getattr(item, "__dict__", {}).values())
    for child in children:
        yield from _arrays(child, seen)
