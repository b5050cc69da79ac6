"""``alignatt translate`` on fake engines."""

import io
import signal
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from alignatt_agent import cli
from alignatt_agent.live import cli as translate
from tests.fakes import agent as fakes

WORDS = 13


@pytest.fixture(autouse=True)
def _signals():
    """The command takes over signals, which processes started later would inherit."""
    before = {number: signal.getsignal(number) for number in translate._TERMINATION_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def engines(monkeypatch):
    found = fakes.FakeEngines()
    monkeypatch.setattr(translate, "Runtime", lambda: fakes.FakeRuntime(found))
    return found


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, engines):
    """Run the command on a fake talk; returns status, output and errors."""
    monkeypatch.chdir(tmp_path)
    config = fakes.write_config(tmp_path)
    fakes.write_talk(tmp_path / "talk.wav", fakes.talk(WORDS))

    def call(*given, source="talk.wav", to=("de",), last=False):
        argv = ["translate", source, "--target", *to, "--config", str(config), *map(str, given)]
        if last:
            argv.insert(len(to) + 2, argv.pop(1))
        status = cli.main(argv)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


def levels(words):
    """A talk as samples."""
    return np.round(fakes.talk(words) * 32768).astype(np.int16)


def standard_input(monkeypatch, data):
    """Pipe ``data`` in; ``None`` for a terminal."""
    given = SimpleNamespace(buffer=io.BytesIO(data or b""), isatty=lambda: data is None)
    monkeypatch.setattr(sys, "stdin", given)
