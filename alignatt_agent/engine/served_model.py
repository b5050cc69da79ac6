"""Run one vLLM engine on a separate event loop, with synchronous calls from any thread."""

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from alignatt_agent.engine import fork_server
from alignatt_agent.engine.crash_report import CrashReport, describe, describe_exit
from alignatt_agent.engine.environment import on_cpu
from alignatt_agent.engine.row_requests import HeadsToCapture
from alignatt_agent.engine.supported_modes import check_engine
from alignatt_agent.types import EngineError

LOGGER = logging.getLogger(__name__)

T = TypeVar("T")

_STOP_S = 20.0
"""Maximum time to wait until an engine's processes have exited, in seconds."""

_GRACE_S = 5.0
"""Seconds in which an engine's processes can exit before they are killed."""

_REAP_S = 1.0
"""Maximum time to wait for a dead process's exit code, in seconds; its pipes close earlier."""

_REAPED_S = 0.01
"""Pause, in seconds, in which another thread can store the exit code of the same process."""

_importing = threading.Lock()
"""Engines may start in parallel, but vLLM's plug-ins and setuptools' patch of distutils, which
torch imports, fail if two threads import them concurrently."""


class ServedModel:
    """A running vLLM engine; calls raise ``EngineError`` if the engine died or rejected a request.

    ``arguments`` are those of vLLM's ``AsyncEngineArgs``.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self._numbers = itertools.count()
        self._closed = False
        self._engine: Any = None
        self._resources: Any = None
        self._processes: list[Any] = []
        self._report: CrashReport | None = None
        self._loop = asyncio.new_event_loop()
        self._death: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"engine of {name}", daemon=True
        )
        self._thread.start()
        try:
            self._call(self._start(dict(arguments)))
        except BaseException:
            self.shutdown()
            raise

    @property
    def config(self) -> Any:
        """Return the engine's vLLM ``ModelConfig``."""
        return self._engine.model_config

    @property
    def cache_tokens(self) -> int:
        """Return the capacity of the paged cache in tokens, as computed by vLLM at startup."""
        return int(self._engine.vllm_config.cache_config.kv_cache_size_tokens or 0)

    @property
    def alive(self) -> bool:
        """Whether the engine can serve requests."""
        return (
            not self._closed
            and not self._death.done()
            and self._engine is not None
            and not self._engine.errored
        )

    @property
    def pids(self) -> list[int]:
        """Return the ids of the engine's processes on this machine."""
        return [process.pid for process in self._processes]

    def tokenizer(self) -> Any:
        """Return the fast tokenizer of the engine."""
        return self._engine.renderer.get_tokenizer()

    def processor(self) -> Any:
        """Return the Transformers processor of an engine with audio input."""
        return self._engine.renderer.get_mm_processor().info.get_hf_processor()

    def take_decoder_prompts_whole(self) -> None:
        """Make an encoder-decoder model continue exactly the ids of a request.

        vLLM would insert a start token before Whisper's context, unlike in Whisper's training.
        """
        self._engine.renderer.get_mm_processor().skip_decoder_start_token = True

    def generate(self, prompt: Mapping[str, Any], sampling: Any) -> Any:
        """Run one generation request, and return its final ``RequestOutput``.

        An exception in the calling thread, e.g. ``KeyboardInterrupt``, cancels the request.
        """
        return self._last("generate", prompt, sampling)

    def encode(self, prompt: Mapping[str, Any], pooling: Any) -> Any:
        """Run one pooling request and return its ``PoolingRequestOutput``."""
        return self._last("encode", prompt, pooling)

    def ask_workers(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on every worker and return their answers."""

        async def ask() -> list[Any]:
            answers: list[Any] = await self._engine.collective_rpc(method, args=arguments)
            return answers

        return self._call(ask())

    def stop(self) -> None:
        """Start shutting down the engine's processes without waiting; later requests fail."""
        if not self._closed:
            self._closed = True
            self._ending = asyncio.run_coroutine_threadsafe(self._stop(), self._loop)

    def shutdown(self) -> None:
        """Shut down the engine's processes; a second call has no effect."""
        self.stop()
        if self._loop.is_closed():
            return
        try:
            self._ending.result(_STOP_S)
        except Exception as error:
            LOGGER.warning("%s: the engine is killed: %s", self.name, describe(error))
            for process in self._processes:
                process.kill()
                process.join(_GRACE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            return
        # The loop no longer uses the sockets, whether `_stop` came to its end or not.
        self._close_sockets()
        self._loop.close()

    # ------------------------------------------------------------------ calls
    def _last(self, method: str, prompt: Mapping[str, Any], parameters: Any) -> Any:
        """Run one request and return its last output."""

        async def run() -> Any:
            request_id = str(next(self._numbers))
            outputs = getattr(self._engine, method)(dict(prompt), parameters, request_id)
            last = None
            async for output in outputs:
                last = output
            return last

        return self._call(run())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's loop, and wait for the result."""
        if self._closed or not self._thread.is_alive():
            coroutine.close()
            raise EngineError(f"{self.name}: the engine was shut down")
        task = asyncio.run_coroutine_threadsafe(self._while_alive(coroutine), self._loop)
        try:
            return task.result()
        except CancelledError as error:
            raise EngineError(f"{self.name}: the engine was shut down during a call") from error
        except Exception as error:
            raise EngineError(f"{self.name}: {self._explain(error)}") from error
        except BaseException:  # e.g. KeyboardInterrupt in the calling thread
            task.cancel()
            raise

    async def _while_alive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await ``coroutine``, but fail if the engine dies; vLLM would wait forever."""
        task = asyncio.ensure_future(coroutine)
        either: set[asyncio.Future[Any]] = {task, self._death}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise RuntimeError("the engine exited before it returned a result")
            return task.result()
        finally:
            task.cancel()

    def _explain(self, error: Exception) -> str:
        """Describe the cause of a failed call."""
        logged = None
        if self._report is not None:
            logged = self._report.first()
        if self.alive:  # the engine survived, so this error is the cause
            if self._report is not None and logged:
                self._report.clear()
            return describe(error)
        cause = logged or self._first_exit() or describe(error)
        if self._engine is None:  # it did not start
            return cause
        return f"the engine died: {cause}"

    def _first_exit(self) -> str | None:
        """Describe the exit of the engine's first dead process, or return ``None``."""
        for process in self._processes:
            code = _exit_code(process)
            if code is not None:
                return describe_exit(code)
        return None

    # ------------------------------------------------------------------ life
    async def _start(self, arguments: dict[str, Any]) -> None:
        with _importing:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            from alignatt_agent.engine.early_stop import processor_name

            engine_args = AsyncEngineArgs(**arguments)
            config = engine_args.create_engine_config()
        if isinstance(config.additional_config, HeadsToCapture):
            check_engine(config, rows=bool(config.additional_config.heads))
            config.model_config.logits_processors = [processor_name(config.use_v2_model_runner)]
        if on_cpu():
            fork_server.use()
        self._report = CrashReport(config.instance_id)
        self._engine = AsyncLLM.from_vllm_config(
            config, disable_log_stats=engine_args.disable_log_stats
        )
        # A manager of Ray actors has no processes.
        self._resources = self._engine.engine_core.resources
        self._processes = list(getattr(self._resources.engine_manager, "processes", ()))
        for process in self._processes:
            self._loop.add_reader(process.sentinel, self._died, process.sentinel)

    def _died(self, sentinel: int) -> None:
        self._loop.remove_reader(sentinel)
        if not self._death.done():
            self._death.set_result(None)

    async def _stop(self) -> None:
        for process in self._processes:
            self._loop.remove_reader(process.sentinel)
        # First cancel the requests and vLLM's reader, which would report the shutdown as an error.
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._engine is not None:
            self._engine.shutdown(timeout=_GRACE_S)
            self._close_sockets()
            for process in self._processes:
                process.join(_GRACE_S)
            self._engine = None  # its ``__del__`` fails at interpreter exit
        if self._report is not None:
            self._report.clear()

    def _close_sockets(self) -> None:
        """Close the sockets of vLLM's client; a second call has no effect.

        vLLM would close them on the loop, but the loop stops. With open sockets, Python's garbage
        collector waits forever in the destructor of their ZeroMQ context, in any later code.
        """
        if self._resources is None:
            return
        from vllm.utils.network_utils import close_sockets

        close_sockets((self._resources.input_socket, self._resources.output_socket))


def _exit_code(process: Any) -> int | None:
    """Return the exit code of a process, or ``None`` if it still runs after ``_REAP_S`` seconds.

    vLLM's monitor and all waiting callers watch the same process. ``join`` finds no exit code if
    another thread called ``waitpid`` first.
    """
    deadline = time.monotonic() + _REAP_S
    left = _REAP_S
    while process.exitcode is None and left > 0:
        process.join(left)
        time.sleep(_REAPED_S)
        left = deadline - time.monotonic()
    code: int | None = process.exitcode
    return code
