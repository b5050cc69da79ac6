"""The embedded models, one by one, are good enough to show the effect of the policy."""

import pytest

from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path
from alignatt_agent.translation.prompt import PromptBuilder
from lab.micro_world.corpus import TARGETS
from lab.micro_world.measure import measure
from lab.micro_world.measure_context import PRONOUNS
from lab.micro_world.pairs import micro_pairs
from lab.reference import Reference
from tests.fakes.models import averaged_score


@pytest.fixture(scope="module")
def figures(runtime):
    engines = runtime.load_engines(load_config("micro-low").models, ())
    return measure(engines, find_path("micro_models/devset"), 60)


def test_speech_models_are_right_where_they_can_be(figures):
    assert 0.01 <= figures["wer"] <= 0.06
    assert figures["wer_with_context"] <= figures["wer"]
    assert figures["aligner_mae_ms"] <= 80


def test_recognizer_has_the_errors_of_the_real_one_on_cut_audio(figures):
    assert 0.13 <= figures["tail_error_0_ms"] <= 0.21
    assert 0.05 <= figures["tail_error_250_ms"] <= 0.11
    assert 0.9 <= figures["false_periods_per_cut"] <= 0.97


@pytest.mark.parametrize("target", TARGETS)
def test_translation_model_is_nearly_as_good_as_a_perfect_one(figures, target):
    perfect = figures[f"two_draws_bleu_{target}"]
    assert figures[f"finishes_bleu_{target}"] >= perfect - 3
    assert figures[f"follows_bleu_{target}"] >= perfect - 3


@pytest.mark.parametrize("target", PRONOUNS)
def test_translation_model_knows_by_a_history_what_it_stands_for(figures, target):
    assert figures[f"pronouns_k2_{target}"] >= 0.85
    assert figures[f"pronouns_k0_{target}"] <= 0.7


@pytest.mark.parametrize("target", PRONOUNS)
def test_translation_model_writes_names_as_a_list_says(figures, target):
    assert figures[f"names_{target}"] >= 0.9


@pytest.fixture(scope="module")
def reference():
    return Reference(str(find_path("micro_models/gemma4")))


@pytest.mark.parametrize("target", TARGETS)
def test_shipped_head_set_beats_all_heads_on_held_out_pairs(reference, target):
    head_set = load_head_set(f"micro-en-{target}")
    builder = PromptBuilder(reference.tokenizer, "English", language(target).name)
    prompter = PairPrompter(reference.tokenizer, builder, 1024)
    drawn = micro_pairs(30, 78, language("en"), language(target)).pairs  # see `make micro-heads`
    pairs = [prompter(pair, pair.gold) for pair in drawn]
    chosen = averaged_score(reference, pairs, head_set.row, head_set.heads)
    everything = [(a, b) for a in range(head_set.num_layers) for b in range(head_set.num_heads)]
    assert chosen >= 0.85
    assert chosen > averaged_score(reference, pairs, head_set.row, everything)
