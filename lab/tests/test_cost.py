"""Costs of a chunk, computed from a run's requests to the models and from their sizes."""

import pytest

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.doctor.cli import PREDICTIONS
from lab.cost import DEVICES, WORK, main, rtf

CONFIG = load_config("default-low")


def test_translation_is_eager_unless_the_configuration_says_otherwise():
    device = DEVICES["h200"]
    graphs = load_config("default-low", {"models.translation.engine": {"enforce_eager": False}})
    saved = WORK.drafted * WORK.draft_steps * 42 * (device.layer_s - device.graph_s) / WORK.chunk_s
    assert rtf(CONFIG, WORK, device) - rtf(graphs, WORK, device) == pytest.approx(saved)


def test_the_table_of_the_doctor_is_what_is_computed(capsys):
    assert main([]) == 0
    assert PREDICTIONS.read_text(encoding="utf-8") == capsys.readouterr().out
