"""Words of running text in scripts with and without spaces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.text.running_text import gaps, join_words, split_words


@pytest.mark.parametrize(
    ("text", "words", "written"),
    [
        ("So it's (really) 3.5!", ["So", "it's", "(really)", "3.5!"], None),
        ("모델은 단어를 읽습니다.", ["모델은", "단어를", "읽습니다."], None),
        ("模型，很好。", ["模", "型，", "很", "好。"], None),
        ("用GPU训练", ["用", "GPU", "训", "练"], "用 GPU 训练"),
        ("（注）3.5亿 GPT-4。", ["（注）", "3.5", "亿", "GPT-4。"], "（注） 3.5 亿 GPT-4。"),
        ("データは人々の", ["デー", "タ", "は", "人々", "の"], None),
        ("the 漢字 word", ["the", "漢", "字", "word"], None),
        ("ที่นี่ GPU ดี", ["ที่", "นี่", "GPU", "ดี"], None),
        ("ดี มาก", ["ดี", "ม", "า", "ก"], "ดีมาก"),
        (" ", [], ""),
    ],
)
def test_words_of_running_text(text, words, written):
    assert split_words(text) == words
    assert join_words(words) == (text if written is None else written)


@given(st.text("ab. 'é\u0301“（好，。デー한국\u3000\n", max_size=20))
def test_words_of_any_text(text):
    words = split_words(text)
    assert "".join(words) == "".join(text.split())
    assert all(words)
    assert "".join(join_words(words).split()) == "".join(words)
    assert set(gaps(words)) <= {"", " "}
