"""Compute a head-set file and a report from sentence pairs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from tabulate import tabulate

from alignatt_agent.calibration import head_set_file
from alignatt_agent.calibration.align import GOLD, align
from alignatt_agent.calibration.chat_model import ChatAligner
from alignatt_agent.calibration.head_scores import AlignedPair, score, split
from alignatt_agent.calibration.pairs import CalibrationError, PairError, Pairs, SentencePair
from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.calibration.row_reader import open_reader
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.checkpoints import fingerprint, locate_one
from alignatt_agent.config.languages import Language
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.evaluation.statistics import LEVEL
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types.engines import Row

SPLIT_SEED = 1


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """A model and direction, the pairs, the aligner, and the head set to write."""

    config: AgentConfig  # contains the translation model and prompt
    source: Language
    target: Language
    pairs: Pairs  # pairs for choosing heads
    held_out: Pairs | float  # pairs for evaluating heads, or a share of ``pairs``
    aligner: ChatAligner | None  # None uses the alignments of the pairs
    output: Path
    row: Row | None = None  # None chooses the better row convention
    top_k: int = 8

    @property
    def direction(self) -> str:
        """Return the direction, e.g. ``"en-de"``."""
        return f"{self.source.code}-{self.target.code}"

    @property
    def cache(self) -> Path:
        """Return the path of the file that stores the links and scores of every pair."""
        return self.output.with_suffix(".sqlite")

    @property
    def given(self) -> list[Pairs]:
        """Return the pairs of each file; the held-out pairs are last."""
        return [self.pairs, *([self.held_out] if isinstance(self.held_out, Pairs) else [])]

    @property
    def all_pairs(self) -> list[SentencePair]:
        """Return the pairs to align, in order."""
        return [pair for pairs in self.given for pair in pairs.pairs]


def calibrate(plan: CalibrationPlan) -> dict[str, Any]:
    """Align pairs, score heads and write the head set; a new call resumes an interrupted one."""
    model, prompt = plan.config.models.translation, plan.config.prompt
    checkpoint = fingerprint(locate_one(model))
    pairs = plan.all_pairs
    with ResultCache(plan.cache) as cache:
        links = align(plan.aligner, pairs, cache)
        with open_reader(model) as loaded:
            if not 1 <= plan.top_k <= len(loaded.heads):
                raise CalibrationError(
                    f"--keep {plan.top_k}: expected 1 to {len(loaded.heads)} heads"
                )
            builder = PromptBuilder.of(loaded.tokenizer, prompt, plan.source, plan.target)
            prompter = PairPrompter(loaded.tokenizer, builder, loaded.max_context)
            usable: list[AlignedPair | None] = []
            skipped: Counter[str] = Counter()
            for pair, aligned in zip(pairs, links, strict=True):
                try:
                    usable.append(prompter(pair, aligned))
                except PairError as error:
                    usable.append(None)
                    skipped[error.reason] += 1
            chosen_on, judged_on = _parts(plan, usable)
            made_by = {
                "engine": loaded.engine,
                "model": f"sha256:{checkpoint}",
                "prompt": f"sha256:{prompter.digest()}",
            }
            outcome = score(loaded, chosen_on, judged_on, cache, repr(made_by), plan.top_k)
    row = plan.row or outcome.better_row()
    skipped = sum((pairs.skipped for pairs in plan.given), skipped + outcome.skipped)
    provenance = _provenance(plan, made_by, skipped, row)
    content = head_set_file.head_set(
        outcome,
        row,
        plan.top_k,
        {
            # Head sets are shared, so they contain only the last component of a local path.
            "model": Path(model.path).name if Path(model.path).is_absolute() else model.path,
            "revision": model.revision,
            "direction": plan.direction,
            "prompt_layout": PromptBuilder.__module__,
            # Pairs are not always consecutive, so their prompts contain no history.
            "prompt_sha256": prompt.model_copy(update={"history": 0}).digest(
                plan.source.code, plan.target.code
            ),
            "source_of_alignments": provenance["aligner"]["name"],
        },
        provenance,
    )
    head_set_file.write(plan.output, content)
    return content


def _parts(
    plan: CalibrationPlan, usable: Sequence[AlignedPair | None]
) -> tuple[list[AlignedPair], list[AlignedPair]]:
    """Return the pairs for choosing heads and the pairs for evaluating them."""
    count = len(plan.pairs.pairs)
    first, second = ([*filter(None, part)] for part in (usable[:count], usable[count:]))
    if isinstance(plan.held_out, float):
        parts = split(len(first), plan.held_out, SPLIT_SEED)
        first, second = ([first[place] for place in part] for part in parts)
    if not first or not second:
        raise CalibrationError(
            f"{len(first)} calibration and {len(second)} held-out pairs are usable; add pairs"
        )
    return first, second


def _provenance(
    plan: CalibrationPlan,
    made_by: dict[str, str],
    skipped: Counter[str],
    row: Row,
) -> dict[str, Any]:
    chosen = "asked for" if plan.row else f"better of the two, top {plan.top_k}, held out"
    held_out = plan.held_out
    return {
        "tool": f"alignatt calibrate {version('alignatt-agent')}",
        **made_by,
        "pairs": f"{plan.pairs.name}, sha256:{plan.pairs.digest()}",
        "held_out_pairs": (
            f"{held_out:g} of the pairs, seed {SPLIT_SEED}"
            if isinstance(held_out, float)
            else f"{held_out.name}, sha256:{held_out.digest()}"
        ),
        "aligner": {
            "name": plan.aligner.name if plan.aligner else GOLD,
            "version": plan.aligner.version if plan.aligner else "",
        },
        "row": f"{row}: {chosen}",
        "skipped": dict(sorted((+skipped).items())),
    }


def print_report(plan: CalibrationPlan, content: dict[str, Any]) -> None:
    """Print the heads, the held-out scores, and their provenance."""
    heads = (f"{x['layer']},{x['head']} {100 * x['ts']:.1f}" for x in content["heads"])
    held_out = content["held_out"]
    print(
        f"\n{content['model']}, {plan.direction}: Translation Score, %\n"
        f"heads (layer,head)  {'  '.join(heads)}\n"
        f"held out  {held_out['n_pairs']} pairs, {held_out['n_aligned_tokens']} tokens; {LEVEL} % "
        "bootstrap intervals"
    )
    rows = [
        (
            name + "*" * (name == content["row"]),
            *(_cell(found[key]) for key in ("head_set", "all_heads", "gain")),
        )
        for name, found in content["rows"].items()
    ]
    print(tabulate(rows, ("row", f"top {plan.top_k}", "all", "gain"), tablefmt="plain"))
    print(yaml.safe_dump(content["provenance"], sort_keys=False), end="")
    print(f"written: {plan.output}")


def _cell(score: dict[str, float]) -> str:
    value, low, high = (100 * score[name] for name in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"
