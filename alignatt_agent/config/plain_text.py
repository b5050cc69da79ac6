"""Encode the text of speakers and clients without control tokens.

A tokenizer reads ``<|im_end|>`` as a control token wherever it stands. Only the chat template may
write such tokens: a sentence that mentions one, or forges a turn, is encoded as ordinary text.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_TAG = re.compile(r"<\S.*>|\[\S.*\]")


@lru_cache(maxsize=16)
def control_tokens(tokenizer: Any) -> Mapping[str, int]:
    """Return the ids of a fast tokenizer's control tokens by their text.

    Gemma 3's added tokens include line breaks, spaces and HTML tags, which are ordinary text.
    """
    template = str(tokenizer.chat_template or "")
    control: dict[str, int] = {}
    for token_id, added in tokenizer.added_tokens_decoder.items():
        text = str(added)
        in_template = bool(text.strip()) and text in template
        has_mark = text.startswith("<|") or text.endswith("|>")
        if added.special or in_template or has_mark:
            control[text] = int(token_id)
    return control


@lru_cache(maxsize=16)
def _split_ids(tokenizer: Any) -> frozenset[int]:
    """Return the ids of added tokens that are split into ordinary tokens in a source.

    In addition to control tokens, these are all tags. Some tokenizers have ``<think>`` as a tag
    that neither is special nor occurs in the template.
    """
    ids = set(control_tokens(tokenizer).values())
    for token_id, added in tokenizer.added_tokens_decoder.items():
        if _TAG.fullmatch(str(added)):
            ids.add(int(token_id))
    return frozenset(ids)


def encode_text(
    tokenizer: Any, text: str, begin: int = 0, end: int | None = None
) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the token ids of ``text``, and the first and last character of each token.

    Only the text outside ``text[begin:end]`` may contain control tokens. No special tokens are
    added. Without control tokens and tags in that part, the ids are those of the tokenizer.
    """
    if end is None:
        end = len(text)
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    split = _split_ids(tokenizer)
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    for token_id, (first, last) in zip(
        encoding["input_ids"], encoding["offset_mapping"], strict=True
    ):
        piece = text[first:last]
        # Characters that the vocabulary lacks also have the id of ``<unk>``.
        is_written = token_id != tokenizer.unk_token_id or tokenizer.unk_token in piece
        in_source = first < end and last > begin
        plain = [token_id]
        if token_id in split and is_written and in_source:
            plain = _plain_ids(tokenizer, piece, split)
        ids += plain
        offsets += [(first, last)] * len(plain)
    return ids, offsets


def text_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the token ids of ``text`` without control tokens and without special tokens."""
    return encode_text(tokenizer, text)[0]


def _plain_ids(tokenizer: Any, text: str, split: frozenset[int]) -> list[int]:
    """Encode the text of a control token with the tokenizer's model alone.

    The option ``split_special_tokens`` does not split ``<think>``, and it changes the state of a
    tokenizer that other threads use.
    """
    backend = tokenizer.backend_tokenizer
    normalized = text
    if backend.normalizer is not None:
        normalized = backend.normalizer.normalize_str(text)
    pieces = [normalized]
    if backend.pre_tokenizer is not None:
        pieces = [piece for piece, _ in backend.pre_tokenizer.pre_tokenize_str(normalized)]
    tokens = []
    for piece in pieces:
        tokens += backend.model.tokenize(piece)
    ids = [token.id for token in tokens]
    if tokens and tokens[0].value.startswith("▁") and not text[0].isspace():
        # SentencePiece puts a space before each text, but this one continues a text.
        del ids[0]
        without_space = backend.model.token_to_id(tokens[0].value[1:])
        if without_space is not None:
            ids.insert(0, without_space)
    if split.intersection(ids) and len(text) > 1:
        # The vocabulary may contain the token itself, but a single character controls nothing.
        ids = []
        for character in text:
            ids += _plain_ids(tokenizer, character, split)
    return ids
