"""vLLM kernels for 8-bit linear layers, used where vLLM's own choice is inexact or fails."""

import warnings
from typing import Any

import torch
from vllm.model_executor.kernels.linear import (
    _POSSIBLE_INT8_KERNELS,
    CPUInt8ScaledMMLinearKernel,
)
from vllm.model_executor.kernels.linear.scaled_mm.ScaledMMLinearKernel import (
    Int8ScaledMMLinearKernel,
    Int8ScaledMMLinearLayerConfig,
)
from vllm.platforms.interface import PlatformEnum

from alignatt_agent.engine.int8_exactness import FBGEMM_LEVELS, rounded, vllm_is_exact


class FbgemmInt8LinearKernel(Int8ScaledMMLinearKernel):  # type: ignore[misc]  # untyped
    """Multiplies 8-bit weights with activations that are rounded per token.

    Each token has its own scale, so its output does not depend on the rest of the batch.
    """

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        """Return whether vLLM's own kernel is inexact on this processor."""
        return not vllm_is_exact(), "vLLM's kernel is exact and faster on this processor"

    @classmethod
    def can_implement(cls, c: Int8ScaledMMLinearLayerConfig) -> tuple[bool, str | None]:
        """Return whether the layer has a scale per output and rounds its inputs at run time."""
        dynamic = c.is_channelwise and c.input_symmetric and not c.is_static_input_scheme
        return dynamic, "expects weight scales per channel and dynamic symmetric activations"

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Pack the weights, ``[outputs, inputs]``, and release the original tensor."""
        name, scale_name, *_ = self.layer_param_names
        self._product = FbgemmProduct(getattr(layer, name), getattr(layer, scale_name))
        setattr(layer, name, None)

    def apply_weights(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the layer's output for ``x``, ``[..., inputs]``, in the type of ``x``."""
        output = self._product(x.reshape(-1, x.shape[-1]))
        if bias is not None:
            output += bias
        return output.to(x.dtype).view(*x.shape[:-1], -1)


class FbgemmProduct:
    """The exact product of integer activations and weights by FBGEMM, scaled per token and output.

    ``weight`` is ``[outputs, inputs]`` in int8, and ``scale`` has one value per output.
    """

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        outputs = weight.shape[0]
        with warnings.catch_warnings():
            # FBGEMM accepts only quantized tensors, which a later torch will not create (PyTorch
            # issue 184982). `torch.ops.onednn.qlinear_pointwise` takes plain tensors and is exact
            # with the same activations, but needs more than twice the time for one token.
            warnings.filterwarnings("ignore", ".*quantized tensor creation.*", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(
                weight.detach().contiguous(),
                scale.detach().double().flatten(),
                torch.zeros(outputs, dtype=torch.long),
                axis=0,
            )
        engine = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        self._weight = torch.ops.quantized.linear_prepack(quantized, None)
        torch.backends.quantized.engine = engine

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the product with ``inputs``, ``[tokens, inputs]``, in float32."""
        codes, scale = rounded(inputs, FBGEMM_LEVELS)
        # The codes are integers already: a scale of 1 only shifts them to unsigned numbers.
        product = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        output: torch.Tensor = product(codes, 1.0, FBGEMM_LEVELS + 1, self._weight)
        return output.mul_(scale)


class Float32Int8LinearKernel(CPUInt8ScaledMMLinearKernel):  # type: ignore[misc]  # untyped
    """vLLM's kernel by oneDNN for models in float32.

    On processors with AMX, vLLM 0.32 replaces it with a kernel that accepts only 16-bit inputs
    (`int8_scaled_mm_with_quant: expect A to be bfloat16 or half`), so models in float32 fail.
    """

    @classmethod
    def is_supported(cls, compute_capability: int | None = None) -> tuple[bool, str | None]:
        """Return whether the model is built in float32."""
        return torch.get_default_dtype() == torch.float32, "expects a model in float32"

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Pack the weights for oneDNN."""
        self.linear_method = self._apply_weights_onednn
        self.process_weights_for_onednn(layer)


def register() -> None:
    """Let vLLM prefer these kernels where they are supported; a second call has no effect."""
    kernels: list[Any] = _POSSIBLE_INT8_KERNELS[PlatformEnum.CPU]
    if FbgemmInt8LinearKernel not in kernels:
        # vLLM's own registration appends, and its own kernel, which supports any CPU, is first.
        kernels[:0] = [FbgemmInt8LinearKernel, Float32Int8LinearKernel]
