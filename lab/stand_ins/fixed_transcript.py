"""Write random recognizers that always transcribe one sentence.

The transcript of a random model cannot be translated. A stand-in therefore has no attention, so its
layers depend on the previous token alone. The last layer is solved to output the next token of one
sentence. The other weights stay random. Such a model shows that a front end is served,
prompted and read correctly, and that the cascade runs with it. Its transcript does not depend on
the audio, so its word times are meaningless. (The tests of the front ends show that the output of
random models depends on the audio, and equals the output of Transformers.)
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoTokenizer,
    Gemma4ForConditionalGeneration,
    WhisperForConditionalGeneration,
)

from alignatt_agent.speech.front_ends import GemmaPrompt, WhisperPrompt

SENTENCE = "We read every word of the talk."
"""No token occurs twice, so the previous token determines the next one."""

_LOUD = 100.0
"""Norm of the last layer's output, which is large compared to the residual stream."""

_SURE = 20.0
"""Logit of the next token."""


def teach_whisper(folder: Path) -> None:
    """Have a Whisper checkpoint transcribe ``SENTENCE``, in place."""
    model: Any = WhisperForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer, decoder = AutoTokenizer.from_pretrained(folder), model.model.decoder
    request = WhisperPrompt(tokenizer, str(folder)).ids("English")
    said = [*tokenizer.encode(" " + SENTENCE, add_special_tokens=False), tokenizer.eos_token_id]
    _silence(decoder.layers, "attn.out_proj")
    heard = torch.zeros(1, 1, model.config.d_model)

    def run(ids: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = decoder(ids, encoder_hidden_states=heard).last_hidden_state
        return states

    _teach(model, run, decoder.layers[-1].fc2, decoder.layer_norm, request, said, folder)


def teach_gemma4(folder: Path) -> None:
    """Have a Gemma-4 checkpoint answer a transcription request with ``SENTENCE``, in place."""
    model: Any = Gemma4ForConditionalGeneration.from_pretrained(folder).eval()
    tokenizer, text = AutoTokenizer.from_pretrained(folder), model.model.language_model
    request = GemmaPrompt(tokenizer, str(folder), 4096).ids("English")
    said = tokenizer.encode(SENTENCE + "<turn|>", add_special_tokens=False)
    last = text.layers[-1]
    loud = last.post_feedforward_layernorm.weight.clone()
    _silence(text.layers, ".post_")
    last.post_feedforward_layernorm.weight.data.copy_(loud)

    def run(ids: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = text(ids).last_hidden_state
        return states

    _teach(model, run, last.mlp.down_proj, text.norm, request, said, folder)


def _silence(layers: Any, part: str) -> None:
    """Set weights to zero if their names contain ``part``."""
    for name, weight in layers.named_parameters():
        if part in name:
            weight.data.zero_()


@torch.no_grad()
def _teach(
    model: Any,
    run: Callable[[torch.Tensor], torch.Tensor],
    last: Any,
    norm: Any,
    request: Sequence[int],
    said: Sequence[int],
    folder: Path,
) -> None:
    """Solve ``last``, the last linear layer, for the embeddings of the next tokens, and save it."""
    captured: list[torch.Tensor] = []
    hook = last.register_forward_pre_hook(lambda _, arguments: captured.append(arguments[0]))
    ids = torch.tensor([[*request, *said[:-1]]])
    run(ids)
    hook.remove()
    embeddings = model.get_output_embeddings().weight[said]
    directions = embeddings / embeddings.norm(dim=-1, keepdim=True)
    inputs = captured[0].reshape(-1, last.in_features)[-len(said) :]
    last.weight.copy_((torch.linalg.pinv(inputs) @ directions * _LOUD).T)

    def logits() -> Any:
        return model.get_output_embeddings()(run(ids))[0, -len(said) :]

    sure = logits()[range(len(said)), said].mean()
    norm.weight.mul_(_SURE / sure)
    answer = logits().argmax(-1).tolist()
    if answer != list(said):
        raise ValueError(f"a stand-in did not learn its transcript: {answer} instead of {said}")
    path = folder / "model.safetensors"
    weights, taught = load_file(path), model.state_dict()
    for name in weights.keys() & taught.keys():
        weights[name] = taught[name].contiguous()
    save_file(weights, path, metadata={"format": "pt"})
