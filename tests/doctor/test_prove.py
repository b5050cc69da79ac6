"""Verdicts about faster modes: made, used, spoiled, ignored; a mode with a wrong row is refused."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.doctor import prove
from alignatt_agent.engine import arguments as engine_options
from alignatt_agent.engine import proof
from alignatt_agent.types import AttentionRows, Draft, EngineError

IDS = (5, 7, 9)


def answer(ids=IDS, wrong=0.0, noise=0.0):
    source = np.full((len(ids), 2, 4), 0.2, np.float32) + np.float32(noise)
    source[..., 1] = 0.3
    source[1:2, 0, 2] += wrong
    rest = np.full((len(ids), 2), 0.1, np.float32)
    return Draft(ids, False, AttentionRows(source, rest, rest))


def observed(drafts=(), best=None, ms=2.0, **changes):
    two = best or [
        {token: -0.1, 99: -0.1 - gap} for token, gap in zip(IDS, (3, 0.1, 3), strict=True)
    ]
    return prove.Observed(
        [answer(**changes), *(drafts or [answer(**changes)])], [two], ms, prove.Gap()
    )


FAR = [{token: -0.1 + 0.02} for token in IDS]


@pytest.mark.parametrize(
    ("exact", "other", "problem"),
    [
        (True, observed(), ""),
        (True, observed(noise=1e-6), ""),
        (True, observed(drafts=[answer(wrong=0.01)]), r"max \|dA\| 1.0e-02 > 1e-04"),
        (True, observed(drafts=[answer(wrong=np.nan)]), r"max \|dA\| nan"),
        (True, observed(drafts=[answer((5, 99, 9))]), "1 of 2 drafts differ"),
        (True, observed(drafts=[answer((5, 7))]), "1 of 2 drafts differ"),
        (True, observed(best=FAR), "log-probabilities differ by 2.0e-02 > 1e-02"),
        (False, observed(noise=3e-4), ""),
        (False, observed(noise=2e-3), r"mean \|dA\| 1.5e-03 > 4e-04 and > noise 0.0e\+00"),
        (False, observed(drafts=[answer(wrong=0.06)]), r"max \|dA\| 6.0e-02 > 5e-02 and > 4 "),
        (False, observed(drafts=[answer((5, 99, 9))]), ""),  # a near tie
        (False, observed(drafts=[answer((99, 7, 9))]), "1 of 2 drafts differ"),
        (False, observed(best=[{1: -0.1, 2: -3.0}] * 3), "log-probabilities differ by inf"),
        (False, observed(drafts=[answer((1,))] * 2, ids=(1,)), "no row was compared"),
    ],
)
def test_a_mode_is_refused_for_what_differs(exact, other, problem):
    found = "; ".join(prove.differences(observed(), other, exact))
    assert (problem == "") == (found == "")
    assert not problem or re.search(problem, found)


SERVED = SimpleNamespace(
    config=SimpleNamespace(dtype="torch.float32"), tokenizer=lambda: None, shutdown=lambda: None
)
"""A started engine."""


@pytest.fixture
def modes(monkeypatch, tmp_path):
    """Modes whose answers a test chooses; an exception is raised when they start."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    answers = {"eager": observed(ms=4.0), "compiled": observed(ms=2.0)}
    started = []

    def start(role, model, heads, transcribes):
        started.append("eager" if model.engine["enforce_eager"] else "compiled")
        if isinstance(answers[started[-1]], Exception):
            raise answers[started[-1]]
        return SERVED

    monkeypatch.setattr(prove, "start_model", start)
    monkeypatch.setattr(prove, "DraftEngine", lambda *_: None)
    monkeypatch.setattr(prove, "cases", lambda *_: [])
    monkeypatch.setattr(prove, "observe", lambda *_: answers[started[-1]])
    return answers


@pytest.fixture
def micro():
    return resolve(load_config("micro-low", {"models.translation.engine.enforce_eager": "auto"}))


def started_in(resolved, **changes):
    """Return how the translation engine would start."""
    model = resolved.checkpoints.translation.model_copy(update=changes)
    arguments = engine_options.engine_arguments("translation", model, resolved.heads)
    return "eager" if arguments["enforce_eager"] else "compiled"


@pytest.mark.parametrize(
    ("fault", "statuses", "mode"),
    [
        ({}, ["ok", "ok", "ok"], "compiled"),
        ({"compiled": observed(ms=9.0)}, ["ok", "ok", "ok"], "eager"),
        ({"compiled": observed(drafts=[answer(wrong=0.01)])}, ["ok", "warn", "ok"], "eager"),
        ({"compiled": EngineError("no kernel\nat all")}, ["ok", "warn", "ok"], "eager"),
        ({"eager": EngineError("no memory")}, ["FAIL"], None),
        ({"eager": observed(drafts=[answer((1, 2))])}, ["FAIL"], None),
    ],
)
def test_a_verdict_is_made_and_used(modes, micro, fault, statuses, mode, capsys):
    modes.update(fault)
    checks = list(prove.examine(micro, reference=False))
    assert [check.status for check in checks] == statuses
    assert started_in(micro) == (mode or "eager")
    unproved = "decodes eagerly: no faster mode is verified here. `alignatt prove"
    assert (unproved in capsys.readouterr().err) == (mode is None)
    if statuses[1:2] == ["warn"]:
        assert checks[1].result.startswith("refused: ")


FACTS = {
    "versions": {"vllm": "0.32.1"},
    "builds": ["of another commit"],
    "device": "cuda: NVIDIA Test, 590.1",
    "fingerprint": "123456789abc",
}


@pytest.mark.parametrize("spoil", [*FACTS, "heads", "dtype", "engine", "content", "edited"])
def test_a_verdict_that_no_longer_fits_is_ignored(
    modes, micro, spoil, monkeypatch, capsys, tmp_path
):
    list(prove.examine(micro, reference=False))
    assert started_in(micro) == "compiled"
    (file,) = tmp_path.rglob("verdicts/*.json")
    changes = {}
    if spoil in FACTS:
        monkeypatch.setattr(proof, spoil, lambda *_: FACTS[spoil])
    elif spoil == "heads":
        micro = replace(micro, head_sets={"de": micro.head_sets["it"]})
    elif spoil == "dtype":
        changes["dtype"] = "bfloat16"
    elif spoil == "engine":
        changes["engine"] = {**micro.checkpoints.translation.engine, "max_num_seqs": 3}
    elif spoil == "content":
        file.write_text("[]")
    else:
        kept = json.loads(file.read_text())
        kept["about"]["device"] = "cuda: another"
        file.write_text(json.dumps(kept))
    capsys.readouterr()
    assert started_in(micro, **changes) == "eager"
    assert "no faster mode is verified here" in capsys.readouterr().err


def test_a_changed_build_of_the_same_version_is_another(tmp_path, monkeypatch):
    monkeypatch.setattr("vllm.__path__", [str(tmp_path)])
    found = []
    for name, text in (("a.py", "x = 1"), ("__pycache__/a.pyc", "1"), ("a.py", "x = 2")):
        (tmp_path / "__pycache__").mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        found.append(proof.builds.__wrapped__())
    assert found[0] == found[1] != found[2]


def test_shares_and_context_are_no_part_of_a_verdict():
    model = ModelConfig(path="micro_models/translation")
    engine = {"gpu_memory_utilization": 0.3, "max_model_len": 2048, "enforce_eager": "auto"}
    shared = model.model_copy(update={"engine": engine})
    assert proof.subject(shared, ()) == proof.subject(model, ())
