"""The runs of a sweep, as listed in ``grid.yaml``: policies with parameters, and ablations."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
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
            *parents, last = key.split(".")
            for own in raw["targets"].values():
                reduce(lambda part, parent: part.get(parent, {}), parents, own).pop(last, None)
        return AgentConfig.parse(raw, self.name)


@cache
def _grid() -> dict[str, Any]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    grid = dict(yaml.safe_load(text))
    listed = {form["settings"]["policy.name"] for form in grid["curves"].values()}
    for name in (name for name in POLICIES if name not in listed):
        fields = POLICIES[name].model_fields
        values = {key: field.examples for key, field in fields.items() if field.examples}
        label = [f"{key} {{{key}}}" for key in (*values, "chunk")]
        grid["curves"][name] = {
            "name": "-".join([f"{name}-c{{chunk}}", *(f"{key}{{{key}}}" for key in values)]),
            "label": ", ".join(label),
            "settings": grid["others"]["settings"] | {"policy.name": name},
        } | {size: [values | shared] for size in SIZES if (shared := grid["others"].get(size))}
    return grid


def curve_names() -> list[str]:
    """Return every curve, in the order of legends and tables."""
    return list(_grid()["curves"])


def sweep(size: Size, only: Sequence[str] = ()) -> list[Point]:
    """Return the two operating points and the grid of every policy, or ``only`` some points."""
    points = [Point(f"operating-{name}", ALIGNATT, name, name) for name in OPERATING]
    names = _grid()["keys"]
    for curve, form in _grid()["curves"].items():
        for block in form.get(size, ()):
            for values in itertools.product(*block.values()):
                chosen = dict(zip(block, values, strict=True))
                points.append(
                    Point(
                        form["name"].format(**chosen),
                        curve,
                        form["label"].format(**chosen),
                        settings=form["settings"]
                        | {names.get(key, f"policy.{key}"): chosen[key] for key in chosen},
                    )
                )
    if unknown := sorted(set(only) - {point.name for point in points}):
        known = ", ".join(point.name for point in points if point.settings)
        raise ConfigError(f"no point {', '.join(unknown)} in the {size} grid, which has {known}")
    return [point for point in points if not only or not point.settings or point.name in only]


def ablations(base: AgentConfig, targets: Sequence[str], folder: Path) -> list[Point]:
    """Return every variant; the maintained value of a setting is the default itself.

    Head sets of all heads, and of the other row convention, are written to ``folder``. A
    convention without scores in a head-set file is omitted.
    """
    sets = {code: load_head_set(base.head_sets[code]) for code in targets}
    smallest = min(len(item.heads) for item in sets.values())
    same = {code: item.row for code, item in sets.items()}
    other = {code: _OTHER_ROW[row] for code, row in same.items()}
    derived: dict[str, Settings] = {
        "all heads": _derived(base, same, None, folder),
        "other row": _derived(base, other, base.policy.top_k, folder),
    }
    default = Point("default", _ABLATION, "maintained default")
    points = [default]
    for entry in _grid()["ablations"]:
        given = entry.get("settings", {})
        settings = derived.get(entry.get("head_set"), given)
        if not settings or given.get("policy.top_k", 0) > smallest:
            continue
        label = entry["label"].format(row="/".join(sorted(set(other.values()))))
        point = Point(entry["name"], _ABLATION, label, settings=settings)
        if point.config({"low": base}) != default.config({"low": base}):
            points.append(point)
    return points


def _derived(base: AgentConfig, rows: Mapping[str, str], k: int | None, folder: Path) -> Settings:
    """Write head sets of the ``k`` best heads at ``rows``; return settings that use them."""
    files, sizes = {}, []
    for code, row in rows.items():
        path = find_resource("head_sets", base.head_sets[code], (".json",))
        content = derived_head_set(json.loads(path.read_text(encoding="utf-8")), row, k)
        if content is None:
            return {}
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{path.stem}-{row if k else 'all'}.json"
        file.write_text(json.dumps(content), encoding="utf-8")
        files[code] = str(file)
        sizes.append(len(content["heads"]))
    return {"head_sets": files, "policy.top_k": min(sizes)}


def derived_head_set(raw: Mapping[str, Any], row: str, k: int | None) -> dict[str, Any] | None:
    """Return a head set of the ``k`` best heads, or all; ``None`` without scores for ``row``."""
    matrix = raw.get("rows", {}).get(row, {}).get("ts_matrix")
    if matrix is None:
        return None
    scored = [
        {"layer": layer, "head": head, "ts": score}
        for layer, heads in enumerate(matrix)
        for head, score in enumerate(heads)
        if score is not None  # a layer without attention
    ]
    scored.sort(key=lambda entry: -entry["ts"])
    kept = {key: value for key, value in raw.items() if key not in ("rows", "held_out")}
    return {**kept, "row": row, "heads": scored[:k], "ts_matrix": matrix}
