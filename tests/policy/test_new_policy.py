"""The recipe of docs/architecture.md: a new policy is one file and one entry of ``POLICIES``."""

import shutil
import subprocess
import sys

from alignatt_agent.config.resources import CHECKOUT_ROOT

POLICY = '''
from typing import ClassVar, Literal

from pydantic import Field

from alignatt_agent.policy.base import Policy
from alignatt_agent.types import NO_CONTEXT, Decision, StopReason


class Glance(Policy):
    """Accepts tokens until one gives a source token less than so much attention.

    Attributes:
        least: the attention.
    """

    reads: ClassVar = "rows"
    reasons: ClassVar = {"glance": ("“{word}” only glances at “{unsure}”", "a glance")}
    name: Literal["glance"] = "glance"
    least: float = Field(default=0.5, ge=0, examples=[0.2, 0.5])

    def decide(self, draft, frontier, context=NO_CONTEXT):
        scan = self.scan(frontier)
        for accepted, row in enumerate(draft.rows.source):
            if reason := scan(row):
                return Decision(accepted, reason, closed=True)
        return Decision(len(draft.token_ids), StopReason.DRAFT_END)

    def scan(self, frontier):
        return lambda row: "glance" if row.max() < self.least else None
'''

USE = """
import re
from dataclasses import replace
from pathlib import Path

import pytest
from lab.curves.grid import curve_names, sweep
from lab.curves.plots import style
from lab.results_pages.__main__ import MODELS, pages

from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.policy import POLICIES
from alignatt_agent.types import Prompt
from alignatt_agent.types.engines import DraftRequest
from tests.fakes.engine import random_engine
from tests.fakes.models import READOUT
from tests.serve.live import client_of

# Configuration, and what a mistake in it is told.
config = load_config("micro-high", {"policy": {"name": "glance", "least": 0.3}})
policy = config.policy_for("zh")
assert policy == config.policy == POLICIES["glance"](least=0.3)
with pytest.raises(ConfigError, match="policy.least: .*equal to 0 .got -1.*"):
    load_config("micro-high", {"policy": {"name": "glance", "least": -1}})
with pytest.raises(ConfigError, match=r"policy.last: .*'least'. .* keys are name, top_k, least"):
    load_config("micro-high", {"policy": {"name": "glance", "last": 1}})

# The engine ends a draft where the policy rejects a token, and both decide alike.
engine, prompt = random_engine(7, vocabulary=40), Prompt((1, 2, 3, 4), 1, (0, 1))
request = DraftRequest(prompt, 12, READOUT)
whole = engine.draft(request)
cut = engine.draft(replace(request, gate=policy.gate(1)))
decision = policy.decide(whole, 1)
assert decision == policy.decide(cut, 1)
assert (decision.reason, decision.closed, cut.cut) == ("glance", True, True)
assert len(cut.token_ids) == decision.accepted + 1 < len(whole.token_ids)

# The page has the text, the documents lack a row until `make results`, the curves have points.
with client_of(Path()) as client:
    assert "only glances at" in client.get("/pages/policies.js").text
row = re.search(r"\\*\\*`glance`.*\\n.*`least` .*", pages()[MODELS])
assert "less than so much attention. Reads rows." in row[0] and "`0.5`" in row[0]
assert "glance" not in MODELS.read_text()
found = {point.name: point for point in sweep("quick") if point.curve == "glance"}
assert list(found) == ["glance-c500-least0.2", "glance-c500-least0.5"]
bases = {name: load_config(f"micro-{name}") for name in ("low", "high")}
point = found["glance-c500-least0.2"].config(bases)
assert (point.policy, point.speech.hold_back_ms) == (POLICIES["glance"](least=0.2), 0)
assert style("glance") not in [style(name) for name in curve_names() if name != "glance"]
"""


def test_a_policy_is_one_file_and_one_entry(tmp_path):
    for folder in ("alignatt_agent", "lab", "docs"):
        shutil.copytree(CHECKOUT_ROOT / folder, tmp_path / folder)
    for name in ("agent_configs", "head_sets", "tests", "README.md"):
        (tmp_path / name).symlink_to(CHECKOUT_ROOT / name)
    folder = tmp_path / "alignatt_agent/policy"
    (folder / "glance.py").write_text(POLICY)
    listed = (folder / "__init__.py").read_text()
    before, mark, after = listed.partition('    "none": EmitAll,\n')
    line = "from alignatt_agent.policy.glance import Glance\n"
    before = before.replace("\nPOLICIES", f"{line}\nPOLICIES")
    (folder / "__init__.py").write_text(f'{before}{mark}    "glance": Glance,\n{after}')
    found = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
