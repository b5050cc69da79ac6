"""Convert checkpoints to 8-bit weights and activations, for vLLM's kernels on a CPU.

Weights are rounded to nearest, with one scale per output of a linear layer. Activations are scaled
per token at run time, so answers do not depend on the rest of a batch (``int8_kernels``). On a
CPU with VNNI instructions, decoding a token takes half to two thirds of the time that 4-bit
weights need, and processing a prompt takes a quarter. 4-bit weights are slower because they are
unpacked to 16 bits for each product (docs/results/real.md).
"""

import json
import tempfile
from pathlib import Path
from typing import Any

_EIGHT_BITS: dict[str, Any] = {"num_bits": 8, "type": "int", "symmetric": True}

ACTIVATIONS: dict[str, Any] = {**_EIGHT_BITS, "strategy": "token", "dynamic": True}

QUANTIZATION: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": [],
    "config_groups": {
        "group_0": {
            "targets": ["Linear", "re:.*lm_head"],
            "weights": {**_EIGHT_BITS, "strategy": "channel", "dynamic": False},
            "input_activations": ACTIVATIONS,
        }
    },
}
"""``quantization_config`` of a converted checkpoint, in the format of compressed-tensors."""


def quantize(original: Path, folder: Path, gguf: str | None = None) -> None:
    """Convert the checkpoint of a causal language model to 8 bits, and write it to ``folder``.

    ``gguf`` is the name of a GGUF file in the folder ``original``; it is dequantized first. With
    ``None``, safetensors files are read. An interrupted call writes nothing to ``folder``.
    """
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"gguf_file": gguf} if gguf else {}
    model = AutoModelForCausalLM.from_pretrained(original, dtype=torch.bfloat16, **source)
    tokenizer = AutoTokenizer.from_pretrained(original, **source)
    tensors: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        parameters = dict(module.named_parameters(name, recurse=False))
        if isinstance(module, torch.nn.Linear):
            weight = parameters.pop(f"{name}.weight").float()
            scale = weight.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
            parameters[f"{name}.weight"] = (weight / scale).round().to(torch.int8)
            # A scale in bfloat16 would change an output by up to 0.2 %.
            parameters[f"{name}.weight_scale"] = scale
        for key, value in parameters.items():
            tensors[key] = value.detach().contiguous()
    config = model.config.to_dict() | {
        "architectures": [type(model).__name__],  # a GGUF file has no such field
        "tie_word_embeddings": False,
        "quantization_config": QUANTIZATION,
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Each call has its own unfinished folder, so two conversions at a time do not disturb another.
    with tempfile.TemporaryDirectory(dir=folder.parent, suffix=".incomplete") as unfinished:
        part = Path(unfinished, folder.name)
        part.mkdir()
        tokenizer.save_pretrained(part)
        model.generation_config.save_pretrained(part)
        save_file(tensors, part / "model.safetensors", metadata={"format": "pt"})
        (part / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
        try:
            part.rename(folder)
        except OSError:
            if not folder.exists():  # or else another call has finished the same conversion
                raise
