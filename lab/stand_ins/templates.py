"""Chat templates that write the same text as the published ones of each family.

The tests compare the text with the known forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from transformers import PreTrainedTokenizerFast

from lab.stand_ins import random_models


class Family(NamedTuple):
    """Chat format of a family; ``specials`` are pad, end, begin, unknown, and marks, by id."""

    specials: tuple[str, ...]
    stops: tuple[str, ...]
    template: str


_TURNS = (
    "{%% for m in messages %%}"
    "%(open)s{{ 'model' if m.role == 'assistant' and %(model)s else m.role }}\n"
    "{{ m.content }}%(close)s\n"
    "{%% endfor %%}"
)
"""One turn for each message."""

_GEMMA3 = (
    "{{ bos_token }}"
    "{%- set told = namespace(first='', next='user') -%}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'system' -%}"
    "{%- set told.first = m.content | trim + '\n\n' -%}"
    "{%- elif m.role != told.next -%}"
    "{{ raise_exception('roles have to alternate, beginning with the user') }}"
    "{%- else -%}"
    "{{ '<start_of_turn>' + ('user' if m.role == 'user' else 'model') + '\n' }}"
    "{{ told.first + m.content | trim + '<end_of_turn>\n' }}"
    "{%- set told.first = '' -%}"
    "{%- set told.next = 'assistant' if m.role == 'user' else 'user' -%}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
"""The system message stands before the first user turn."""

_HUNYUAN = (
    "{{ bos_token }}"
    "{%- for m in messages -%}"
    "{%- if m.role == 'system' -%}{{ m.content + '<｜hy_place▁holder▁no▁3｜>' }}"  # noqa: RUF001
    "{%- elif m.role == 'user' -%}{{ '<｜hy_User｜>' + m.content }}"  # noqa: RUF001
    "{%- else -%}{{ '<｜hy_Assistant｜>' + m.content + eos_token }}"  # noqa: RUF001
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if messages[-1].role == 'user' -%}{{ '<｜hy_Assistant｜>' }}{%- endif -%}"  # noqa: RUF001
)
"""The answer is opened even without ``add_generation_prompt``."""

FAMILIES: Mapping[str, Family] = {
    "gemma4": Family(
        ("<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"),
        ("<eos>", "<turn|>", "<|turn>"),
        "{{ bos_token }}"
        + _TURNS % {"open": "<|turn>", "close": "<turn|>", "model": "true"}
        + "{% if add_generation_prompt %}<|turn>model\n{% endif %}",
    ),
    "gemma3": Family(
        ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
        ("<eos>", "<end_of_turn>"),
        _GEMMA3,
    ),
    "qwen3": Family(
        ("<|endoftext|>", "<|im_end|>", "<|im_start|>", "<|unknown|>", "<think>", "</think>"),
        ("<|im_end|>", "<|endoftext|>"),
        _TURNS % {"open": "<|im_start|>", "close": "<|im_end|>", "model": "false"}
        + "{% if add_generation_prompt %}<|im_start|>assistant\n"
        + "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}",
    ),
    "hunyuan": Family(
        (
            "<｜hy_▁pad▁｜>",  # noqa: RUF001
            "<｜hy_end▁of▁sentence｜>",  # noqa: RUF001
            "<｜hy_begin▁of▁sentence｜>",  # noqa: RUF001
            "<unk>",
            "<｜hy_User｜>",  # noqa: RUF001
            "<｜hy_Assistant｜>",  # noqa: RUF001
            "<｜hy_place▁holder▁no▁3｜>",  # noqa: RUF001
        ),
        ("<｜hy_end▁of▁sentence｜>", "<｜hy_User｜>"),  # noqa: RUF001
        _HUNYUAN,
    ),
    "llama": Family(
        ("<pad>", "</s>", "<s>", "<unk>", "<|im_start|>", "<|im_end|>"),
        ("<|im_end|>", "</s>"),
        "{{ bos_token }}"
        + _TURNS % {"open": "<|im_start|>", "close": "<|im_end|>", "model": "false"}
        + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    ),
}
"""By architecture, see ``random_models.ARCHITECTURES``; ``llama`` writes as EuroLLM."""


def tokenizer(architecture: str) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with the chat format of a family."""
    family = FAMILIES[architecture]
    return random_models.tokenizer(family.specials, family.template)
