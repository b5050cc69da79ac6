"""The bench on whole streams: early stop and other streams may not change what is emitted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from alignatt_agent import cli
from alignatt_agent.checks import bench_streams
from alignatt_agent.types import AttentionRows
from tests.harness import fakes
from tests.pure.fakes import StoppingEngine


class Counting(fakes.FakeTranslation):
    """Takes a step a token."""

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None):
        draft = super().draft(prompt, max_tokens, readout)
        return replace(draft, steps=len(draft.token_ids))


class Hasty(StoppingEngine):
    """Stops before the token that the gate rejects."""

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None):
        draft = super().draft(prompt, max_tokens, readout, gate, resumed)
        if not draft.cut:
            return draft
        rows = AttentionRows(
            *(x[:1] for x in (draft.rows.source, draft.rows.prompt, draft.rows.suffix))
        )
        return replace(draft, token_ids=draft.token_ids[:1], rows=rows, cut=False)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """``alignatt bench`` without the engine's part, on fake engines."""
    engines, ended = fakes.FakeEngines(), []
    engines.translation = StoppingEngine(Counting(engines.tokenizer))
    monkeypatch.setattr(bench_streams, "load_engines", lambda *_: engines)
    monkeypatch.setattr(bench_streams, "shutdown", lambda: ended.append(True))
    policy = {"top_k": 2, "normalise": "none", "median_width": 1, "border_margin": 0, "n": 1}
    config = fakes.write_config(tmp_path, policy=policy, speech={"hold_back_ms": 600})
    devset = fakes.write_devset(tmp_path / "devset")

    def run(*options):
        words = ["bench", "--output", tmp_path / "out", "--only", "early-stop", "streams"]
        words += ["--config", config, "--target", "de", "--devset", devset, *options]
        status = cli.main([str(word) for word in words])
        assert ended.pop()
        found = [tmp_path / "out" / f"{name}.json" for name in ("early_stop", "streams")]
        return status, *(json.loads(path.read_text()) for path in found if path.is_file())

    run.engines = engines
    return run


def test_early_stop_saves_steps_and_streams_do_not_disturb_each_other(bench, capsys):
    status, rows, streams = bench("--streams", "5", "--seconds", "3")
    assert status == 0
    (row,) = rows
    assert (row["target"], row["drafts_that_agree"], row["identical"]) == ("de", 1, True)
    assert row["tokens"] > 20
    assert row["steps_per_token_early"] < row["steps_per_token_whole"]
    assert (streams["streams"], streams["identical"]) == (5, 5)
    assert streams["units"] > 10
    out = capsys.readouterr().out
    assert "steps a token" in out
    assert "seconds_together" in out


def test_one_ear_says_what_streams_of_each_language_say(bench, tmp_path):
    bench("--only", "booth", "--target", "de", "zh")
    found = json.loads((tmp_path / "out" / "booth.json").read_text())
    assert (found["targets"], found["identical"]) == (2, True)
    assert found["units"] > 30
    assert 0 < found["share_of_stages"] < 1


def test_an_early_stop_that_changes_what_is_emitted_fails(bench):
    bench.engines.translation = Hasty(bench.engines.translation.inner)
    status, rows, _ = bench("--quick")
    assert status == 1
    assert not rows[0]["identical"]


def test_configurations_of_other_models_are_refused(tmp_path, capsys):
    first, second = (tmp_path / name for name in "ab")
    configs = [str(fakes.write_config(folder)) for folder in (first, second) if not folder.mkdir()]
    words = ["bench", "--output", str(tmp_path), "--only", "streams", "--target", "de"]
    assert cli.main([*words, "--config", *configs]) == 2
    assert "name different models; measure them one by one" in capsys.readouterr().err
