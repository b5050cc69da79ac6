"""A log is what the harness wrote, and every target is a run of its own."""

from __future__ import annotations

import time

from simulstream.metrics.logger import METRICS_LOGGER

from tests.fakes import agent as fakes


def test_the_logs_of_three_targets_are_what_the_harness_wrote(call, monkeypatch):
    written, transcribed = [], []
    info, inner = METRICS_LOGGER.info, fakes.FakeRecognizer.transcribe

    def transcribe(self, *given):
        transcribed.append(given[0].tobytes())
        time.sleep(0.002)
        return inner(self, *given)

    monkeypatch.setattr(METRICS_LOGGER, "info", lambda text: written.append(text) or info(text))
    monkeypatch.setattr(fakes.FakeRecognizer, "transcribe", transcribe)
    targets = call.with_italian()
    assert call(configs=("low",), targets=targets)[0] == 0
    assert len(targets) == 3
    logs = [(call.root / "out" / code / "metrics.jsonl").read_text() for code in targets]
    assert "".join(logs) == "".join(f"{text}\n" for text in written)
    assert transcribed == 3 * transcribed[: len(transcribed) // 3]
    assert len(transcribed) > 15
