"""What can be spoken or not, and how each script is cut into units."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alignatt_agent.config.languages import LANGUAGES, LanguageError, language
from alignatt_agent.config.resources import CHECKOUT_ROOT
from alignatt_agent.types.running_text import gaps, join_words, split_words

ASKED_FOR = {
    *("es", "fr", "pt", "ru", "ja", "ko", "ar", "cs", "pl", "tr", "uk", "hi", "vi", "th"),
    *("de", "it", "zh", "nl", "en"),
}


def test_recognized_and_timed_languages_are_those_of_the_models():
    from transformers.models.qwen3_asr.processing_qwen3_asr import (
        FORCED_ALIGNER_LANGUAGES,
        LANGUAGE_CODE_TO_NAME,
    )

    assert len(LANGUAGE_CODE_TO_NAME) == 30
    assert {item.code: item.name for item in LANGUAGES if item.heard} == LANGUAGE_CODE_TO_NAME
    assert {item.name for item in LANGUAGES if item.timed} == FORCED_ALIGNER_LANGUAGES
    assert len(FORCED_ALIGNER_LANGUAGES) == 11


def test_names_of_clients():
    for item in LANGUAGES:
        for name in (item.code, item.name, item.name.upper(), f"{item.code}-XX"):
            assert language(name) is item
    assert language("Tagalog") == language("tl") == language("fil")
    for name in ("zh-TW", "zh_HK", "zh-Hant-MO", "Chinese (Traditional)", "cmn-Hant-TW"):
        assert language(name).code == "zh-Hant"
    assert language("zh-CN") is language("zh-Hans-SG") is language("Mandarin") is language("zh")
    assert language("zh-yue") == language("Cantonese") != language("zh-HK")
    assert {item.code for item in LANGUAGES} >= ASKED_FOR
    with pytest.raises(LanguageError, match=r"expected one of .*it \(Italian\)"):
        language("")


@pytest.mark.parametrize(("code", "package"), [("ja", "nagisa"), ("ko", "soynlp")])
def test_a_missing_word_splitter_is_named(code, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LanguageError) as caught:
        language(code).check_spoken()
    assert f"needs the word splitter {package}, which cannot be loaded" in str(caught.value)
    assert "`pip install 'alignatt_agent[cjk]'`, or set speech.times" in str(caught.value)
    language(code).check_spoken(aligned=False)


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


def test_the_documentation_has_every_language_and_every_refusal():
    text = (CHECKOUT_ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
    for item in LANGUAGES:
        spoken = "live" if item.timed else "live, first heard" if item.heard else "not supported"
        splitter = f", with `{item.splitter}`" if item.splitter else ""
        assert f"| {item.name} | {item.code} | {spoken}{splitter} |" in text
    with pytest.raises(LanguageError) as caught:
        language("uk").check_spoken()
    assert f"*{caught.value}*" in " ".join(text.split())
    assert language("uk").check_spoken(recognizer="whisper").name == "Ukrainian"
