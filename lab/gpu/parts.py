"""The measurements, in the order of their value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from context import Context, Result


@dataclass(frozen=True)
class Part:
    """One measurement."""

    name: str
    what: str
    module: str
    options: Mapping[str, Any]
    seconds: int
    environment: Mapping[str, str]
    tested: bool = True

    def run(self, context: Context) -> Result:
        """Measure, in this process."""
        module, _, function = self.module.partition(":")
        found: Result = getattr(__import__(module), function)(context, **self.options)
        return found


def _parity(mode: str, runner: int, tested: bool = False, **options: Any) -> Part:
    name = "-".join(["parity", *options.pop("title", ()), mode, f"v{runner}"])
    what = f"rows against Transformers: {mode}, model runner V{runner}"
    environment = {"VLLM_USE_V2_MODEL_RUNNER": str(runner - 1)}
    options = {"mode": mode, **options}
    return Part(name, what, "exactness:parity", options, 100, environment, tested)


_FLASH = {"title": ("flash",), "subject": "qwen3", "backend": "FLASH_ATTN"}
_BF16 = {"title": ("bf16",), "subject": "gemma4", "dtypes": ("bfloat16",)}
PARTS = (
    Part("versions", "machine, versions, imports", "exactness:describe", {}, 30, {}),
    _parity("eager", 2),
    _parity("eager", 1, tested=True),
    _parity("piecewise", 2),
    _parity("full", 2),
    Part(
        "bench-graphs", "ms a token with graphs: plain, rows, early stop, Transformers",
        "speed:race_all", {"engines": (0, 1, 4), "seams": ("eager", "sdpa")}, 400, {},
    ),
    Part("cascade", "the cascade on real dimensions: RTF, stages", "cascade:chunks", {}, 400, {}),
    Part("synchronisations", "host synchronisations a step, with rows and gate",
         "speed:synchronisations", {}, 120, {}),
    _parity("full", 2, **_BF16),
    Part("kill-owner", "engine and memory once their owner is killed", "teardown:kill", {}, 90, {}),
    Part("streams", "concurrent streams and their lag", "cascade:streams", {}, 450, {}, False),
    _parity("preempted", 2, tested=True),
    _parity("piecewise", 1),
    _parity("full", 1),
    _parity("eager", 2, **_FLASH),
    _parity("full", 2, **_FLASH),
    Part("memory", "GPU memory of each engine against its share", "cascade:memory", {}, 200, {}),
    Part("bench-eager", "ms a token without graphs",
         "speed:race_all", {"engines": (2, 3), "seams": ()}, 200, {}, False),
    _parity("eager", 2, **_BF16),
)  # fmt: skip
"""In the order of their value."""
