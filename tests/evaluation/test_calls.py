"""One call for several configurations and targets, interrupted and resumed."""

import json
import shutil
import time
from dataclasses import replace
from unittest.mock import Mock

import pytest
from simulstream.metrics.logger import METRICS_LOGGER

from alignatt_agent.config.resolved import Resolved
from alignatt_agent.evaluation import talk_jobs
from alignatt_agent.evaluation.plan import plan
from alignatt_agent.evaluation.stream import prepare
from lab.local_jobs import job_runner
from tests.fakes import agent as fakes


def scores(call, config, target, out="out"):
    return json.loads((call.root / out / config / target / "scores.json").read_text())


def test_several_configurations_and_targets(finished):
    status, text, error = finished.result
    assert status == 0, error
    assert finished.starts == 1
    assert len([line for line in text.splitlines() if "to spare" in line]) == 4
    command = f"--speech-processor-config {finished.root}/out/low/de/agent.yaml"
    for shown in ("BLEU", f"simulstream_inference {command}", "omnisteval longform"):
        assert shown in text
    low, high = (scores(finished, name, "de") for name in ("low", "high"))
    assert low["longyaal_cu_ms"] < high["longyaal_cu_ms"]
    assert low["signature"]["config_sha256"] != high["signature"]["config_sha256"]
    report = (finished.root / "out" / "report.md").read_text()
    for shown in ("## Lag in real time", "draft-end", "replay, ms"):
        assert shown in report
    page = (finished.root / "out" / "report.html").read_text()
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert "src=" not in page


@pytest.mark.parametrize("target", ["de", "zh"])
def test_everything_about_a_run(finished, target):
    found = scores(finished, "low", target)
    assert found["bleu"] > 99
    assert found["chrf"] > 99
    assert 0 < found["longyaal_cu_ms"] <= found["longyaal_ca_ms"] < 4000
    assert found["regime"]["name"] == "low"
    assert found["regime"]["margin_ms"] == pytest.approx(2000 - found["longyaal_cu_ms"], abs=0.1)
    assert found["transcript"]["wer"] == 0
    assert set(found["talks"]) == {"talk0", "talk1"}
    parts = found["stages"]["rtf"]
    assert set(parts) == {"asr", "aligner", "draft", "replay", "emission"}
    assert 0 < sum(parts.values()) <= found["rtf"] < 0.5
    assert sum(found["decoding"]["stops"].values()) > 3
    tokens = found["decoding"]["accepted"]
    assert tokens > len((finished.devset / "ref" / f"{target}.txt").read_text().split())
    assert found["stream_laal_cu_ms"] > 0
    signature = found["signature"]
    packages = {"alignatt_agent", "simulstream", "omnisteval", "vllm", "torch"}
    assert set(signature["versions"]) >= packages
    assert signature["versions"]["omnisteval"] == "0.1.10"
    assert signature["direction"] == f"en-{target}"
    assert signature["device"]
    assert len(signature["config_sha256"]) == 12
    assert all("sha256:" in model for model in signature["models"].values())


def test_replay_is_told_from_the_rest_of_a_draft(finished):
    stages = [scores(finished, c, t)["stages"] for c in ("low", "high") for t in ("de", "zh")]
    replay_ms = sum(item["chunks"] * item["ms_per_chunk"]["replay"] for item in stages)
    # Of a draft that began while words were timed only what is waited for counts.
    assert 0 < replay_ms <= 1.01 * finished.drafts


def test_streamed_errors_are_counted_in_a_fresh_log(call, monkeypatch):
    inner = fakes.FakeRecognizer.transcribe

    def transcribe(self, *args):
        heard = inner(self, *args)
        return replace(heard, text=heard.text.replace("word2", "bird2"))

    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", transcribe)
    log = call.root / "out" / "de" / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("of an earlier run\n")
    assert call(configs=("low",), targets=("de",))[0] == 0
    assert "earlier" not in log.read_text()
    found = json.loads((call.root / "out" / "de" / "scores.json").read_text())
    assert found["transcript"]["wer"] == pytest.approx(100 * 2 / 21, abs=0.01)
    assert found["transcript"]["wer_talk0"] == pytest.approx(100 * 1 / 13, abs=0.01)


def test_resume_skips_what_is_equal(finished, tmp_path):
    shutil.copytree(finished.root / "out", finished.root / "again")
    shutil.rmtree(finished.root / "again" / "high" / "zh")
    moved = shutil.copytree(finished.devset, tmp_path / "devset")
    status, text, _ = finished("--resume", out="again", devset=moved)
    assert status == 0
    assert text.count("already scored with the same signature") == 3
    # computation times, too
    assert scores(finished, "low", "de", "again") == scores(finished, "low", "de")
    assert scores(finished, "high", "zh", "again")["bleu"] > 99


def test_resume_starts_an_interrupted_target_from_a_fresh_log(call, monkeypatch):
    inner = fakes.FakeTranslation.draft
    calls = []

    def interrupted(self, request):
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return inner(self, request)

    with monkeypatch.context() as patch:
        patch.setattr(fakes.FakeTranslation, "draft", interrupted)
        status, _, error = call(configs=("low",))
    assert status == 130
    assert "interrupted; run it again to resume" in error
    cut = (call.root / "out" / "zh" / "metrics.jsonl").read_text()
    assert cut.count("metadata") >= 1
    assert (call.root / "out" / "de" / "run.json").is_file()
    assert not (call.root / "out" / "zh" / "run.json").exists()
    status, text, error = call("--resume", configs=("low",))
    assert status == 0, error
    assert "de: skipped; already streamed with the same signature" in text
    assert (call.root / "out" / "zh" / "metrics.jsonl").read_text().count("metadata") == 2


@pytest.mark.parametrize("change", ["setting", "audio", "reference"])
def test_resume_runs_again_when_anything_changed(finished, tmp_path, monkeypatch, change):
    out = f"changed-{change}"
    shutil.copytree(finished.root / "out" / "low", finished.root / out)
    devset = shutil.copytree(finished.devset, tmp_path / "devset")
    more = []
    if change == "setting":
        more = ["--set", "policy.border_margin=1"]
    elif change == "audio":
        fakes.write_talk(devset / "wav" / "talk1.wav", fakes.talk(8, extra_samples=2))
    elif change == "reference":
        path = devset / "ref" / "de.txt"
        path.write_text(path.read_text().replace("Wort1", "Wort eins"))
    stop = Mock(side_effect=RuntimeError("streamed again"))
    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", stop)
    status, text, error = finished(
        "--resume", *more, configs=("low",), targets=("de",), out=out, devset=devset
    )
    assert status == 1
    assert "with the same signature" not in text
    assert "streamed again" in error


def test_talks_of_workers_are_signed_with_the_models_that_those_took(call, monkeypatch):
    """The GPU of a worker may hold a smaller recognizer than is configured."""
    config, out, names = str(call.root / "low.yaml"), call.root / "out", iter("ab")
    agent = "tests.fakes.agent.FakeAgent"
    (run,) = runs = plan(agent, [config], {}, None, ["de"], call.devset, out)
    asked = dict(run.signature["models"])
    monkeypatch.setattr(Resolved, "identities", lambda _: {**asked, "asr": next(names)})
    prepare(run)
    with job_runner(None, 2, fakes.FakeAgent.shutdown) as runner:
        talk_jobs.stream_talks(runner, runs)
    assert json.loads(run.files.finished.read_text())["models"] == {**asked, "asr": "a; b"}
    assert run.streamed
    run.signature["models"]["translation"] = "of other weights"
    assert not run.streamed


def test_a_failing_target_does_not_lose_the_finished_ones(call, monkeypatch):
    inner = fakes.FakeTranslation.draft

    def fail(self, request):
        if "Chinese" in self.tokenizer.decode(request.prompt.token_ids):
            raise RuntimeError("the device is gone")
        return inner(self, request)

    monkeypatch.setattr(fakes.FakeTranslation, "draft", fail)
    status, text, error = call(configs=("low",))
    assert status == 1
    assert "the device is gone" in error
    assert "the device is gone" in (call.root / "out" / "zh" / "run.log").read_text()
    assert "100.00" in text
    assert not (call.root / "out" / "zh" / "scores.json").exists()


def test_the_logs_of_all_targets_are_what_the_harness_wrote(call, monkeypatch):
    written, transcribed = [], []
    info, inner = METRICS_LOGGER.info, fakes.FakeRecognizer.transcribe

    def transcribe(self, *given):
        transcribed.append(given[0].tobytes())
        time.sleep(0.002)
        return inner(self, *given)

    monkeypatch.setattr(METRICS_LOGGER, "info", lambda text: written.append(text) or info(text))
    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", transcribe)
    assert call(configs=("low",))[0] == 0
    logs = [(call.root / "out" / code / "metrics.jsonl").read_text() for code in ("de", "zh")]
    assert "".join(logs) == "".join(f"{text}\n" for text in written)
    assert transcribed == 2 * transcribed[: len(transcribed) // 2]
    assert len(transcribed) > 10
