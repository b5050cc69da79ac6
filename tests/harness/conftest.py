from __future__ import annotations

import contextlib
import dataclasses
import io
import os

import pytest
import yaml

from tests.harness import fakes, logs
from tests.harness.browser import Browser
from tests.harness.live import FakeLoader, Running, make_service
from tests.harness.pages import open_page

PAGE_WORDS = 9
"""Words of the talk that the browser's microphone hears."""


def _forget_agents():
    fakes.FakeAgent.failures.clear()
    fakes.FakeAgent._engines.clear()
    fakes.FakeAgent.starts = 0
    fakes.TracingAgent.calls.clear()


@pytest.fixture(autouse=True)
def _fresh_agent():
    yield
    _forget_agents()


@pytest.fixture
def config(tmp_path):
    """What Simulstream makes of a valid YAML for the fake agent."""
    from simulstream.config import yaml_config

    return yaml_config(str(fakes.write_config(tmp_path)))


@pytest.fixture
def agent(config):
    """A loaded agent that has not seen a stream."""
    fakes.FakeAgent.load_model(config)
    return fakes.FakeAgent(config)


@pytest.fixture
def engines(agent):
    """The fake engines of ``agent``."""
    return next(iter(type(agent)._engines.values()))


class Call:
    """``simulstream-eval`` on fake engines; returns exit status, output and errors."""

    def __init__(self, root):
        self.root = root
        fakes.write_config(root)
        (root / "fake.yaml").rename(root / "low.yaml")
        content = yaml.safe_load((root / "low.yaml").read_text())
        (root / "high.yaml").write_text(yaml.safe_dump(content | {"chunk_ms": 1500}))
        self.devset = fakes.write_devset(root / "devset")
        (self.devset / "ref" / "en.txt").write_text(logs.transcript())

    def __call__(
        self, *arguments, configs=("low", "high"), out="out", targets=("de", "zh"), devset=None
    ):
        given = [
            *("--agent", "tests.harness.fakes.FakeAgent"),
            *("--config", *(self.root / f"{name}.yaml" for name in configs)),
            *("--target", *targets, "--devset", devset or self.devset),
            *("--output", self.root / out, *arguments),
        ]
        output, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            status = fakes.evaluate([str(item) for item in given])
        return status, output.getvalue(), errors.getvalue()


@pytest.fixture
def call(tmp_path):
    return Call(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A call with two configurations and two targets, scored; what it returned is ``result``.

    Its folders are shared: tests copy them, into ``out=`` names of their own. ``drafts`` counts the
    drafts, each of which spent a millisecond on replay.
    """
    found = Call(tmp_path_factory.mktemp("finished"))
    found.drafts = 0
    inner = fakes.FakeTranslation.draft

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        found.drafts += 1
        before = resumed.replay_s if resumed else 0.0
        drafted = inner(self, prompt, max_tokens, readout, gate, resumed)
        return dataclasses.replace(drafted, replay_s=before + 0.001)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fakes.FakeTranslation, "draft", draft)
        found.result = found("--jobs", str(os.cpu_count()))
    found.starts = fakes.FakeAgent.starts
    _forget_agents()
    return found


# ---------------------------------------------------------------------- pages in a browser
@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("audio") / "talk.wav"
    fakes.write_talk(path, fakes.talk(PAGE_WORDS))
    return path


@pytest.fixture(scope="module")
def browser(recording):
    browser = Browser(microphone=recording)
    yield browser
    browser.close()


@pytest.fixture
def loader():
    return FakeLoader()


@pytest.fixture
def page_server(tmp_path, loader):
    """A server whose words are certain after 600 ms."""
    with Running(make_service(tmp_path, loader, hold_back_ms=600)) as server:
        yield server


@pytest.fixture
def page(browser, page_server):
    """The speaker's page of that server."""
    yield open_page(browser, page_server.address)
    browser.close_pages()
