"""Transformers as the reference: greedy drafts with attention rows through two seams.

``eager`` has Transformers materialise every attention matrix. ``sdpa`` keeps its fused attention:
queries and keys of the wanted layers are noted after RoPE, and the wanted rows are recomputed
from them when the draft is complete (*qk-fast*). Nothing here is shared with the capture inside
vLLM, which is judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from alignatt_agent.engine.transformers_rows import QK_FAST, EagerTape, FusedTape, Tape, recording
from alignatt_agent.types import (
    AttentionRows,
    Draft,
    EngineError,
    FloatArray,
    Gate,
    Prompt,
    Readout,
)

Seam = Literal["eager", "sdpa"]


class TransformersEngine:
    """A causal Transformers model as a ``types.TranslationEngine``.

    Args:
        path: directory, or id on the Hugging Face hub.
        dtype: torch's name of the computation type.
        seam: ``"eager"`` or ``"sdpa"``, see above.
        device: torch's name of the device.
        random: draw weights in the configuration's shape instead of loading any.

    Attributes:
        model: the Transformers model.
        tokenizer: its tokenizer; ``None`` when the checkpoint has none.
        stops: ids that end a turn.
    """

    def __init__(
        self,
        path: str,
        *,
        dtype: str = "float32",
        seam: Seam = "eager",
        device: str = "cpu",
        random: bool = False,
    ) -> None:
        self.name = f"translation model {path} (Transformers, {seam}, {dtype})"
        self._seam = seam
        options: dict[str, Any] = {
            "dtype": getattr(torch, dtype),
            "attn_implementation": "eager" if seam == "eager" else QK_FAST,
        }
        if random:
            config = AutoConfig.from_pretrained(path)
            with torch.device(device):
                self.model: Any = AutoModelForCausalLM.from_config(config, **options)
        else:
            self.model = AutoModelForCausalLM.from_pretrained(path, **options)
        self.model.to(device).eval()
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(path)
        except (OSError, ValueError):
            self.tokenizer = None
        self.stops = _stops(self.model, self.tokenizer)
        text = self.model.config.get_text_config(decoder=True)
        self._layers, self._heads = text.num_hidden_layers, text.num_attention_heads
        self._context = text.max_position_embeddings

    @torch.inference_mode()
    def draft(
        self,
        prompt: Prompt,
        max_tokens: int,
        readout: Readout | None = None,
        gate: Gate | None = None,
        resumed: Draft | None = None,
        expected: Sequence[int] = (),
    ) -> Draft:
        """Continue ``prompt`` greedily, see ``types.TranslationEngine``.

        ``gate`` and ``expected`` are ignored.
        """
        if max_tokens < 1:
            self._fail(f"a draft of {max_tokens} tokens was asked for")
        if resumed is not None and (resumed.ended or len(resumed.token_ids) >= max_tokens):
            return resumed
        tape = self._tape(prompt, readout)
        tokens = list(resumed.token_ids) if resumed is not None else []
        known, feed = len(tokens), [*prompt.token_ids, *tokens]
        # The row at the last token exists only once that token was fed, which takes a token more.
        spare = 1 if readout is not None and readout.row == "emitted" else 0
        limit = min(max_tokens + spare, self._context - len(prompt.token_ids))
        if tape is not None:
            tape.wanted = 1 - spare
        cache, ended, steps = None, False, 0
        sure = [*resumed.probabilities] if resumed is not None else []
        while len(tokens) < limit and not ended:
            output = self._forward(feed, tape, use_cache=True, past_key_values=cache)
            cache = output.past_key_values
            steps += 1
            feed = [int(output.logits[0, -1].argmax())]
            ended = feed[0] in self.stops
            if not ended:
                tokens += feed
            if readout is not None and readout.probabilities:
                sure.append(float(output.logits[0, -1].float().softmax(-1)[feed[0]]))
            if tape is not None:
                tape.wanted = 1
        if spare and steps and not ended:
            tokens.pop()
        if not tokens and not ended:
            self._fail(f"no room for a draft after a prompt of {len(prompt.token_ids)} tokens")
        rows = None
        if tape is not None:
            length = len(prompt.token_ids) + len(tokens)
            rows = _cut(tape.rows(length)[: len(tokens) - known], prompt)
            if resumed is not None:
                rows = _joined(resumed.rows, rows) if resumed.rows else self._fail("no rows came")
        before = resumed.steps if resumed is not None else 0
        return Draft(
            tuple(tokens),
            ended,
            rows,
            steps=before + steps,
            probabilities=tuple(sure[: len(tokens)]),
        )

    @torch.inference_mode()
    def rows(self, prompt: Prompt, token_ids: Sequence[int], readout: Readout) -> AttentionRows:
        """Return the rows of ``token_ids`` after ``prompt``, in one teacher-forced pass.

        Raises:
            EngineError: a head or the source span does not exist, or the context is too short.
        """
        tape = self._tape(prompt, readout)
        assert tape is not None
        ids = [*prompt.token_ids, *token_ids]
        if not token_ids or len(ids) > self._context:
            self._fail(f"rows of {len(token_ids)} tokens were asked for, {len(ids)} in all")
        tape.wanted = len(token_ids)
        self._forward(ids if readout.row == "emitted" else ids[:-1], tape, use_cache=False)
        return _cut(tape.rows(len(ids)), prompt)

    @torch.inference_mode()
    def logprobs(self, prompt: Prompt, token_ids: Sequence[int]) -> FloatArray:
        """Return ``[tokens, vocabulary]`` log-probabilities where each of ``token_ids`` stands."""
        ids = [*prompt.token_ids, *token_ids[:-1]]
        output = self._forward(ids, None, keep=len(token_ids), use_cache=False)
        found: FloatArray = torch.log_softmax(output.logits[0].float(), -1).cpu().numpy()
        return found

    def _forward(self, ids: list[int], tape: Tape | None, keep: int = 1, **options: Any) -> Any:
        with recording(tape):
            output = self.model(
                input_ids=torch.tensor([ids], device=self.model.device),
                output_attentions=isinstance(tape, EagerTape),
                logits_to_keep=keep,
                **options,
            )
        if tape is not None:
            tape.note_pass(output.attentions)
        return output

    def _tape(self, prompt: Prompt, readout: Readout | None) -> Tape | None:
        if readout is None:
            return None
        length = len(prompt.token_ids)
        if not 0 <= prompt.source_start < prompt.source_end <= length:
            self._fail(
                f"the source span {prompt.source_start}:{prompt.source_end} is not inside the "
                f"prompt of {length} tokens"
            )
        layers, heads = self._layers, self._heads
        bad = [(a, b) for a, b in readout.heads if not (0 <= a < layers and 0 <= b < heads)]
        if bad or not readout.heads:
            self._fail(f"heads {bad or 'none'} were asked for in {layers} layers of {heads} heads")
        return EagerTape(readout) if self._seam == "eager" else FusedTape(readout)

    def _fail(self, cause: str) -> NoReturn:
        raise EngineError(f"{self.name}: {cause}")


def _cut(rows: torch.Tensor, prompt: Prompt) -> AttentionRows:
    """Cut ``[rows, heads, positions]`` down to the source and the two masses."""
    source = rows[..., prompt.source_start : prompt.source_end]
    length = len(prompt.token_ids)
    rest = rows[..., :length].sum(-1) - source.sum(-1)
    suffix = rows[..., length:].sum(-1)
    return AttentionRows(
        np.ascontiguousarray(source.numpy()), rest.clamp(min=0).numpy(), suffix.numpy()
    )


def _joined(first: AttentionRows, second: AttentionRows) -> AttentionRows:
    return AttentionRows(
        np.concatenate([first.source, second.source]),
        np.concatenate([first.prompt, second.prompt]),
        np.concatenate([first.suffix, second.suffix]),
    )


def _stops(model: Any, tokenizer: Any) -> frozenset[int]:
    """Ids that end a turn: those of the generation configuration and the tokenizer."""
    found: set[int] = set()
    for value in (model.generation_config.eos_token_id, getattr(tokenizer, "eos_token_id", None)):
        found.update([value] if isinstance(value, int) else value or [])
    return frozenset(found)
