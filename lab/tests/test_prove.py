"""The doctor on real engines: good reports, and modes proved, used, or refused for a wrong row."""

import re
from dataclasses import replace

import numpy as np

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.doctor import cli as doctor
from alignatt_agent.doctor import prove
from alignatt_agent.engine import drafts, proof
from alignatt_agent.engine.start import start_model


def test_compilation_is_proved_used_and_refused_with_a_wrong_row(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    modes = {**proof.CPU_MODES, "spoiled": proof.CPU_MODES["compiled"]}
    monkeypatch.setattr(proof, "CPU_MODES", modes)
    monkeypatch.setattr(proof, "MODES", modes)
    started, fetch = [], drafts.fetch

    def counted(*given, **more):
        started.append(start_model(*given, **more))
        return started[-1]

    def spoiled(model, key):
        found = fetch(model, key)
        if len(started) < len(modes) or found.rows is None:
            return found
        wrong = np.zeros_like(found.rows)
        wrong[2:3, 0, -1] = 0.01
        return replace(found, rows=found.rows + wrong)

    monkeypatch.setattr(prove, "start_model", counted)
    monkeypatch.setattr(drafts, "fetch", spoiled)
    resolved = resolve(
        load_config("micro-low", {"models.translation.engine.enforce_eager": "auto"})
    )
    checks = {check.name: check for check in prove.examine(resolved)}
    statuses = {name: check.status for name, check in checks.items()}
    assert statuses.pop("mode: spoiled") == "warn", checks
    assert set(statuses.values()) == {"ok"}, checks
    assert "max |dA| 1.0e-02 > 1e-04" in checks["mode: spoiled"].result
    model = resolved.checkpoints.translation
    mode = proof.fastest(proof.subject(model, resolved.heads))
    served = start_model("translation", model, resolved.heads)
    try:
        assert served.config.enforce_eager == (mode == "eager")
    finally:
        served.shutdown()


def test_the_embedded_models_are_well(capsys):
    """A real run: three engines, rows against Transformers, noise through the cascade."""
    status = doctor.main(["--config", "micro-low"])
    out = capsys.readouterr().out
    assert status == 0, out
    for name in ("asr engine", "aligner engine", "translation engine", "key layout",
                 "rows against Transformers", "same tokens with rows", "early stop",
                 "end to end"):  # fmt: skip
        assert f"\nok    {name} " in out, out
    assert re.search("\nok    key layout .*CPUAttentionBackendImpl", out)
    assert re.search("\nok    same tokens with rows +6 of 6 drafts are equal\n", out)
    assert out.rstrip().endswith("no check failed")
    assert re.search("\n(ok   |warn ) speed ", out)
