"""A new policy is one file in ``policy/`` and one block of the grid."""

import shutil
import subprocess
import sys

from alignatt_agent.config.resources import CHECKOUT_ROOT

POLICY = '''
from typing import Literal

from alignatt_agent.policy.base import Policy
from alignatt_agent.types import NO_CONTEXT, Decision


class EveryOther(Policy):
    """Accepts a draft of an even number of tokens."""

    name: Literal["every_other"] = "every_other"
    step: int = 2

    def decide(self, draft, frontier, context=NO_CONTEXT):
        whole = len(draft.token_ids) % self.step == 0
        return Decision(len(draft.token_ids) * whole, "waits for one more token")
'''

BLOCK = """
  every_other:
    name: "every_other-s{step}-c{chunk}"
    label: "every {step}, chunk {chunk}"
    settings: {policy.name: every_other}
    quick:
      - {step: [2, 3], chunk: [500]}
    full:
      - {step: [2], chunk: [500]}

"""

USE = """
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.resolved import resolve
from alignatt_agent.types import Draft
from lab.curves.grid import curve_names, sweep
from lab.curves.plots import style

bases = {name: load_config(f"micro-{name}") for name in ("low", "high")}
point = next(point for point in sweep("quick") if point.name == "every_other-s3-c500")
config = point.config(bases)
policy = config.policy_for("zh")
assert policy == config.policy and (policy.name, policy.step, policy.top_k) == ("every_other", 3, 8)
assert policy.decide(Draft((1, 2, 3), True), 1).accepted == 3
assert config.model_copy(update={"head_sets": {}}).policy.reads == "tokens"
assert load_config("micro-high", {"policy": {"name": "every_other"}}).policy_for("zh").step == 2
assert curve_names()[-1] == "every_other"
assert style("every_other") not in [style(name) for name in curve_names()[:-1]]
"""


def test_a_policy_is_one_file_and_one_block_of_the_grid(tmp_path):
    for folder in ("alignatt_agent", "lab"):
        shutil.copytree(CHECKOUT_ROOT / folder, tmp_path / folder)
    for folder in ("agent_configs", "head_sets"):
        (tmp_path / folder).symlink_to(CHECKOUT_ROOT / folder)
    (tmp_path / "alignatt_agent" / "policy" / "every_other.py").write_text(POLICY)
    grid = tmp_path / "lab" / "curves" / "grid.yaml"
    before, mark, after = grid.read_text().partition("# The low operating point with one setting")
    grid.write_text(before + BLOCK + mark + after)
    found = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
