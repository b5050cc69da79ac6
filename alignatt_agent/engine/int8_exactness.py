"""Choose how the linear layers of 8-bit models are computed on this processor.

vLLM's kernel multiplies with oneDNN. On x86 processors without VNNI instructions, oneDNN adds two
products of 8-bit numbers in 16 bits, and large sums saturate: 4 % of the outputs were wrong on
Gaussian inputs, with an error of 1.2 % in total. The same product took ten times as long as that
of FBGEMM, which torch contains. FBGEMM also adds two products in 16 bits, but its sums are exact if
the activations are rounded to 63 instead of 127 levels per sign: 2 * 127 * 127 < 2 ** 15.
"""

from functools import cache

import torch

VLLM_LEVELS, FBGEMM_LEVELS = 127, 63
"""Largest activation after rounding, by kernel."""


@cache
def levels() -> int:
    """Return the largest activation after rounding; it identifies the kernel of this processor."""
    return VLLM_LEVELS if vllm_is_exact() else FBGEMM_LEVELS


def description() -> str:
    """Return the name of the kernel, for logs and signatures."""
    if levels() == VLLM_LEVELS:
        return "int8 by vLLM"
    return f"int8 by FBGEMM, activations of {FBGEMM_LEVELS} levels"


@cache
def vllm_is_exact() -> bool:
    """Return whether vLLM's kernel adds products of the largest values without saturation.

    The processor is tested instead of looked up by its name, so a new one needs no entry.
    """
    from vllm import _custom_ops as ops

    if "fbgemm" not in torch.backends.quantized.supported_engines:
        return True  # not x86: there is no other kernel, and Arm adds products in 32 bits
    outputs, inputs = 64, 64
    # Types are explicit, because vLLM calls this function while another type is torch's default.
    # oneDNN keeps only the addresses of the scales.
    weight_scale = torch.ones(outputs, dtype=torch.float32)
    weight = torch.full((outputs, inputs), VLLM_LEVELS, dtype=torch.int8)
    product = ops.create_onednn_scaled_mm(weight.t(), weight_scale, torch.float32, True, False, 32)
    for tokens in (1, 2, 16):  # oneDNN has separate code for few tokens
        codes = torch.full((tokens, inputs), VLLM_LEVELS, dtype=torch.int8)
        scale = torch.ones(tokens, 1, dtype=torch.float32)
        output = torch.empty(tokens, outputs, dtype=torch.float32)
        ops.onednn_scaled_mm(product, codes, output, scale, None, None, None)
        if not bool((output == inputs * VLLM_LEVELS**2).all()):
            return False
    return True


def rounded(inputs: torch.Tensor, largest: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Round ``[..., features]`` to integers from ``-largest`` to ``largest``, per token.

    Returns:
        The integers in float32, ``[..., features]``, and the scale of each token, ``[..., 1]``.
    """
    exact = inputs.float()
    scale = exact.abs().amax(-1, keepdim=True).clamp(min=1e-8) / largest
    # Like vLLM's kernel, multiply by the reciprocal; quotients round differently in bfloat16.
    return (exact * (1 / scale)).round(), scale
