"""Time one linear layer of Qwen2.5 1.5B in vLLM's kernels for a CPU, by the form of its weights.

Example:
  in one thread, on a machine with nothing else to do:
    OMP_NUM_THREADS=1 python -m lab.real_world.kernels --output outputs/kernels.json

Layers are cycled, so that weights come from memory as in a model. A product with one token is bound
by memory, one with 64 (a prompt that changed) by arithmetic. Forms: bfloat16; int4: 4-bit weights
in groups of 32; int8: 8-bit weights and activations.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from statistics import median

from alignatt_agent.cli import report_errors
from lab import commands

INNER, OUTER, COPIES, ROUNDS, TOKENS = 1536, 8960, 12, 60, (1, 16, 64)


def forms() -> Iterator[tuple[str, int, list[Callable[..., object]]]]:
    """Yield the name of each form, the bytes of a layer, and products with copies of it."""
    import torch
    from vllm import _custom_ops as ops

    def int8(handle: object) -> Callable[..., object]:
        def product(x: torch.Tensor) -> torch.Tensor:
            rounded, scale, zero = ops.onednn_scaled_int8_quant(x, None, None, True)
            out = torch.empty(len(x), OUTER, dtype=x.dtype)
            ops.onednn_scaled_mm(handle, rounded, out, scale, zero, None, None)
            return out

        return product

    def int4(packed: torch.Tensor, scales: torch.Tensor) -> Callable[..., object]:
        return lambda x: ops.cpu_gemm_wna16(
            input=x,
            q_weight=packed,
            scales=scales,
            zeros=None,
            bias=None,
            pack_factor=8,
            isa_hint="vec",
        )

    size = INNER * OUTER
    plain = [torch.randn(OUTER, INNER).bfloat16() for _ in range(COPIES)]
    handles = [ops.create_onednn_mm(weight.t(), 32) for weight in plain]
    yield "bfloat16", 2 * size, [lambda x, h=h: ops.onednn_mm(h, x, None) for h in handles]
    scales = torch.rand(INNER // 32, OUTER).bfloat16()
    packed = [torch.randint(0, 2**31, (OUTER // 16, 2 * INNER), dtype=torch.int32) for _ in plain]
    yield "int4", size // 2 + size // 16, [int4(weight, scales) for weight in packed]
    eights = [torch.randint(-127, 127, (OUTER, INNER), dtype=torch.int8).t() for _ in plain]
    scale = torch.rand(OUTER)
    made = [ops.create_onednn_scaled_mm(w, scale, torch.bfloat16, True, False, 32) for w in eights]
    yield "int8", size, [int8(handle) for handle in made]


def measured() -> Iterator[dict[str, object]]:
    """Yield the median milliseconds of every form and number of tokens."""
    import torch
    import vllm.platforms

    vllm.platforms.current_platform.import_kernels()
    with torch.inference_mode():
        for name, size, products in forms():
            row: dict[str, object] = {
                "form": name,
                "threads": torch.get_num_threads(),
                "bytes": size,
            }
            for tokens in TOKENS:
                x, times, layers = torch.randn(tokens, INNER).bfloat16(), [], cycle(products)
                for _ in range(ROUNDS):
                    begin = time.perf_counter()
                    next(layers)(x)
                    times.append(1000 * (time.perf_counter() - begin))
                row[f"ms_{tokens}"] = median(times[COPIES:])
            yield row


def build_parser() -> argparse.ArgumentParser:
    """Build the command line."""
    parser = commands.parser("lab.real_world.kernels", __doc__)
    parser.add_argument("--output", type=Path, required=True, help="JSON file")
    return parser


def main() -> int:
    """Run the command line; returns the exit status."""
    arguments = build_parser().parse_args()
    rows = list(measured())
    commands.write_json(arguments.output, {"rows": rows})
    print(commands.table([[*row.values()] for row in rows], tuple(rows[0])))
    return 0


if __name__ == "__main__":
    sys.exit(report_errors("python -m lab.real_world.kernels", main))
