"""The bench on whole streams: early stop and other streams may not change what is emitted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.types import AttentionRows
from lab.bench import streams as bench_streams
from lab.bench.__main__ import main
from lab.bench.schedules import schedules
from tests.fakes import agent as fakes
from tests.fakes.models import StoppingEngine


class Counting(fakes.FakeTranslation):
    """Takes a step a token that is not expected."""

    def draft(self, prompt, max_tokens, readout=None, gate=None, resumed=None, expected=()):
        draft = super().draft(prompt, max_tokens, readout)
        known = sum(a == b for a, b in zip(draft.token_ids, expected, strict=False))
        return replace(draft, steps=1 + len(draft.token_ids) - known)


class Listener(fakes.FakeRecognizer):
    """Takes a step a character that is not expected."""

    def transcribe(self, audio, language, context="", expected=""):
        heard = super().transcribe(audio, language, context)
        return replace(heard, steps=1 + len(heard.text) - len(expected))


class Hasty(StoppingEngine):
    """Stops before the token that the gate rejects."""

    def draft(self, *given, **named):
        draft = super().draft(*given, **named)
        if not draft.cut:
            return draft
        kept = (x[:1] for x in (draft.rows.source, draft.rows.prompt, draft.rows.suffix))
        return replace(draft, token_ids=draft.token_ids[:1], rows=AttentionRows(*kept), cut=False)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """``python -m lab.bench`` without the engine's part, on fake engines."""
    engines, ended = fakes.FakeEngines(), []
    engines.asr = Listener()
    engines.translation = StoppingEngine(Counting(engines.tokenizer))
    monkeypatch.setattr(bench_streams, "load_engines", lambda *_: engines)
    monkeypatch.setattr(bench_streams, "shutdown", lambda: ended.append(True))
    policy = {"top_k": 2, "normalize": "none", "median_width": 1, "border_margin": 0, "drafts": 1}
    config = fakes.write_config(tmp_path, policy=policy, speech={"hold_back_ms": 600})
    devset = fakes.write_devset(tmp_path / "devset")

    def run(*options):
        words = ["--output", tmp_path / "out", "--only", "early-stop", "streams"]
        words += ["--config", config, "--target", "de", "--devset", devset, *options]
        status = main([str(word) for word in words])
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
    assert row["steps_per_token_verified"] < row["steps_per_token_early"]
    assert row["steps_per_transcript_verified"] < row["steps_per_transcript"]
    (row,) = streams["rows"]
    assert (row["streams"], row["identical"], row["audio_s"]) == (5, 5, 15.0)
    assert row["units"] > 10
    assert "lag_p95_s" not in row
    out = capsys.readouterr().out
    assert "steps a token" in out
    assert "audio_s_per_s" in out


def test_paced_streams_say_how_many_are_kept_up_with(bench, capsys, tmp_path):
    status, _, streams = bench("--streams", "3", "1", "--seconds", "1.5", "--paced")
    assert status == 0
    assert [(row["streams"], row["identical"]) for row in streams["rows"]] == [(1, 1), (3, 3)]
    for row in streams["rows"]:
        assert 0 <= row["lag_p50_s"] <= row["lag_p95_s"]
        assert row["seconds"] >= 1.5
    assert f"kept up with: {streams['kept_up_with']} streams" in capsys.readouterr().out
    assert (tmp_path / "out" / "streams.png").read_bytes().startswith(b"\x89PNG")


def test_one_stream_of_two_targets_emits_what_two_streams_emit(bench, tmp_path):
    bench("--only", "targets", "--target", "de", "zh")
    found = json.loads((tmp_path / "out" / "targets.json").read_text())
    assert (found["targets"], found["identical"]) == (2, True)
    assert found["units"] > 30
    assert 0 < found["share_of_stages"] < 1


def test_an_early_stop_that_changes_what_is_emitted_fails(bench):
    bench.engines.translation = Hasty(bench.engines.translation.inner)
    status, rows, _ = bench("--quick")
    assert status == 1
    assert not rows[0]["identical"]


def test_configurations_of_other_models_are_refused(tmp_path):
    first, second = (tmp_path / name for name in "ab")
    configs = [str(fakes.write_config(folder)) for folder in (first, second) if not folder.mkdir()]
    words = ["--output", str(tmp_path), "--only", "streams", "--target", "de"]
    with pytest.raises(ConfigError, match="name different models; measure them one by one"):
        main([*words, "--config", *configs])


def test_every_schedule_emits_everything_and_stages_in_turn_fall_behind(tmp_path):
    policy = {"top_k": 2, "normalize": "none", "median_width": 1, "border_margin": 0, "drafts": 1}
    path = fakes.write_config(tmp_path, policy=policy, chunk_ms=100)
    resolved = resolve(load_config(str(path)), ["de"])
    rows = [*schedules(resolved, fakes.FakeEngines(), (fakes.talk(6), "de"), [1.5])]
    assert [(row["schedule"], row["units"]) for row in rows] == [
        ("sync", 6), ("overlap", 6), ("async", 6),
    ]  # fmt: skip
    assert all(0 < row["lag_p50_s"] <= row["lag_p95_s"] for row in rows)
    assert rows[0]["rtf_in_turn"] > 1
    assert rows[0]["growth_s"] > 0
