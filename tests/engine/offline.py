"""An engine inside this very process: ``offline.py MODEL_CONFIG.json OUT.pickle``.

vLLM's ``LLM`` without its processes; the test runs it as a script, because an engine leaves its
marks on a process (threads, environment, process groups).
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from pathlib import Path
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"

from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.engine.options import engine_arguments, engine_environment
from alignatt_agent.types import Draft
from tests.engine.batches import Case, cases, crowd, together
from tests.fixtures.engines import HEADS


class Offline:
    """What ``DraftEngine`` needs of a served model; requests of all threads go in one batch."""

    name = "offline"

    def __init__(self, arguments: dict[str, Any]) -> None:
        from vllm import LLM

        self.model = LLM(**arguments)
        self._lock = threading.Lock()
        self._batch: list[tuple[Any, Any, list[Any]]] = []

    def expect(self, count: int) -> None:
        """Run the engine as soon as ``count`` threads have asked."""
        self._all_here = threading.Barrier(count, action=self._run)

    def generate(self, prompt: Any, sampling: Any) -> Any:
        answer: list[Any] = []
        self._batch.append((prompt, sampling, answer))
        self._all_here.wait()
        return answer[0]

    def ask_workers(self, method: str, *arguments: Any) -> list[Any]:
        with self._lock:
            return self.model.collective_rpc(method, args=arguments)

    def _run(self) -> None:
        prompts, samplings, answers = zip(*self._batch, strict=True)
        self._batch = []
        outputs = self.model.generate(list(prompts), list(samplings), use_tqdm=False)
        for answer, output in zip(answers, outputs, strict=True):
            answer.append(output)


def main() -> None:
    settings, out = Path(sys.argv[1]), Path(sys.argv[2])
    config = ModelConfig.model_validate_json(settings.read_text())
    with engine_environment():
        arguments = engine_arguments("translation", config, HEADS)
        from alignatt_agent.engine.early_stop import processor_name

        processors = [processor_name(use_v2_model_runner=False)]
        model = Offline({**arguments, "logits_processors": processors})
    engine = DraftEngine(model, HEADS, frozenset({1, 5}))
    batch: list[Case] = [*cases(12), *crowd()]
    model.expect(len(batch))
    drafts: list[Draft] = together(engine, batch)
    core = model.model.llm_engine.engine_core
    report = {
        "client": type(core).__name__,
        "held": model.ask_workers("alignatt_held"),
        **model.ask_workers("witnessed")[0],
    }
    out.write_bytes(pickle.dumps((drafts, report)))


if __name__ == "__main__":
    main()
