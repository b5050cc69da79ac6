"""Real configurations on stand-ins, on real engines: ``alignatt rehearse``, two of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.checks import published_layouts
from alignatt_agent.checks.rehearsal import rehearse
from alignatt_agent.checks.rehearse import run, talk
from alignatt_agent.config.agent_config import load_config
from tests.engine.whisper_model import write_whisper

GEMMA = load_config("default-low").models.translation
OTHER_RECOGNISERS = {
    "whisper": {
        "models.asr.path": "openai/whisper-large-v3",
        "models.asr.revision": None,
        "models.asr.engine.max_model_len": 448,
    },
    "gemma4-audio": {"models.asr.path": GEMMA.path, "models.asr.revision": GEMMA.revision},
}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    names = ["milmmt46-low", "hy-mt-1.8b-low"]
    return list(run(names, talk(3.0), tmp_path_factory.mktemp("rehearsal")))


def test_two_configurations_run_on_published_shapes(rehearsed):
    assert [item.problems for item in rehearsed] == [[]] * len(rehearsed)
    found = [(item.name, item.target) for item in rehearsed]
    assert found == [
        *(("milmmt46-low", target) for target in ("de", "it", "zh")),
        *(("hy-mt-1.8b-low", target) for target in ("de", "zh")),
    ]
    assert all(item.tokens for item in rehearsed)


def test_rows_are_read_and_exact_where_there_is_a_head_set(rehearsed):
    for item in rehearsed:
        gated = item.name == "milmmt46-low"
        assert (item.drafts_with_rows > 0) == gated
        assert (item.largest is not None and item.largest <= 1e-4) == gated


@pytest.mark.parametrize("family", OTHER_RECOGNISERS)
def test_what_other_recognisers_hear_is_timed_translated_and_emitted(family, tmp_path):
    """Random ones hear no speech; it goes through the cascade all the same."""
    overrides = {"speech.recognizer": family, **OTHER_RECOGNISERS[family]}
    written = load_config("default-low", overrides)
    written = written.model_copy(update={"head_sets": {"de": written.head_sets["de"]}})
    folder = tmp_path / Path(written.models.asr.path).name  # where the rehearsal looks for it
    if family == "whisper":
        write_whisper(folder)
    else:
        published_layouts.write(GEMMA.path, folder)
    say_little(folder)
    try:
        (found,) = rehearse(family, written, talk(3.0), tmp_path)
    finally:
        AlignAttAgent.shutdown()
    assert found.problems == []
    assert found.tokens > 0
    assert found.drafts_with_rows > 0
    assert found.largest <= 1e-4


def say_little(folder):
    """Make a random model end its answers soon: one that meets its bound is not believed."""
    stops = json.loads((folder / "generation_config.json").read_text())["eos_token_id"]
    weights = load_file(folder / "model.safetensors")
    (name,) = (
        key
        for key in weights
        if key.endswith(("decoder.embed_tokens.weight", "language_model.embed_tokens.weight"))
    )
    weights[name][stops] *= 4.0  # the same matrix scores what comes next
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
