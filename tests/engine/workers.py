"""Workers for tests: they record the scheduler's actions, or simulate unavailable backends."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from alignatt_agent.config.agent_config import ModelsConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.row_requests import EXTRA
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.start import start_model
from alignatt_agent.engine.worker import CaptureWorker
from tests.fixtures.engines import HEADS


@contextlib.contextmanager
def serving(
    models: ModelsConfig, worker: str, **engine: object
) -> Iterator[tuple[ServedModel, DraftEngine]]:
    """Serve the translation model with a worker of this file and other engine arguments."""
    arguments = {"worker_cls": f"{__name__}.{worker}", **engine}
    served = start_model("translation", models.translation, HEADS, **arguments)
    try:
        yield served, DraftEngine(served, HEADS)
    finally:
        served.shutdown()


class Witness(CaptureWorker):
    """Counts how vLLM's scheduler treated the requests that need rows."""

    def load_model(self, **options: Any) -> None:
        self.seen = {"resumed": 0, "chunks": 0, "cached": 0, "batch": 0}
        self.fed: dict[str, int] = {}
        self.names: dict[str, tuple[str, int]] = {}
        super().load_model(**options)

    def execute_model(self, scheduler_output: Any) -> Any:
        seen, counts = self.seen, scheduler_output.num_scheduled_tokens
        seen["batch"] = max(seen["batch"], len(counts))
        computed = {}
        for new in scheduler_output.scheduled_new_reqs:
            extra = (new.sampling_params and new.sampling_params.extra_args) or {}
            if EXTRA in extra:
                if new.req_id in self.names:  # model runner V2 gets a resumed request as a new one
                    seen["resumed"] += 1
                self.names[new.req_id] = extra[EXTRA]["key"], len(new.prompt_token_ids)
                seen["cached"] += new.num_computed_tokens > 0
            computed[new.req_id] = new.num_computed_tokens
        cached = scheduler_output.scheduled_cached_reqs
        computed.update(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        seen["resumed"] += len(cached.resumed_req_ids & set(self.names))
        for request, begin in computed.items():
            if request in self.names:
                key, prompt = self.names[request]
                self.fed[key] = max(self.fed.get(key, 0), begin + counts[request])
                seen["chunks"] += begin + counts[request] < prompt
        return super().execute_model(scheduler_output)

    def witnessed(self) -> dict[str, Any]:
        """Remote call: counts since the last call, tokens fed by request, scheduling and ranks."""
        parallel = self.vllm_config.parallel_config
        report = {
            **self.seen,
            "fed": self.fed,
            "async": self.model_runner.use_async_scheduling,
            "ranks": parallel.world_size,
        }
        self.seen = dict.fromkeys(self.seen, 0)
        self.fed = {}
        return report


class AsyncWitness(Witness):
    """A worker that replaces the CUDA streams of asynchronous scheduling on a CPU."""

    def init_device(self) -> None:
        class Stand:
            def __init__(self, *_: Any, **__: Any) -> None:
                pass

            def record(self, *_: Any) -> None:
                pass

            wait_stream = synchronize = record

        torch.cuda.Event = torch.cuda.Stream = Stand
        torch.cuda.current_stream = Stand
        torch.cuda.stream = lambda _: contextlib.nullcontext()
        super().init_device()


class Biased(CaptureWorker):
    """A worker whose attention has ALiBi."""

    def load_model(self, **options: Any) -> None:
        from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackendImpl

        original = CPUAttentionBackendImpl.__init__

        def init(impl: Any, *args: Any, **kwargs: Any) -> None:
            original(impl, *args, **kwargs)
            impl.alibi_slopes = torch.ones(impl.num_heads)

        CPUAttentionBackendImpl.__init__ = init
        super().load_model(**options)
