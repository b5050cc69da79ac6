"""Closed sentences before the open one: in the template's turns, cut at sentences."""

import pytest

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.prompt import PromptConfig, PromptWording
from alignatt_agent.translation.history import GROWTH, History
from alignatt_agent.translation.prompt import PromptBuilder
from lab.stand_ins import random_models
from tests.fakes.models import with_template
from tests.translation.test_templates import turns

TALK = [("The cat saw it.", "Die Katze sah es."), ("It sleeps.", "Sie schläft."), ("Ah!", "Ach!")]
OPEN = ["It", "is", "3.5", "m"]


def decoded(tokenizer, prompt):
    return tokenizer.decode(list(prompt.token_ids))


def remembering(builder, talk, sentences=2):
    return History(builder, sentences, 512).remember(talk)


@pytest.mark.parametrize(
    "family", ["gemma4", "gemma3", "qwen3", "llama", "hunyuan", "translategemma"]
)
def test_turns_of_the_chat_are_those_of_the_template(family):
    tokenizer = random_models.tokenizer(family)
    codes = {"system": None, "after": "", "language_codes": True}
    wording = PromptWording(**(codes if family == "translategemma" else {}))
    builder = PromptBuilder(tokenizer, "English", "German", wording)
    history = remembering(builder, TALK)
    told = turns(wording, "English", "German", "")[:-1]
    for source, translation in TALK:
        told.append(turns(wording, "English", "German", source)[-1])
        told.append({"role": "assistant", "content": translation})
    told.append(turns(wording, "English", "German", " ".join(OPEN))[-1])
    prompt = history.prompt(OPEN, ())
    expected = tokenizer.apply_chat_template(
        told, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    assert decoded(tokenizer, prompt) == expected
    span = prompt.token_ids[prompt.source_start : prompt.source_end]
    assert tokenizer.decode(list(span)) == " ".join(OPEN)
    alone = builder.build(OPEN)
    assert prompt.token_word == alone.token_word
    # The text after the source, and thus gate and expected draft, is as without a history.
    assert prompt.token_ids[prompt.source_end :] == alone.token_ids[alone.source_end :]
    begin = alone.source_start
    assert prompt.token_ids[:begin] == alone.token_ids[:begin]


def test_no_history_is_the_prompt_of_before(byte_level):
    builder = PromptBuilder(byte_level, "English", "German")
    for history in (History(builder), remembering(builder, TALK, 0), History(builder, 2, 512)):
        assert history.prompt(OPEN, (8,)) == builder.build(OPEN, (8,))
    assert PromptConfig(history=0).digest("en", "de") == PromptConfig().digest("en", "de")
    assert PromptConfig(history=2).digest("en", "de") != PromptConfig().digest("en", "de")


def test_a_closed_prompt_goes_on(byte_level):
    """The next prompt begins with the last one and its translation, which are cached."""
    builder = PromptBuilder(byte_level, "English", "German")
    history = History(builder, 2, 512)
    for source, translation in TALK:
        last = history.prompt(source.split(), builder.ids(translation)).token_ids
        history = history.add(source.split(), builder.ids(translation))
        assert history.prompt(OPEN, ()).token_ids[: len(last)] == last
    history = history.add(["It."], ())  # untranslated
    assert decoded(byte_level, history.prompt(OPEN, ())).count("It.") == 0


@pytest.mark.parametrize(("sentences", "tokens"), [(1, 400), (2, 400), (2, 100), (3, 60), (2, 5)])
def test_the_window_is_cut_by_whole_sentences(byte_level, sentences, tokens):
    builder = PromptBuilder(byte_level, "English", "German", PromptWording(system=None, after=""))
    history, sizes = History(builder, sentences, tokens), []
    for number in range(20):
        source, translation = f"Number {number} is here.", f"Nummer {number} ist da."
        history = history.remember([(source, translation)])
        text = decoded(byte_level, history.prompt(["Open"], ()))
        shown = [k for k in range(20) if f"Number {k} is here." in text]
        assert shown == [k for k in range(20) if f"Nummer {k} ist da." in text]
        assert shown == list(range(number + 1))[len(range(number + 1)) - len(shown) :]
        assert text.count("user\n") == len(shown) + 1
        assert len(history.prompt(["Open"], ()).token_ids) <= tokens + 20
        sizes.append(len(shown))
    assert max(sizes) <= GROWTH * sentences
    if tokens == 400:
        assert sizes[: GROWTH * sentences] == list(range(1, GROWTH * sentences + 1))
        assert sizes[GROWTH * sentences] == sentences
    assert tokens > 5 or set(sizes) == {0}


def test_templates_without_turns_get_text(gemma_like, byte_level):
    bare = load_config("milmmt46-low").prompt
    builder = PromptBuilder.of(byte_level, bare, language("en"), language("de"))
    head = "Translate this from English to German:\nEnglish: "
    text = decoded(byte_level, remembering(builder, TALK[:1]).prompt(OPEN, ()))
    assert text == f"{head}{TALK[0][0]}\nGerman:{TALK[0][1]}\n\n{head}{' '.join(OPEN)}\nGerman:"

    begun = PromptWording(system=None, chat=False, before="<bos>Say: ", after="\nDe: ")
    builder = PromptBuilder(byte_level, "English", "German", begun)
    text = decoded(byte_level, remembering(builder, TALK[:1]).prompt(["Go"], ()))
    assert text == f"<bos>Say: {TALK[0][0]}\nDe: {TALK[0][1]}\n\nSay: Go\nDe: "

    once = with_template(  # that writes one exchange and no more
        gemma_like,
        "{% if messages | length > 3 %}{{ raise_exception('one turn') }}{% endif %}"
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}",
    )
    wording = PromptWording(system="S", after=" -> German")
    builder = PromptBuilder(once, "English", "German", wording)
    prompt = remembering(builder, TALK[:1]).prompt(["Go"], ())
    text = f"<system>S<user>{TALK[0][0]} -> German\n{TALK[0][1]}\n\nGo -> German<assistant>"
    assert decoded(once, prompt) == text
    assert set(prompt.token_word) == {0}
