"""Attention rows from queries and keys (Eq. 2), on tensors alone.

``M`` rows (one per query), ``h`` heads of one layer, ``H`` heads of all layers, ``L`` context
positions, ``S`` source tokens.
"""

from __future__ import annotations

import torch


def hidden_positions(positions: torch.Tensor, length: int, window: int | None) -> torch.Tensor:
    """Mark what each query cannot see, ``[M, 1, L]``: the future and what left the window.

    Args:
        positions: ``[M]`` position of each query.
        length: number of context positions ``L``.
        window: a query sees itself and the ``window - 1`` positions before it.
    """
    behind = positions[:, None, None] - torch.arange(length, device=positions.device)
    hidden = behind < 0
    if window is not None:
        hidden |= behind >= window
    return hidden


def probabilities(
    queries: torch.Tensor,
    keys: torch.Tensor,
    hidden: torch.Tensor,
    scale: float,
    soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Softmax over the whole context, ``[M, h, L]`` in float32.

    Args:
        queries: ``[M, h, D]``.
        keys: ``[M, h, B, N, D]``, the key head of each query head, in ``B`` pages of ``N``
            positions; what is beyond ``L`` is left out.
        hidden: ``[M, 1, L]`` positions to leave out.
        scale: factor on the scores.
        soft_cap: scores are squashed to ``(-soft_cap, soft_cap)`` when positive.
        sinks: ``[h]`` scores of attention sinks, which take mass and have no position.
    """
    scores = torch.matmul(keys.float(), queries.float()[:, :, None, :, None])
    scores = scores.flatten(2)[..., : hidden.shape[-1]].mul_(scale)
    if soft_cap > 0:
        scores.div_(soft_cap).tanh_().mul_(soft_cap)
    scores.masked_fill_(hidden, float("-inf"))
    if sinks is None:
        return torch.softmax(scores, -1)
    extra = sinks.float()[None, :, None].expand(scores.shape[0], -1, 1)
    return torch.softmax(torch.cat([scores, extra], -1), -1)[..., :-1]


class Fold:
    """Cuts full rows down to what a policy reads: the source, and two masses.

    Args:
        starts: first source position of each row's request.
        ends: one past its last source position.
        prompts: length of its prompt.
        length: number of context positions ``L``.
        heads: number of heads ``H``.
        device: where the rows are.
    """

    def __init__(
        self,
        starts: list[int],
        ends: list[int],
        prompts: list[int],
        length: int,
        heads: int,
        device: torch.device,
    ) -> None:
        widths = [end - start for start, end in zip(starts, ends, strict=True)]
        first = torch.tensor(starts, device=device)[:, None]
        index = (first + torch.arange(max(widths), device=device)).clamp_(max=length - 1)
        self._index = index[:, None].expand(-1, heads, -1)
        self._padding: torch.Tensor | None = None
        if min(widths) < max(widths):
            widest = torch.arange(max(widths), device=device)
            self._padding = (widest >= torch.tensor(widths, device=device)[:, None])[:, None]
        in_prompt = torch.arange(length, device=device) < torch.tensor(
            prompts, device=device
        ).unsqueeze(1)
        self._parts = torch.stack([in_prompt, ~in_prompt], -1).float()

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Fold ``[M, H, L]`` rows.

        Returns:
            ``[M, H, S + 2]``: the source, then the mass on the rest of the prompt and on the
            draft; columns past a source shorter than ``S`` are zero.
        """
        source = rows.gather(2, self._index)
        if self._padding is not None:
            source.masked_fill_(self._padding, 0.0)
        masses = torch.matmul(rows, self._parts)
        masses[..., 0].sub_(source.sum(-1)).clamp_(min=0.0)
        return torch.cat([source, masses], -1)
