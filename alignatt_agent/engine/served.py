"""One vLLM engine on an event loop of its own, called synchronously from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from alignatt_agent.engine.requests import HeadsToCapture
from alignatt_agent.engine.support import check_engine
from alignatt_agent.nouns import EngineError

T = TypeVar("T")

_STOP_S = 20.0
"""Longest wait for an engine's processes to end, in seconds."""

_GRACE_S = 5.0
"""Time for an engine's processes to end by themselves before they are killed, in seconds."""

_importing = threading.Lock()
"""Engines start side by side, but vLLM's plug-ins and setuptools' patch of distutils, which torch
imports, fail when two threads import them at once."""


class ServedModel:
    """A running vLLM engine.

    Args:
        name: what error messages call it, e.g. ``"translation model google/gemma-4-E4B-it"``.
        arguments: vLLM's ``AsyncEngineArgs`` by name.

    Raises:
        EngineError: the engine did not start.
    """

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self._numbers = itertools.count()
        self._closed = False
        self._engine: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"engine of {name}", daemon=True
        )
        self._thread.start()
        try:
            self._engine = self._call(_start(dict(arguments)))
        except EngineError:
            self.shutdown()
            raise

    @property
    def config(self) -> Any:
        """The engine's vLLM ``ModelConfig``."""
        return self._engine.model_config

    @property
    def alive(self) -> bool:
        """Whether the engine can serve requests."""
        return not self._closed and self._engine is not None and not self._engine.errored

    def tokenizer(self) -> Any:
        """The fast tokenizer that the engine uses."""
        return self._engine.renderer.get_tokenizer()

    def generate(self, prompt: Mapping[str, Any], sampling: Any) -> Any:
        """Run one generation request and return its final ``RequestOutput``.

        Raises:
            EngineError: the engine refused the request or died.
        """
        return self._last(lambda key: self._engine.generate(dict(prompt), sampling, key))

    def encode(self, prompt: Mapping[str, Any], pooling: Any) -> Any:
        """Run one pooling request and return its ``PoolingRequestOutput``.

        Raises:
            EngineError: the engine refused the request or died.
        """
        return self._last(lambda key: self._engine.encode(dict(prompt), pooling, key))

    def ask_workers(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on every worker and return their answers.

        Raises:
            EngineError: a worker raised or died.
        """
        return self._call(self._engine.collective_rpc(method, args=arguments))

    def stop(self) -> None:
        """Begin to end the engine's processes, without waiting; requests fail from now on."""
        if not self._closed:
            self._closed = True
            self._ending = asyncio.run_coroutine_threadsafe(_stop(self._engine), self._loop)

    def shutdown(self) -> None:
        """End the engine's processes; harmless when called again."""
        self.stop()
        if self._loop.is_closed():
            return
        with contextlib.suppress(Exception):  # the processes are daemons and end with this one
            self._ending.result(_STOP_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _last(self, request: Callable[[str], Any]) -> Any:
        async def run() -> Any:
            last = None
            async for output in request(str(next(self._numbers))):
                last = output
            return last

        return self._call(run())

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's loop and wait for it here."""
        if self._closed or not self._thread.is_alive():
            coroutine.close()
            raise EngineError(f"{self.name}: the engine was shut down")
        task = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return task.result()
        except CancelledError as error:
            raise EngineError(f"{self.name}: the engine was shut down in mid-request") from error
        except Exception as error:
            raise EngineError(f"{self.name}: {_cause(error)}") from error
        except BaseException:  # e.g. KeyboardInterrupt in the calling thread
            task.cancel()
            raise


async def _start(arguments: dict[str, Any]) -> Any:
    with _importing:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        engine_args = AsyncEngineArgs(**arguments)
        config = engine_args.create_engine_config()
    if isinstance(config.additional_config, HeadsToCapture):
        check_engine(config)  # here, because an error inside the engine loses its message
    return AsyncLLM.from_vllm_config(config, disable_log_stats=engine_args.disable_log_stats)


async def _stop(engine: Any) -> None:
    # Requests end first. So does vLLM's reader, which would report the end as an accident.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if engine is not None:
        processes = engine.engine_core.resources.engine_manager.processes
        engine.shutdown(timeout=_GRACE_S)
        for process in processes:
            process.join(_GRACE_S)


def _cause(error: BaseException) -> str:
    """Describe an error by the first thing that went wrong."""
    seen = error
    while seen.__cause__ is not None:
        seen = seen.__cause__
    return f"{type(seen).__name__}: {seen}" if str(seen) else type(seen).__name__
