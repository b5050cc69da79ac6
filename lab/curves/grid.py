"""The runs of a sweep, as listed in ``grid.yaml``: policies with parameters, and ablations."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from alignatt_agent.config.agent_config import AgentConfig, ConfigError, set_key
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.resources import find_resource
from alignatt_agent.policy import POLICIES

Settings = dict[str, Any]
Size = Literal["quick", "full", "real", "real-500"]
SIZES: tuple[Size, ...] = get_args(Size)

ALIGNATT = "alignatt"
SINGLE = "alignatt, one draft"
ORACLE = "oracle"
HINDSIGHT = "best choice in hindsight"
_ABLATION = "ablation"
_OTHER_ROW = {"predicting": "emitted", "emitted": "predicting"}
OPERATING = ("low", "high")

WHOLE: Settings = {"debug.early_stop": False, "debug.draft_ahead": False}
"""Settings of every run. Drafts are whole, so that runs can share them and none is made twice."""


@dataclass(frozen=True, slots=True)
class Point:
    """One run of a sweep: a point of ``curve``, ``settings`` on top of operating point ``base``."""

    name: str
    curve: str
    label: str
    base: str = "low"
    settings: Settings = field(default_factory=dict, hash=False)

    def config(self, bases: Mapping[str, AgentConfig]) -> AgentConfig:
        """Return the configuration; drafts are whole, so that runs can share them.

        Its settings apply to every target and override those of the configuration.
        """
        raw = bases[self.base].model_dump()
        for key, value in {**self.settings, **WHOLE}.items():
            set_key(raw, key, value)
            # A target's value of this key would take precedence over the point's value.
            for target_settings in raw["targets"].values():
                _remove_key(target_settings, key)
        return AgentConfig.parse(raw, self.name)


def _remove_key(settings: Settings, dotted: str) -> None:
    """Remove a dotted key from nested settings, which may lack it."""
    *sections, name = dotted.split(".")
    for section in sections:
        settings = settings.get(section, {})
    settings.pop(name, None)


@cache
def _grid() -> dict[str, Any]:
    """Read ``grid.yaml`` and add a curve for each policy that it does not list."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    grid = dict(yaml.safe_load(text))
    listed = {form["settings"]["policy.name"] for form in grid["curves"].values()}
    for policy in POLICIES:
        if policy not in listed:
            grid["curves"][policy] = _form_of_examples(policy, grid["others"])
    return grid


def _form_of_examples(policy: str, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return a curve's part of the grid, with the ``examples`` of the policy's keys as values."""
    fields = POLICIES[policy].model_fields
    examples = {key: field.examples for key, field in fields.items() if field.examples}
    # The braces that stay in the texts are filled in with the values of a point.
    name_parts = [f"{policy}-c{{chunk}}"]
    label_parts = []
    for key in examples:
        name_parts.append(f"{key}{{{key}}}")
        label_parts.append(f"{key} {{{key}}}")
    label_parts.append("chunk {chunk}")
    form: dict[str, Any] = {
        "name": "-".join(name_parts),
        "label": ", ".join(label_parts),
        "settings": others["settings"] | {"policy.name": policy},
    }
    for size in SIZES:
        shared_values = others.get(size)
        if shared_values:
            form[size] = [examples | shared_values]
    return form


def curve_names() -> list[str]:
    """Return every curve, in the order of legends and tables."""
    return [*_grid()["curves"], HINDSIGHT]


def sweep(size: Size, only: Sequence[str] = ()) -> list[Point]:
    """Return the two operating points and the grid of every policy, or ``only`` some points.

    Raises:
        ConfigError: ``only`` names a point that the grid lacks.
    """
    operating_points = []
    for base in OPERATING:
        point = Point(name=f"operating-{base}", curve=ALIGNATT, label=base, base=base)
        operating_points.append(point)
    grid_points: list[Point] = []
    for curve, form in _grid()["curves"].items():
        for block in form.get(size, ()):
            grid_points += _points_of_block(curve, form, block)
    if not only:
        return operating_points + grid_points

    names = {point.name for point in operating_points + grid_points}
    unknown = sorted(set(only) - names)
    if unknown:
        choices = ", ".join(point.name for point in grid_points)
        raise ConfigError(f"no point {', '.join(unknown)} in the {size} grid, which has {choices}")
    return operating_points + [point for point in grid_points if point.name in only]


def _points_of_block(
    curve: str, form: Mapping[str, Any], block: Mapping[str, Sequence[Any]]
) -> Iterator[Point]:
    """Yield a point for each combination of a block's values."""
    setting_by_key = _grid()["keys"]
    for combination in itertools.product(*block.values()):
        values = dict(zip(block, combination, strict=True))
        settings = dict(form["settings"])
        for key, value in values.items():
            setting = setting_by_key.get(key, f"policy.{key}")
            settings[setting] = value
        yield Point(
            name=form["name"].format(**values),
            curve=curve,
            label=form["label"].format(**values),
            settings=settings,
        )


def ablations(base: AgentConfig, targets: Sequence[str], folder: Path) -> list[Point]:
    """Return every variant; the maintained value of a setting is the default itself.

    Head sets of all heads, and of the other row convention, are written to ``folder``. A
    convention without scores in a head-set file is omitted.
    """
    head_counts: list[int] = []
    rows: dict[str, str] = {}
    other_rows: dict[str, str] = {}
    for code in targets:
        head_set = load_head_set(base.head_sets[code])
        head_counts.append(len(head_set.heads))
        rows[code] = head_set.row
        other_rows[code] = _OTHER_ROW[head_set.row]
    derived: dict[str, Settings] = {
        "all heads": _derived(base, rows, None, folder),
        "other row": _derived(base, other_rows, base.policy.top_k, folder),
    }
    other_row_names = "/".join(sorted(set(other_rows.values())))

    default = Point("default", _ABLATION, "maintained default")
    default_config = default.config({"low": base})
    points = [default]
    for entry in _grid()["ablations"]:
        settings = entry.get("settings", {})
        # A head set with fewer heads than ``top_k`` would be refused.
        if settings.get("policy.top_k", 0) > min(head_counts):
            continue
        settings = derived.get(entry.get("head_set"), settings)
        if not settings:  # a head-set file lacks the scores
            continue
        label = entry["label"].format(row=other_row_names)
        point = Point(entry["name"], _ABLATION, label, settings=settings)
        if point.config({"low": base}) != default_config:
            points.append(point)
    return points


def _derived(base: AgentConfig, rows: Mapping[str, str], k: int | None, folder: Path) -> Settings:
    """Write head sets of the ``k`` best heads at ``rows``; return settings that use them."""
    files: dict[str, str] = {}
    head_counts: list[int] = []
    for code, row in rows.items():
        path = find_resource("head_sets", base.head_sets[code], (".json",))
        head_set = derived_head_set(json.loads(path.read_text(encoding="utf-8")), row, k)
        if head_set is None:
            return {}
        folder.mkdir(parents=True, exist_ok=True)
        suffix = row if k else "all"
        file = folder / f"{path.stem}-{suffix}.json"
        file.write_text(json.dumps(head_set), encoding="utf-8")
        files[code] = str(file)
        head_counts.append(len(head_set["heads"]))
    # All targets share the policy, so ``top_k`` must fit the smallest head set.
    return {"head_sets": files, "policy.top_k": min(head_counts)}


def derived_head_set(raw: Mapping[str, Any], row: str, k: int | None) -> dict[str, Any] | None:
    """Return a head set of the ``k`` best heads, or all; ``None`` without scores for ``row``."""
    matrix = raw.get("rows", {}).get(row, {}).get("ts_matrix")
    if matrix is None:
        return None
    heads: list[dict[str, Any]] = []
    for layer, scores in enumerate(matrix):
        for head, score in enumerate(scores):
            if score is None:  # a layer without attention
                continue
            heads.append({"layer": layer, "head": head, "ts": score})
    # The sort is stable: of equal scores, the lower layer comes first.
    heads.sort(key=lambda entry: entry["ts"], reverse=True)
    derived = {**raw, "row": row, "heads": heads[:k], "ts_matrix": matrix}
    # The held-out scores are those of the original heads.
    derived.pop("rows")
    derived.pop("held_out", None)
    return derived
