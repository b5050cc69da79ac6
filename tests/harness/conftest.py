from __future__ import annotations

import pytest
import yaml

from tests.harness import fakes, logs


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


@pytest.fixture
def call(tmp_path, capsys):
    """``simulstream-eval`` on fake engines; returns exit status, output and errors."""
    fakes.write_config(tmp_path)
    low = tmp_path / "low.yaml"
    (tmp_path / "fake.yaml").rename(low)
    content = yaml.safe_load(low.read_text())
    (tmp_path / "high.yaml").write_text(yaml.safe_dump(content | {"chunk_ms": 1500}))
    devset = fakes.write_devset(tmp_path / "devset")
    (devset / "ref" / "en.txt").write_text(logs.transcript())

    def run(*arguments, configs=("low", "high"), out="out", targets=("de", "zh")):
        status = fakes.evaluate(
            [
                *("--agent", "tests.harness.fakes.FakeAgent"),
                *("--config", *(str(tmp_path / f"{name}.yaml") for name in configs)),
                *("--target", *targets, "--devset", str(devset)),
                *("--output", str(tmp_path / out), *arguments),
            ]
        )
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    run.root = tmp_path
    run.devset = devset
    return run
