"""Translation prompts equal the output of each family's chat template for the same turns."""

import pytest

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.prompt import PromptConfig, PromptWording
from alignatt_agent.translation.prompt import PromptBuilder
from lab.stand_ins import random_models
from lab.stand_ins.layouts import chat_of

TEXTS = (
    "Today we look at how machines translate.",
    "naïve 3.5 %, “quoted” 🙂 e.g. GPU-Zürich 模型",
    "a",
)
BACKBONES = {
    "default-low": "gemma4",
    "milmmt46-low": "gemma3",
    "qwen3-1.7b-low": "qwen3",
    "qwen3-4b-low": "qwen3",
    "hy-mt-1.8b-low": "hunyuan",
    "hy-mt-7b-low": "hunyuan",
    "eurollm-9b-low": "llama",
    "translategemma-4b-low": "translategemma",
    "translategemma-12b-low": "translategemma",
}


@pytest.fixture(params=["gemma4", "gemma3", "qwen3", "hunyuan", "llama"])
def family(request):
    return request.param


def turns(wording: PromptWording, source: str, target: str, text: str) -> list[dict[str, str]]:
    names = {
        "source_language": wording.name(source),
        "target_language": wording.name(target),
        "context": "",
    }
    user = wording.before.format(**names) + text + wording.after.format(**names)
    found = [{"role": "user", "content": user}]
    if wording.language_codes:
        sides = {"source_lang_code": source, "target_lang_code": target}
        codes = {key: language(name).code for key, name in sides.items()}
        found = [{"role": "user", "content": [{"type": "text", **codes, "text": user}]}]
    if wording.system is not None:
        found.insert(0, {"role": "system", "content": wording.system.format(**names)})
    return found


def template_ids(tokenizer, messages) -> list[int]:
    return tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, enable_thinking=False, return_dict=False
    )


WORDINGS = {
    "default": PromptWording(),
    "without system turn": PromptWording(system=None, before="Say: ", after="!"),
    # Gemma-3 trims the content of turns.
    "white space around": PromptWording(system=" \n S \n", before="\n\t Say:\n", after=" \n\n "),
    "nothing around": PromptWording(system=None, before=" ", after="\n"),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("wording", WORDINGS.values(), ids=WORDINGS)
def test_ids_are_those_of_the_template(family, text, wording):
    tokenizer = random_models.tokenizer(family)
    prompt = PromptBuilder(tokenizer, "English", "German", wording).build(text.split())
    expected = template_ids(tokenizer, turns(wording, "English", "German", text))
    assert list(prompt.token_ids) == expected
    span = prompt.token_ids[prompt.source_start : prompt.source_end]
    assert text in tokenizer.decode(list(span))
    assert set(prompt.token_word) == set(range(len(text.split())))


@pytest.mark.parametrize(("name", "family_of"), BACKBONES.items())
@pytest.mark.parametrize(("spoken", "target"), [("en", "de"), ("en", "zh"), ("zh", "de")])
def test_backbones_ask_as_their_authors_do(name, family_of, spoken, target):
    config, tokenizer = load_config(name), random_models.tokenizer(family_of)
    assert chat_of(config.models.translation.path) == family_of
    wording = config.prompt.wording(spoken, target)
    names = language(spoken).name, language(target).name
    builder = PromptBuilder(tokenizer, *names, wording)
    ids = list(builder.build(["model"]).token_ids)
    if wording.chat:
        assert ids == template_ids(tokenizer, turns(wording, *names, "model"))
    text = tokenizer.decode(ids)
    if name == "milmmt46-low":
        named = {"en": "English", "de": "German", "zh": "Chinese (Simplified)"}
        source, named = named[spoken], named[target]
        assert text == f"Translate this from {source} to {named}:\n{source}: model\n{named}:"
    if name.startswith("hy-mt"):
        asked = {"de": "into German, without", "zh": "翻译为中文，"}[target]
        asked = asked if spoken == "en" else "将以下文本翻译为德语，"
        assert asked in text
        assert "place" not in text  # no system turn


def test_bare_text_has_no_system_turn():
    with pytest.raises(ValueError, match="plain text"):
        PromptConfig(chat=False)


def test_the_hash_of_a_prompt_tells_names_and_bare_text_apart():
    plain = PromptConfig(system=None)
    named = PromptConfig(system=None, names={"Chinese": "Simplified Chinese"})
    bare = PromptConfig(system=None, chat=False)
    assert len({prompt.digest("en", "zh") for prompt in (plain, named, bare)}) == 3
    assert named.names == {"zh": "Simplified Chinese"}
