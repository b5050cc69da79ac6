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
from alignatt_agent.calibration.pairs import (
    CalibrationError,
    Links,
    PairError,
    Pairs,
    SentencePair,
)
from alignatt_agent.calibration.prompted_pair import PairPrompter
from alignatt_agent.calibration.row_reader import open_reader
from alignatt_agent.config.agent_config import AgentConfig
from alignatt_agent.config.checkpoints import fingerprint, locate_one
from alignatt_agent.config.languages import Language
from alignatt_agent.evaluation.cache import ResultCache
from alignatt_agent.evaluation.statistics import LEVEL
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types.engines import Row

# Part of the provenance: another seed would evaluate the heads on other pairs.
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
    def files(self) -> list[Pairs]:
        """Return the pairs of each file; the held-out pairs are last."""
        if isinstance(self.held_out, Pairs):
            return [self.pairs, self.held_out]
        return [self.pairs]

    @property
    def all_pairs(self) -> list[SentencePair]:
        """Return the pairs to align, in order."""
        all_pairs: list[SentencePair] = []
        for pairs in self.files:
            all_pairs.extend(pairs.pairs)
        return all_pairs


def calibrate(plan: CalibrationPlan) -> dict[str, Any]:
    """Align pairs, score heads and write the head set; a new call resumes an interrupted one."""
    model = plan.config.models.translation
    checkpoint = fingerprint(locate_one(model))
    pairs = plan.all_pairs
    with ResultCache(plan.cache) as cache:
        # Before the model is loaded, because requests to a chat model may fail.
        links = align(plan.aligner, pairs, cache)
        with open_reader(model) as loaded:
            if not 1 <= plan.top_k <= len(loaded.heads):
                raise CalibrationError(
                    f"--keep {plan.top_k}: expected 1 to {len(loaded.heads)} heads"
                )
            builder = PromptBuilder.of(
                loaded.tokenizer, plan.config.prompt, plan.source, plan.target
            )
            prompter = PairPrompter(loaded.tokenizer, builder, loaded.max_context)
            prompted, skipped = _prompted(prompter, pairs, links)
            chosen_on, judged_on = _parts(plan, prompted)
            # Scores of another engine, checkpoint or prompt are not read from the cache.
            made_by = {
                "engine": loaded.engine,
                "model": f"sha256:{checkpoint}",
                "prompt": f"sha256:{prompter.digest()}",
            }
            outcome = score(loaded, chosen_on, judged_on, cache, repr(made_by), plan.top_k)
    # Without a choice, the held-out score decides between the row conventions.
    row = plan.row or outcome.better_row()
    skipped += outcome.skipped
    for file_pairs in plan.files:
        skipped += file_pairs.skipped
    provenance = _provenance(plan, made_by, skipped, row)
    content = head_set_file.head_set(outcome, row, plan.top_k, _about(plan), provenance)
    head_set_file.write(plan.output, content)
    return content


def _prompted(
    prompter: PairPrompter, pairs: Sequence[SentencePair], links: Sequence[Links | PairError]
) -> tuple[list[AlignedPair | None], Counter[str]]:
    """Return the prompt of each usable pair, and the numbers of unusable pairs by reason."""
    prompted: list[AlignedPair | None] = []
    skipped: Counter[str] = Counter()
    for pair, pair_links in zip(pairs, links, strict=True):
        try:
            aligned_pair = prompter(pair, pair_links)
        except PairError as error:
            prompted.append(None)
            skipped[error.reason] += 1
            continue
        prompted.append(aligned_pair)
    return prompted, skipped


def _parts(
    plan: CalibrationPlan, prompted: Sequence[AlignedPair | None]
) -> tuple[list[AlignedPair], list[AlignedPair]]:
    """Return the pairs for choosing heads and the pairs for evaluating them."""
    count = len(plan.pairs.pairs)
    first = _usable(prompted[:count])
    second = _usable(prompted[count:])
    if isinstance(plan.held_out, float):
        # The share is a share of the usable pairs.
        calibration, held_out = split(len(first), plan.held_out, SPLIT_SEED)
        second = [first[place] for place in held_out]
        first = [first[place] for place in calibration]
    if not first or not second:
        raise CalibrationError(
            f"{len(first)} calibration and {len(second)} held-out pairs are usable; add pairs"
        )
    return first, second


def _usable(prompted: Sequence[AlignedPair | None]) -> list[AlignedPair]:
    return [pair for pair in prompted if pair is not None]


def _about(plan: CalibrationPlan) -> dict[str, Any]:
    """Return the model, direction and prompt that a head set applies to."""
    model = plan.config.models.translation
    name = model.path
    # Head sets are shared, so they contain only the last component of a local path.
    if Path(model.path).is_absolute():
        name = Path(model.path).name
    # Pairs are not always consecutive, so their prompts contain no history.
    prompt = plan.config.prompt.model_copy(update={"history": 0})
    return {
        "model": name,
        "revision": model.revision,
        "direction": plan.direction,
        "prompt_layout": PromptBuilder.__module__,
        "prompt_sha256": prompt.digest(plan.source.code, plan.target.code),
        "source_of_alignments": _aligner(plan)["name"],
    }


def _aligner(plan: CalibrationPlan) -> dict[str, str]:
    if plan.aligner is None:
        return {"name": GOLD, "version": ""}
    return {"name": plan.aligner.name, "version": plan.aligner.version}


def _provenance(
    plan: CalibrationPlan,
    made_by: dict[str, str],
    skipped: Counter[str],
    row: Row,
) -> dict[str, Any]:
    choice = f"better of the two, top {plan.top_k}, held out"
    if plan.row is not None:
        choice = "asked for"
    if isinstance(plan.held_out, Pairs):
        held_out_pairs = f"{plan.held_out.name}, sha256:{plan.held_out.digest()}"
    else:
        held_out_pairs = f"{plan.held_out:g} of the pairs, seed {SPLIT_SEED}"
    reasons = +skipped  # without reasons that no pair has
    return {
        "tool": f"alignatt calibrate {version('alignatt-agent')}",
        **made_by,
        "pairs": f"{plan.pairs.name}, sha256:{plan.pairs.digest()}",
        "held_out_pairs": held_out_pairs,
        "aligner": _aligner(plan),
        "row": f"{row}: {choice}",
        "skipped": dict(sorted(reasons.items())),
    }


def print_report(plan: CalibrationPlan, content: dict[str, Any]) -> None:
    """Print the heads, the held-out scores, and their provenance."""
    head_texts: list[str] = []
    for head in content["heads"]:
        percent = 100 * head["ts"]
        head_texts.append(f"{head['layer']},{head['head']} {percent:.1f}")
    held_out = content["held_out"]
    print(
        f"\n{content['model']}, {plan.direction}: Translation Score, %\n"
        f"heads (layer,head)  {'  '.join(head_texts)}\n"
        f"held out  {held_out['n_pairs']} pairs, {held_out['n_aligned_tokens']} tokens; {LEVEL} % "
        "bootstrap intervals"
    )
    rows: list[tuple[str, str, str, str]] = []
    for row_name, scores in content["rows"].items():
        label = row_name
        if row_name == content["row"]:
            label += "*"
        head_set = _cell(scores["head_set"])
        all_heads = _cell(scores["all_heads"])
        gain = _cell(scores["gain"])
        rows.append((label, head_set, all_heads, gain))
    print(tabulate(rows, ("row", f"top {plan.top_k}", "all", "gain"), tablefmt="plain"))
    print(yaml.safe_dump(content["provenance"], sort_keys=False), end="")
    print(f"written: {plan.output}")


def _cell(score: dict[str, float]) -> str:
    value = 100 * score["value"]
    low = 100 * score["low"]
    high = 100 * score["high"]
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"
