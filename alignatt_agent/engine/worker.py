"""Capture attention rows and verify tokens in vLLM's worker processes."""

from typing import TYPE_CHECKING, Any

from vllm.platforms import current_platform

from alignatt_agent.engine.capture import Capture, Found
from alignatt_agent.engine.row_requests import HeadsToCapture

if TYPE_CHECKING:
    _Worker = Any
elif current_platform.is_cpu():
    from vllm.v1.worker.cpu_worker import CPUWorker as _Worker
else:
    from vllm.v1.worker.gpu_worker import Worker as _Worker


class CaptureWorker(_Worker):  # type: ignore[misc]
    """A worker of the current platform with a ``Capture`` around its forward pass."""

    def load_model(self, **options: Any) -> None:
        """Load the model, and wrap its attention before any graph is recorded."""
        super().load_model(**options)
        to_capture: HeadsToCapture = self.vllm_config.additional_config
        self._capture = Capture(self.vllm_config, to_capture.heads, self.device)

    def initialize_from_config(self, kv_cache_config: Any) -> None:
        """Allocate the paged cache, and read its layout."""
        super().initialize_from_config(kv_cache_config)
        # Only the model runner's copy of the configuration contains layers that share a cache.
        self._capture.bind(self.model_runner.kv_cache_config)

    def execute_model(self, scheduler_output: Any) -> Any:
        """Run one step up to sampling, and compute its attention rows."""
        rows = self._capture.begin(scheduler_output)
        output = super().execute_model(scheduler_output)
        self._capture.verify(self.model_runner, scheduler_output.num_scheduled_tokens)
        if rows:
            self._capture.finish(rows, scheduler_output.total_num_scheduled_tokens)
        return output

    def alignatt_fetch(self, key: str) -> Found | None:
        """Remote call: remove and return the result of a request; see ``Capture.fetch``."""
        return self._capture.fetch(key)

    def alignatt_held(self) -> int:
        """Remote call: return the number of requests that have not been fetched."""
        return len(self._capture.ledger)

    def alignatt_describe(self) -> dict[str, Any]:
        """Remote call: return the captured layers' backends, cache shapes and cache type."""
        taps = self._capture.taps
        backends = set()
        caches = set()
        for tap in taps:
            backends.add(type(tap.layer.impl).__name__)
            # The first dimension is the number of blocks, which depends on the memory.
            caches.add(str(tuple(tap.owner.kv_cache.shape[1:])))
        cache_dtype = "none"
        if taps:
            cache_dtype = str(taps[0].owner.kv_cache.dtype)
        return {
            "backends": sorted(backends),
            "caches": sorted(caches),
            "cache_dtype": cache_dtype,
        }
