"""Rounding to stability units for de, it and zh, and append-only text for any tokenizer."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alignatt_agent.translation.units import UnitDecoder
from tests.fakes.models import PieceTokenizer

RELAXED = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

BYTES = SimpleNamespace(decode=lambda ids, **_: bytes(ids).decode("utf-8", errors="replace"))
"""A tokenizer with one token per UTF-8 byte; broken characters show as U+FFFD."""


def rounded(pieces, limit, closed=False, accepted=(), spaced=True):
    """Text units that survive the rounding of ``pieces[:limit]``."""
    tokenizer = PieceTokenizer()
    before, draft = tokenizer.ids(*accepted), tokenizer.ids(*pieces)
    decoder = UnitDecoder(tokenizer, spaced)
    count = decoder.complete(before, draft, limit, closed)
    assert 0 <= count <= limit
    return [unit.strip() for unit in decoder.units(before, draft[:count])]


@pytest.mark.parametrize(
    ("pieces", "limit", "closed", "units"),
    [
        ([" Das", " Haus", " ist"], 3, False, ["Das", "Haus"]),  # what follows "ist" is unknown
        ([" Das", " Haus", " ist"], 3, True, ["Das", "Haus", "ist"]),
        ([" Das", " Haus", " ist"], 2, False, ["Das", "Haus"]),  # the rejected token shows the end
        ([" Das", " Ha", "us", " ist"], 2, False, ["Das"]),
        ([" Haus", ".", " Und"], 1, False, []),  # the full stop belongs to the word
        ([" Haus", ".", " Und"], 2, False, ["Haus."]),
        ([" Haus", "."], 2, False, []),  # a quotation mark may follow
        ([" Haus", "."], 2, True, ["Haus."]),
        ([" 3", ".", "5", " Mio"], 2, False, []),
        ([" 3", ".", "5", " Mio"], 3, False, ["3.5"]),
        ([" „", "Ja", "!", "“", " sagt"], 4, False, ["„Ja!“"]),
        ([" l", "'", "audio", " è"], 3, False, ["l'audio"]),
        ([" Das ", "Haus "], 2, False, ["Das", "Haus"]),  # trailing-space convention
        ([" Das", "\n", "Haus", "\t\u00a0\u3000", "ist", " "], 6, False, ["Das", "Haus", "ist"]),
        ([" Das Haus", "tür ist"], 1, False, []),  # a token that ends inside a word is dropped
        ([" Das Haus", "tür ist", " zu"], 2, False, ["Das", "Haustür", "ist"]),
        ([], 0, True, []),
        ([" النموذج", " يقرأ", "،", " ثم"], 4, False, ["النموذج", "يقرأ،"]),
        ([" مدل", " می\u200cخو", "اند", "؟"], 4, False, ["مدل"]),
        ([" l'", "attention", " lit", " :"], 3, False, ["l'attention", "lit"]),
        ([" मॉडल", " पढ़", "ता", " है", "।", " फिर"], 6, False, ["मॉडल", "पढ़ता", "है।"]),
        (["モデ", "ルは", "、GP", "U", "で", "す"], 3, False, "モデルは"),
        ([" 모델", "은", " 단어를"], 3, False, ["모델은"]),
        (["แบบ", "จำ", "ลอง", "อ่าน AI", " แล้ว"], 3, False, "แบบจำลอง"),
        (["個", "模型", "睇", "緊", "。"], 5, False, "個模型睇緊"),
        (["模型", "，用", "GP", "U的"], 3, False, "模型，用"),
        # Chinese: every character is a unit.
        (["我们", "用", "模型"], 3, False, "我们用模型"),
        (["我", "们"], 1, False, "我"),
        (["模型", "，", "好"], 2, False, "模型，"),
        (["模型", "。"], 2, False, "模型"),  # the source may still go on
        (["模型", "。"], 2, True, "模型。"),
        (["用", "GP", "T-4", "的"], 2, False, "用"),
        (["用", "GP", "T-4", "的"], 3, False, "用GPT-4"),
        (["用", "GPT-4"], 2, True, "用GPT-4"),
        (["有", "3", ".", "5", "亿"], 3, False, "有"),
        (["有", "3", ".", "5", "亿"], 4, False, "有3.5"),
        (["用", " GPT", " 4 ", "的"], 3, False, "用GPT4"),  # no unit is a space
        (["“", "好", "”", "🙂", "吗"], 4, False, "“好”🙂"),
        (["\u3000我", "\n"], 2, False, "我"),
        # A tone mark or vowel belongs to the letter before it, and may yet follow the last one.
        (["ที", "่", "นี", "่"], 4, False, "ที่"),
        (["ที", "่", "นี", "่"], 1, False, ""),
        (["ท", "ี่", "น"], 3, False, "ที่"),
        (["น", "\u0e33", "ม"], 3, False, "น\u0e33"),
        (["ก", "ข"], 2, False, "ก"),
        (["AI", "ก"], 2, False, "AI"),
        (["が", "\u3099", "は"], 3, False, "が\u3099は"),
    ],
)
def test_rounding(pieces, limit, closed, units):
    found = rounded(pieces, limit, closed, spaced=isinstance(units, list))
    assert (found if isinstance(units, list) else "".join(found)) == units


def test_byte_fallback_of_a_real_decoder(gemma_like):
    zh = UnitDecoder(gemma_like, spaced=False)
    ids = gemma_like.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in "鑫龘".encode()])
    # This decoder blanks a whole run of bytes while its last character is incomplete.
    assert gemma_like.decode(ids[:4]) == "\ufffd" * 4
    assert [zh.complete([], ids, k, True) for k in range(7)] == [0, 0, 0, 3, 3, 3, 6]
    assert zh.complete([], ids[:4], 4, False) == 3
    assert zh.units(ids[:3], ids[3:]) == ("龘",)
    for text in ("鑫" * 9, " a" * 4 + "鑫"):  # so far back, too
        ids = gemma_like.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in text.encode()])
        for k in range(len(ids) + 1):
            assert zh.text(ids[:k]) == gemma_like.decode(ids[:k])


def test_special_tokens_show_nothing(gemma_like):
    decoder = UnitDecoder(gemma_like, spaced=True)
    ids = gemma_like(" Modell", add_special_tokens=False)["input_ids"]
    assert decoder.units([], [*ids, gemma_like.pad_token_id]) == (" Modell",)


@pytest.mark.parametrize(
    "spelled",
    [
        "Das| Modell,| sagt| er,| ist| „sicher“.",
        "C'è| l'audio:| 3,5| %!| Bonjour\u202f!| Ça| va\u00a0?",
        "2026|年|使|用| Forced| Aligner| 模|型|，|训|练|3.5|亿|。",
        "「|GPU|」|を| 2| 台|、|👩\u200d💻|が|🇩🇪|で|す|。",
        "ที่|สุ|ด|เพื่|อ|ให้|ภั|ย|ใน|อ|นา|ค|ต| ใช้| GPU",
    ],
)
def test_rounding_a_real_tokenization_at_every_token(tokenizer, spelled):
    spelled = re.sub("([\u202f\u00a0])", r"|\1", spelled)
    text, units = spelled.replace("|", ""), spelled.split("|")
    decoder = UnitDecoder(tokenizer, spaced=units[2][0].isspace())
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    shown = ""
    for limit in range(len(ids) + 1):
        count = decoder.complete([], ids, limit, closed=limit == len(ids))
        before, shown = shown, "".join(decoder.units([], ids[:count]))
        assert text.startswith(shown)
        assert shown.startswith(before)
    assert decoder.units([], ids) == tuple(units)
    assert shown == text


def clean(text, joiner=""):
    return joiner.join(text.replace("\ufffd", "").split())


PIECES = st.text("ab.,'3你。“ \n\t\u00a0\u3000\u2028é\u0301🙂", max_size=4)


@pytest.mark.parametrize("kind", ["pieces", "bytes", "gemma_like", "byte_level"])
@RELAXED
@given(data=st.data(), spaced=st.booleans())
def test_units_are_append_only(request, kind, data, spaced):
    """Units only grow, and are always the text of the accepted ids, with its spaces."""
    if kind == "pieces":
        tokenizer = PieceTokenizer(data.draw(st.lists(PIECES, min_size=1, max_size=12)))
        vocabulary = len(tokenizer.pieces)
    elif kind == "bytes":
        tokenizer, vocabulary = BYTES, 256
    else:
        tokenizer = request.getfixturevalue(kind)
        vocabulary = tokenizer.vocab_size
    decoder = UnitDecoder(tokenizer, spaced)
    accepted, emitted = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        draft = data.draw(st.lists(st.integers(0, vocabulary - 1), max_size=10))
        limit = data.draw(st.integers(0, len(draft)))
        closed = data.draw(st.booleans()) and limit == len(draft)
        count = decoder.complete(accepted, draft, limit, closed)
        assert 0 <= count <= limit
        emitted += decoder.units(accepted, draft[:count])
        accepted += draft[:count]
        text = tokenizer.decode(
            accepted, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert clean("".join(emitted), " ") == clean(text, " ")
        assert decoder.text(accepted) == text
    for unit in emitted:
        assert unit.strip()
        assert not any(char.isspace() or char == "\ufffd" for char in unit[1:])
    # Every cut between units spells the same text from both sides.
    for cut in decoder.boundaries(accepted):
        left = decoder.units([], accepted[:cut])
        right = decoder.units(accepted[:cut], accepted[cut:])
        assert clean("".join(left + right), " ") == clean("".join(emitted), " ")


def test_a_decoder_that_rewrites_its_past_cannot_take_back_text():
    tokenizer = PieceTokenizer()
    tokenizer.decode = lambda ids, **_: PieceTokenizer.decode(tokenizer, ids)[::-1]
    ids = tokenizer.ids("ab ", "cd ")
    decoder = UnitDecoder(tokenizer, spaced=True)
    assert decoder.complete(ids[:1], ids[1:], 1, True) == 0
    assert decoder.units(ids[:1], ids[1:]) == (" dc",)


def test_a_draft_that_rewrites_its_own_beginning_is_no_boundary():
    tokenizer = PieceTokenizer()
    tokenizer.decode = lambda ids, **_: PieceTokenizer.decode(tokenizer, ids).replace(" .", ".")
    draft = tokenizer.ids(" Haus", " ", ".", " Und")
    decoder = UnitDecoder(tokenizer, spaced=True)
    assert [decoder.complete((), draft, k, False) for k in range(5)] == [0, 0, 0, 3, 3]


@RELAXED
@given(
    pieces=st.lists(
        st.sampled_from([" a", "b.", " ", "你", "好吗", "3", "\n", " c d"]), max_size=9
    ),
    cut=st.integers(0, 9),
    spaced=st.booleans(),
)
def test_every_unit_is_owned_by_the_tokens_that_write_it(pieces, cut, spaced):
    tokenizer = PieceTokenizer()
    ids = tokenizer.ids(*pieces)
    decoder = UnitDecoder(tokenizer, spaced)
    cut = max(end for end in decoder.boundaries(ids) if end <= cut)
    before, added = ids[:cut], ids[cut:]
    units, owners = decoder.units(before, added), decoder.owners(before, added)
    assert len(owners) == len(units)
    assert all(tokens for tokens in owners)
    for unit, tokens in zip(units, owners, strict=True):
        written = "".join(tokenizer.pieces[added[k]] for k in tokens)
        assert unit.strip() in "".join(written.split())
    # Every token that writes something belongs to a unit.
    solid = {k for k, token in enumerate(added) if tokenizer.pieces[token].strip()}
    assert {k for tokens in owners for k in tokens} == solid


def test_bytes_of_a_character_own_it_together():
    ids = list("我a们".encode())
    assert UnitDecoder(BYTES, False).owners((), ids) == [[0, 1, 2], [3], [4, 5, 6]]
    assert UnitDecoder(BYTES, True).owners((), ids) == [[0, 1, 2, 3, 4, 5, 6]]
