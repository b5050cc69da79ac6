"""Start one vLLM engine, or the engines of a cascade."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from alignatt_agent.config.agent_config import ModelConfig, ModelsConfig
from alignatt_agent.engine import fork_server, process_files
from alignatt_agent.engine.arguments import engine_arguments
from alignatt_agent.engine.environment import engine_environment, on_cpu
from alignatt_agent.engine.plugin import register
from alignatt_agent.engine.served_model import ServedModel
from alignatt_agent.engine.supported_modes import check_vllm
from alignatt_agent.machine.environment import environment
from alignatt_agent.types import EngineError


class _Spec(NamedTuple):
    """The model and arguments of an engine; see ``options.engine_arguments``."""

    role: str
    model: ModelConfig
    heads: tuple[tuple[int, int], ...]
    transcribes: bool

    @property
    def title(self) -> str:
        return f"{self.role} model {self.model.path}"

    def arguments(self) -> dict[str, Any]:
        try:
            return engine_arguments(self.role, self.model, self.heads, self.transcribes)
        except (OSError, ValueError) as error:
            raise EngineError(f"{self.title}: {error}") from error


def start_model(
    role: str,
    model: ModelConfig,
    heads: Sequence[tuple[int, int]] = (),
    transcribes: bool = False,
    **overrides: Any,
) -> ServedModel:
    """Start an engine, which the caller must shut down; ``overrides`` are vLLM's arguments."""
    spec = _Spec(role, model, tuple(heads), transcribes)
    with _environment([model]):
        return ServedModel(spec.title, {**spec.arguments(), **overrides})


class ServedModels:
    """Engines by role, which start together; the next ``start`` replaces engines that died."""

    def __init__(self) -> None:
        self._served: dict[str, tuple[_Spec, ServedModel]] = {}

    def __getitem__(self, role: str) -> ServedModel:
        return self._served[role][1]

    def start(
        self, models: ModelsConfig, heads: Sequence[tuple[int, int]]
    ) -> dict[str, ServedModel]:
        """Start the missing engines and return all engines by role.

        An engine that died or whose arguments changed is restarted; other engines keep running.
        """
        specs = {}
        for role in models.engine_roles:
            captured: tuple[tuple[int, int], ...] = ()
            transcribes = False
            if role == "translation":
                captured = tuple(heads)
                transcribes = models.asr_is_translation
            specs[role] = _Spec(role, getattr(models, role), captured, transcribes)
        for role, (spec, served) in list(self._served.items()):
            if spec != specs.get(role) or not served.alive:
                del self._served[role]
                served.shutdown()

        def serve(spec: _Spec, arguments: dict[str, Any]) -> None:
            # Store the engine here, so that interrupting the waiting thread does not lose it.
            self._served[spec.role] = (spec, ServedModel(spec.title, arguments))

        with _environment([spec.model for spec in specs.values()]):
            # Check the arguments of all engines before the first one starts.
            missing: list[tuple[_Spec, dict[str, Any]]] = []
            for role, spec in specs.items():
                if role not in self._served:
                    missing.append((spec, spec.arguments()))
            # On a GPU, engines start one by one, because each of them measures the free memory.
            at_once = len(specs) if on_cpu() else 1
            with ThreadPoolExecutor(at_once, "engine start") as threads:
                starts = [threads.submit(serve, spec, arguments) for spec, arguments in missing]
        for start in starts:
            start.result()
        served_by_role = {role: self[role] for role in specs}
        # Without a recognizer of its own, the translation model transcribes.
        return {"asr": served_by_role["translation"], **served_by_role}

    def alive(self) -> bool:
        """Return whether engines are running and all of them can serve requests."""
        return bool(self._served) and all(model.alive for _, model in self._served.values())

    def end(self) -> None:
        """Shut down all engines."""
        models = [model for _, model in self._served.values()]
        self._served.clear()
        for model in models:  # do not wait: each engine takes seconds to stop
            model.stop()
        for model in models:
            model.shutdown()


@contextmanager
def _environment(models: Sequence[ModelConfig]) -> Iterator[None]:
    """Prepare this process and its environment for starting engines."""
    check_vllm()
    process_files.check_shared_memory()
    caches = environment(process_files.cache_environment(), override=True)
    with caches, engine_environment(models):
        if on_cpu():
            fork_server.begin()
        register()  # vLLM calls this only once, possibly before our first engine
        yield
