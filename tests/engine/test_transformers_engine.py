"""The Transformers engine, vLLM and the published class have the same output."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from alignatt_agent.types import Draft, EngineError
from alignatt_agent.types.engines import DraftRequest, Readout
from lab.reference import Reference
from lab.stand_ins import random_models
from tests.engine.batches import EMITTED, PREDICTING, TOLERANCE, check_close
from tests.fixtures.engines import HEADS, make_prompt, write_hybrid

BOTH = pytest.mark.parametrize("readout", [PREDICTING, EMITTED], ids=lambda r: r.row)

# Shorter and longer than the sliding window of 64 tokens.
PROMPTS = [make_prompt(20, 20, 3, 9), make_prompt(100, 100, 40, 30), make_prompt(180, 180, 20, 150)]


def assert_same(ours: Draft, theirs: Draft) -> None:
    outcomes = [(draft.token_ids, draft.ended, draft.steps) for draft in (ours, theirs)]
    assert outcomes[0] == outcomes[1]
    check_close(ours.rows, theirs.rows)


@BOTH
@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda p: str(len(p.token_ids)))
def test_vllm_agrees_and_is_as_sure_of_every_token(engines, reference, readout, prompt):
    asked, vllm = replace(readout, probabilities=True), engines.translation
    expected = reference.draft(DraftRequest(prompt, 10, asked))
    ids = expected.token_ids
    assert expected.rows.source.shape == (len(ids), len(HEADS), len(prompt.token_word))
    assert 0 < min(expected.probabilities) < max(expected.probabilities) <= 1
    assert_same(vllm.draft(DraftRequest(prompt, 10, readout)), expected)
    begun = vllm.draft(DraftRequest(prompt, 4, asked))
    resumed = vllm.draft(DraftRequest(prompt, 10, asked, resumed=begun))
    for draft in (vllm.draft(DraftRequest(prompt, 10, asked, expected=ids)), resumed):
        assert_same(replace(draft, steps=expected.steps), expected)
        np.testing.assert_allclose(draft.probabilities, expected.probabilities, rtol=1e-3)
    # In one pass over given tokens; the last time all of them are in the prefix cache.
    for engine in (reference, vllm, vllm):
        check_close(engine.rows(prompt, ids, readout), expected.rows)
        assert not engine.draft(DraftRequest(prompt, 4, readout)).probabilities


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory) -> tuple[str, Any]:
    folder = tmp_path_factory.mktemp("hybrid")
    return str(folder), write_hybrid(folder)


@torch.inference_mode()
def test_layers_of_a_hybrid_keep_their_numbers(hybrid):
    path, model = hybrid
    engine, prompt, readout = Reference(path), PROMPTS[0], Readout(((3, 2),), "emitted")
    ids = torch.tensor([[*prompt.token_ids, 9, 8, 7]])
    seen = []
    block = model.model.layers[3].self_attn
    block.config._attn_implementation = "eager"
    hook = block.register_forward_hook(lambda *found: seen.append(found[-1][1]))
    model(ids)
    hook.remove()
    source = slice(prompt.source_start, prompt.source_end)
    rows = engine.rows(prompt, [9, 8, 7], readout)
    np.testing.assert_allclose(rows.source[:, 0], seen[0][0, 2, -3:, source], atol=1e-5)
    assert engine.draft(DraftRequest(prompt, 4, readout)).rows.source.shape[0] == 4
    with pytest.raises(EngineError, match=r"\[\(1, 2\)\] .* only layers \[3\] have attention"):
        engine.rows(prompt, [9], Readout(((1, 2),), "emitted"))


def test_attention_matrices_without_a_layer_are_refused(hybrid):
    engine = Reference(hybrid[0])
    engine._layers = (1, 3)  # as if the configuration named other layers than those of the model
    with pytest.raises(EngineError, match="returned 1 attention matrices, .* has 2 layers"):
        engine.rows(PROMPTS[0], [9], Readout(((3, 2),), "emitted"))


def test_a_published_class_with_images_is_served_by_its_text_model(tmp_path):
    from transformers import Mistral3Config, Mistral3ForConditionalGeneration

    text = {**random_models._TINY, "model_type": "mistral"}
    sizes = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 16, "num_attention_heads": 2}
    images = {"model_type": "pixtral", "image_size": 28, "patch_size": 14}
    vision = {**images, **sizes, "num_hidden_layers": 1}
    config = Mistral3Config(text_config=text, vision_config=vision, image_token_index=5)
    torch.manual_seed(0)
    model = Mistral3ForConditionalGeneration(config).eval()
    model.save_pretrained(tmp_path)
    engine, readout = Reference(str(tmp_path)), Readout(((1, 6), (3, 3)), "predicting")
    draft = engine.draft(DraftRequest(PROMPTS[0], 6, readout))
    check_close(engine.rows(PROMPTS[0], draft.token_ids, readout), draft.rows)
    model.set_attn_implementation("eager")
    ids = torch.tensor([[*PROMPTS[0].token_ids, *draft.token_ids]])
    with torch.inference_mode():
        output = model(ids, output_attentions=True)
    assert output.logits[0, -7:-1].argmax(-1).tolist() == list(draft.token_ids)
    source = slice(PROMPTS[0].source_start, PROMPTS[0].source_end)
    expected = output.attentions[1][0, 6, -7:-1, source]
    np.testing.assert_allclose(draft.rows.source[:, 0], expected, atol=TOLERANCE)


def test_bad_requests_are_refused(reference):
    with pytest.raises(EngineError, match=r"heads \[\(6, 0\)\] were requested in 6 layers of 8"):
        reference.draft(DraftRequest(PROMPTS[0], 4, Readout(((6, 0),), "emitted")))
    with pytest.raises(EngineError, match="0 tokens"):
        reference.draft(DraftRequest(PROMPTS[0], 0, EMITTED))
    with pytest.raises(EngineError, match="got 0 tokens, 20 in total"):
        reference.rows(PROMPTS[0], [], EMITTED)
