from __future__ import annotations

import pytest

from tests.harness import fakes


@pytest.fixture(autouse=True)
def _fresh_agent():
    yield
    fakes.FakeAgent.failures.clear()
    fakes.FakeAgent._engines.clear()
    fakes.FakeAgent.starts = 0
    fakes.TracingAgent.calls.clear()


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
