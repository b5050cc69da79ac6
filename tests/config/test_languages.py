"""Which languages can be spoken or not, and their names."""

import sys

import pytest

from alignatt_agent.config.languages import LANGUAGES, LanguageError, language
from alignatt_agent.config.resources import CHECKOUT_ROOT

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
