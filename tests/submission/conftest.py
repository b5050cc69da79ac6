import contextlib
import io
import shutil
from types import SimpleNamespace

import pytest

from alignatt_agent.cli import run
from alignatt_agent.submission.bundle import Bundle
from tests.fakes import agent as fakes


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A folder with runs of two operating points, and what building a bundle of them printed."""
    folder = tmp_path_factory.mktemp("submission")
    relative = {
        "models": {
            "asr": {"path": "checkpoints/asr"},
            "aligner": {"path": "checkpoints/aligner"},
            "translation": {"path": "checkpoints/fake-mt"},
        },
        "head_sets": {"de": "./fake-en-de.json", "zh": "./fake-en-zh.json"},
    }
    for regime, hold_back_ms in (("low", 0), ("high", 1500)):
        speech = {"hold_back_ms": hold_back_ms}
        fakes.write_config(folder, f"fake-{regime}", **relative, speech=speech)
    devset = fakes.write_devset(folder / "devset", (26, 17))
    (devset / "contexts").mkdir()
    (devset / "contexts" / "talk1.txt").write_text("Wort\n")
    configs = ("--config", "fake-low.yaml", "fake-high.yaml")
    team = ("--team", "Fake Team", "--contact", "fake@example.org", "--devset", "devset")
    runs = ("--runs", "runs/fake-low", "runs/fake-high", "--target", "German", "zh")
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        agent = ("--agent", "tests.fakes.agent.FakeAgent", "--target", "de", "zh")
        shared = [*agent, "--devset", "devset"]
        served = ["--set", "speech.context=[]"]
        assert fakes.evaluate([*shared, *served, *configs, "--output", "runs"]) == 0
        assert fakes.evaluate([*shared, "--config", "fake-low.yaml", "--output", "of-talks"]) == 0
        assert run("submission", ["build", *configs, *runs, *team, "--output", "bundle"]) == 0
    return SimpleNamespace(folder=folder, printed=printed.getvalue())


@pytest.fixture
def bundle(world, tmp_path):
    """A copy that a test may spoil."""
    copy = tmp_path / "bundle"
    shutil.copytree(world.folder / "bundle", copy)
    return Bundle(copy)
