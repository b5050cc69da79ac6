"""Terms with fixed translations: their lines, their occurrences, and the text in a prompt."""

import pytest

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.config.prompt import PromptConfig
from alignatt_agent.config.terms import read_terms, spoken_terms
from alignatt_agent.policy import EmitAll
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import Draft, SourceView
from tests.fakes.models import ScriptedEngine, make_words

LISTED = """AlignAtt
attention head = de: Aufmerksamkeitskopf | it: testa di attenzione
Brno = Brünn
a = b = c: d
 cat=dog
"""


def test_a_line_may_have_translations():
    found = {term.text: term for term in read_terms(LISTED)}
    assert spoken_terms(LISTED).splitlines() == list(found)
    assert list(found) == ["AlignAtt", "attention head", "Brno", "a", "cat=dog"]
    of = {text: [term.translation(code) for code in ("de", "zh")] for text, term in found.items()}
    assert of == {
        "AlignAtt": [None, None],
        "attention head": ["Aufmerksamkeitskopf", None],
        "Brno": ["Brünn", "Brünn"],
        "a": ["b = c: d"] * 2,
        "cat=dog": [None, None],
    }


@pytest.mark.parametrize(
    "line", ["a =", " = b", "a = de: b | c", "a = b | c", "a = de: b | de: c", "a = de:  | it: c"]
)
def test_half_a_translation_is_refused(line):
    with pytest.raises(ConfigError, match=r"speech.context: .* expected TERM, TERM = TRANSLATION"):
        read_terms(f"AlignAtt\n{line}")


@pytest.mark.parametrize("sign", ["\udcfc", "\u2063", "\0", "\x1b", "\x7f", "\x93"])
def test_signs_that_are_no_text_are_refused(sign):
    message = f"contains U\\+{ord(sign):04X}, which is no text"
    for line in (f"M{sign}ller", f"Term = de: Be{sign}griff"):
        with pytest.raises(ConfigError, match=message):
            read_terms(f"AlignAtt\n{line}")
    assert [term.text for term in read_terms("a\r\nb\tc\r\nمی\u200cخواهم")] == [
        "a",
        "b\tc",
        "می\u200cخواهم",
    ]


def test_escaped_signs_belong_to_the_text():
    terms = read_terms("E \\= mc² = de: a\\|b | it: c\\\\\na|b\nC:\\new = x \\| y")
    assert [(term.text, term.translation("de"), term.translation("it")) for term in terms] == [
        ("E = mc²", "a|b", "c\\"),
        ("a|b", None, None),
        ("C:\\new", "x | y", "x | y"),
    ]


@pytest.mark.parametrize(
    ("term", "heard", "occurs"),
    [
        ("head", "The Head, of", True),
        ("head", "many heads.", True),
        ("head", "it is headed", True),
        ("head", "headquarters", False),
        ("head", "ahead hea", False),
        ("Mark", "the market opens", False),
        ("Mark", "(Marks) book", True),
        ("Mark", "a mark", True),
        ("of", "offer", False),
        ("attention head", "Attention heads!", True),
        ("attention head", "attention and head", False),
        ("attention head", "attention", False),
        ("C++", "we use C++ here", True),
        ("注意力", "这 注 意 力，", True),
        ("注意力", "注 意", False),
        ("straße", "STRASSE", True),
    ],
)
def test_where_a_term_occurs(term, heard, occurs):
    (found,) = read_terms(term)
    assert found.occurs(heard.split()) == occurs


def builder(tokenizer, context="", **changes):
    prompt = PromptConfig(**changes)
    return PromptBuilder.of(tokenizer, prompt, language("en"), language("de"), context)


def test_terms_stand_behind_the_source(byte_level):
    ours, plain = builder(byte_level, LISTED), builder(byte_level, "AlignAtt\ncat=dog")
    words = ["many", "attention", "heads", "in", "Brno"]
    prompt, without = ours.build(words, (9,)), plain.build(words, (9,))
    text = byte_level.decode(prompt.token_ids)
    told = "Use these translations: attention head = Aufmerksamkeitskopf; Brno = Brünn."
    assert f"many attention heads in Brno\n\n{told}\n\nTranslate into German." in text
    assert "Names and terms of the talk: AlignAtt, cat=dog." in text
    # The prompt up to the end of the source is as without terms; without occurrences all of it is.
    assert prompt.token_ids[: prompt.source_end] == without.token_ids[: prompt.source_end]
    assert (prompt.source_start, prompt.token_word) == (without.source_start, without.token_word)
    assert ours.build(["cats"]) == plain.build(["cats"])
    silent = builder(byte_level, LISTED, terms="")
    assert silent.build(words, (9,)) == without


def test_the_next_draft_follows_what_is_heard(byte_level):
    """A term across a commit, and one that the recognizer revises; accepted text stays."""
    said = tuple(byte_level(" wir sahen", add_special_tokens=False)["input_ids"])
    engine = ScriptedEngine([Draft(said, i == 5) for i in range(6)])
    context = "New York = de: Neu-York\nNeil = de: Nihl"
    translator = Translator(
        engine, builder(byte_level, context), byte_level, None, EmitAll(), True, 4, verify=False
    )
    accepted = ()
    for heard, told in [
        ("we saw New", None),
        ("we saw New York", "New York = Neu-York"),  # settled words first, then live ones
        ("we saw New York Neil", "New York = Neu-York; Neil = Nihl"),
        ("we saw New York kneel", "New York = Neu-York"),
        ("we saw no fork", None),
    ]:
        translator.update(SourceView(make_words(heard), 1))
        ids = engine.calls[-1][0].token_ids
        text = byte_level.decode(ids)
        assert (f"translations: {told}." in text) if told else ("translations" not in text)
        assert ids[len(ids) - len(accepted) :] == accepted
        assert len(translator.accepted) > len(accepted)
        assert translator.accepted[: len(accepted)] == accepted
        accepted = translator.accepted
    translator.complete(make_words("we saw New York."))
    assert "New York = Neu-York." in byte_level.decode(engine.calls[-1][0].token_ids)
