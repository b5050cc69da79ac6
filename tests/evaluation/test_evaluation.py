"""``simulstream-eval`` from end to end on fake engines and real scorers."""

import pytest

from tests.fakes import agent as fakes


def test_dry_run_loads_nothing(call):
    status, text, _ = call("--dry-run")
    assert status == 0
    assert "no model was loaded" in text
    assert not (call.root / "out").exists()
    assert fakes.FakeAgent.runtime.starts == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agent", "alignat"), "entry point in simulstream.agents (alignatt4llm"),
        (("--agent", "pathlib.Path"), "expected an entry point in simulstream.agents"),
        (("--set", "policy"), "expected KEY=VALUE"),
        (("--set", "chunk_ms.x=1"), "chunk_ms"),
        (("--set", "policy.top_k=9"), "contains 2 heads"),
        (("--set", "keep_up=true"), "keep_up: unknown key"),
        (("--target", "it"), "no head set for en-it"),
        (("--source", "fr"), "direction en-de, not for fr-de"),
        (("--devset", "/nowhere"), "audio-segments.yaml does not exist"),
        (("--config", "low.yaml", "other/low.yaml"), "has low twice"),
        (("--comet", "xcomet-xl"), "make setup-comet"),
    ],
)
def test_nothing_starts_on_a_mistake(call, monkeypatch, arguments, message):
    monkeypatch.chdir(call.root)
    status, _, error = call(*arguments)
    assert status == 2
    assert message in error
    assert fakes.FakeAgent.runtime.starts == 0
