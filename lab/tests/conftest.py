"""Trainings change how this process computes; later tests must not be affected."""

import pytest
import torch


@pytest.fixture(autouse=True)
def denormals_count_again():
    """Undo what ``training.seed_everything`` sets: Hypothesis refuses to draw floats without."""
    yield
    torch.set_flush_denormal(False)
