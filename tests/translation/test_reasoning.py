"""Templates that open a reasoning turn are refused.

The templates are our own, in the style of each family.
"""

from functools import partial

import pytest

from alignatt_agent.config.prompt import PromptWording
from alignatt_agent.translation.prompt import PromptBuilder, PromptError
from tests.fakes.models import with_template

USER_ONLY = PromptWording(system=None, after="\n\nDo not think.")


def turns(mark: str, answer: str, opening: str) -> str:
    """A template with ``mark`` before a role, ``answer`` in front of what the model said."""
    return (
        "{%- for m in messages -%}{%- if m.role == 'assistant' -%}"
        + f"{{{{- {mark!r} + 'assistant\\n' + {answer!r} + m.content -}}}}"
        + "{%- else -%}"
        + f"{{{{- {mark!r} + m.role + '\\n' + m.content + '<end>\\n' -}}}}"
        + "{%- endif -%}{%- endfor -%}{%- if add_generation_prompt -%}"
        + f"{{{{- {mark!r} + 'assistant\\n' -}}}}{opening}{{%- endif -%}}"
    )


CLOSED = "<think>\n\n</think>\n\n"
OPENED = "{{- '<think>\\n' -}}"
ASKED = "{%- if enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
HARMONY = (
    "{%- for m in messages -%}{%- if m.role == 'assistant' -%}"
    "{{- '<|start|>assistant<|channel|>final<|message|>' + m.content -}}"
    "{%- else -%}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' -}}"
    "{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%}"
)
REASONING = {
    "Qwen3-Thinking": (turns("<|im_start|>", CLOSED, OPENED), r"'.*<think>', but puts"),
    "Command-A reasoning": (
        turns("<|START|>", "<|START_RESPONSE|>", "{{- '<|START_THINKING|>' if reasoning }}"),
        r"but puts '.*<\|START_RESPONSE\|>'.*with prompt.template_arguments or prompt.system",
    ),
    "Apriel": (
        turns("<|", "", "{{- 'Here are my reasoning steps:\\n' -}}"),
        "reasoning steps:', but",
    ),
    "gpt-oss": (HARMONY, r"but puts '.*<\|channel\|>final<\|message\|>' before a finished answer"),
    "Nemotron, open in both": (turns("<|", "<think>\n\n", OPENED), "writes 'think>"),
    "Apriel 1.5, in the system turn": (
        "{{- '<|system|>Present your reasoning step by step.\n' -}}" + turns("<|", "", ""),
        "writes 'reasoning step by step.'.* disable reasoning as the model card describes",
    ),
    "GLM-4.1V-Thinking": (turns("<|", "", "{{- '<think>' -}}"), "thoughts.*emitted as translation"),
}
PLAIN = {
    "ChatML": turns("<|im_start|>", "", ""),
    "closed in both": turns("<|im_start|>", CLOSED, ASKED),
    "closed in the prompt only": turns("<|im_start|>", "", ASKED),
    "a channel for thoughts, closed": turns("<|", "", "{{- '<|channel>thought\\n<channel|>' -}}"),
    "closed only, in both": turns("<|", "</think>", "{{- '</think>' -}}"),
    "a switch": "{{- 'Reasoning Mode: /no_think\n/nothink' -}}" + turns("<|", "", ""),
    "white space is the model's": turns("<|", "\n ", ""),
}


@pytest.fixture
def tokenizer(gemma_like):
    return partial(with_template, gemma_like)


@pytest.mark.parametrize("family", REASONING)
def test_a_template_that_leaves_the_model_to_reason_is_refused(tokenizer, family):
    template, message = REASONING[family]
    with pytest.raises(PromptError, match=f"(?s)chat template of some/model .*{message}"):
        PromptBuilder(tokenizer(template), "English", "German", USER_ONLY)


@pytest.mark.parametrize("family", PLAIN)
def test_a_template_whose_answer_begins_at_once_is_taken(tokenizer, family):
    builder = PromptBuilder(tokenizer(PLAIN[family]), "English", "German")
    assert builder.build(["model"]).token_word


def test_an_argument_of_the_template_turns_reasoning_off(tokenizer):
    template = tokenizer(turns("<|", "", "{{- '<think>\\n' if thinking is not false -}}"))
    with pytest.raises(PromptError, match=r"with prompt.template_arguments or"):
        PromptBuilder(template, "English", "German")
    wording = PromptWording(template_arguments={"thinking": False})
    assert PromptBuilder(template, "English", "German", wording).build(["model"]).token_word


@pytest.mark.parametrize(
    "template", ["{{ messages[0].content + 1 }}", "{{ 'a' - 1 }}", "{{ none.attribute.other }}"]
)
def test_an_error_of_any_kind_inside_a_template_is_its_refusal(tokenizer, template):
    with pytest.raises(PromptError, match="chat template of some/model rejects the turns user: "):
        PromptBuilder(tokenizer(template), "English", "German", USER_ONLY)
