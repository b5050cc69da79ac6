"""Calibration from a pairs file to a head-set file, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignatt_agent import __version__
from alignatt_agent.calibration import head_set_file
from alignatt_agent.calibration.align import align, error_rate
from alignatt_agent.calibration.aligners import WordAligner
from alignatt_agent.calibration.head_scores import Outcome, ScoringError, score, split
from alignatt_agent.calibration.pairs import PairError, Pairs, SentencePair, digest_of
from alignatt_agent.calibration.prompted_pair import Layout
from alignatt_agent.calibration.row_reader import Engine, Loaded, open_reader
from alignatt_agent.calibration.state import Journal
from alignatt_agent.calibration.translation_score import AlignedPair, Row
from alignatt_agent.calibration.word_alignment import ErrorRate, Links
from alignatt_agent.config.agent_config import ModelConfig
from alignatt_agent.config.checkpoints import fingerprint, locate_one
from alignatt_agent.config.languages import Language
from alignatt_agent.translation.prompt import PromptBuilder

SPLIT_SEED = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What to calibrate and how.

    Attributes:
        model: the checkpoint as the user names it.
        name: model name in the head set.
        source: source language.
        target: target language.
        pairs: what heads are chosen on (and judged on, without ``held_out``).
        held_out: other pairs to judge on; ``None`` splits ``pairs``.
        held_out_share: share of ``pairs`` to judge on.
        aligner: where word alignments come from.
        engine: where rows come from.
        output: head-set file to write.
        row: convention to calibrate for; ``None`` takes the better one.
        top_k: heads in the set.
        restart: forget the results of an interrupted run.
        work: folder of what an interrupted run leaves; ``None`` puts it beside ``output``.
    """

    model: ModelConfig
    name: str
    source: Language
    target: Language
    pairs: Pairs
    held_out: Pairs | None
    held_out_share: float
    aligner: WordAligner
    engine: Engine
    output: Path
    row: Row | None = None
    top_k: int = 8
    restart: bool = False
    work: Path | None = None

    @property
    def direction(self) -> str:
        """E.g. ``"en-de"``."""
        return f"{self.source.code}-{self.target.code}"

    @property
    def state(self) -> Path:
        """Folder of what an interrupted run leaves."""
        return self.work or self.output.with_suffix(".state")

    @property
    def alignments(self) -> Path:
        """Links of every pair."""
        return self.state / "alignments.jsonl"

    @property
    def all_pairs(self) -> list[SentencePair]:
        """Pairs to align: the held-out ones last."""
        return [*self.pairs.pairs, *(self.held_out.pairs if self.held_out else ())]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A head set with what it was made from.

    Attributes:
        content: the head-set file.
        outcome: all scores.
        row: the chosen convention.
        error_rate: agreement of the aligner with gold links, where the pairs have some.
    """

    content: dict[str, Any]
    outcome: Outcome
    row: Row
    error_rate: ErrorRate | None


def calibrate(plan: Plan) -> Calibrated:
    """Align, score, choose, and write the head set.

    Every result is on disk as soon as it is there; the same plan goes on from where it stopped.

    Raises:
        AlignerError: the aligner cannot work.
        CheckpointError: the model is not on this machine.
        EngineError: the engine did not start.
        ScoringError: too few usable pairs, or the engine failed again and again.
        StateError: the folder beside ``plan.output`` holds another run.
    """
    located = _located(plan.model)
    pairs = plan.all_pairs
    links = align(plan.aligner, pairs, plan.alignments, restart=plan.restart)
    rate = error_rate(pairs, links)
    with open_reader(plan.engine, located) as loaded:
        builder = PromptBuilder(loaded.tokenizer, plan.source.name, plan.target.name)
        layout = Layout(loaded.tokenizer, builder, loaded.max_context)
        laid = lay_out(layout, pairs, links)
        judge = links if judged_by_aligner(pairs) else [pair.gold for pair in pairs]
        usable, skipped = both_laid_out(laid, lay_out(layout, pairs, judge))
        calibration, held_out = _parts(plan, usable)
        check_top_k(plan.top_k, loaded)
        identity = {
            "model": fingerprint(Path(located.path)),
            "engine": loaded.engine,
            "direction": plan.direction,
            "prompt": layout.digest(),
            "pairs": digest_of([*calibration, None, *held_out]),
        }
        journal = Journal(plan.state / "scores.jsonl", identity, restart=plan.restart)
        outcome = score(loaded, calibration, held_out, journal, plan.top_k)
    row = plan.row or outcome.better_row()
    total = plan.pairs.skipped + skipped + outcome.skipped
    total += plan.held_out.skipped if plan.held_out else Counter()
    content = head_set_file.head_set(
        outcome,
        row,
        model=plan.name,
        revision=plan.model.revision,
        direction=plan.direction,
        source_of_alignments=plan.aligner.name,
        top_k=plan.top_k,
        provenance=_provenance(plan, identity, rate, total, row),
    )
    head_set_file.write(plan.output, content)
    return Calibrated(content, outcome, row, rate)


def judged_by_aligner(pairs: Sequence[SentencePair]) -> bool:
    """Whether heads are judged by the aligner's links: only where some gold ones are missing."""
    return any(pair.gold is None for pair in pairs)


def lay_out(
    layout: Layout, pairs: Sequence[SentencePair], links: Sequence[Links | PairError | None]
) -> list[AlignedPair | PairError]:
    """Lay out every pair that can be."""
    laid: list[AlignedPair | PairError] = []
    for pair, found in zip(pairs, links, strict=True):
        try:
            if isinstance(found, PairError):
                raise found
            laid.append(layout(pair, found or Links.of(())))
        except PairError as error:
            laid.append(error)
    return laid


def both_laid_out(
    choose: Sequence[AlignedPair | PairError], judge: Sequence[AlignedPair | PairError]
) -> tuple[dict[int, tuple[AlignedPair, AlignedPair]], Counter[str]]:
    """Return the pairs that heads can be chosen and judged on by place, and count the others."""
    usable: dict[int, tuple[AlignedPair, AlignedPair]] = {}
    skipped: Counter[str] = Counter()
    for place, (first, second) in enumerate(zip(choose, judge, strict=True)):
        if isinstance(first, PairError):
            skipped[first.reason] += 1
        elif isinstance(second, PairError):
            skipped[second.reason] += 1
        else:
            usable[place] = (first, second)
    return usable, skipped


def check_top_k(top_k: int, loaded: Loaded) -> None:
    """Refuse to keep more heads than there are.

    Raises:
        ScoringError: there are fewer.
    """
    if not 1 <= top_k <= len(loaded.heads):
        raise ScoringError(f"--keep {top_k}: the model has {len(loaded.heads)} heads")


def _located(model: ModelConfig) -> ModelConfig:
    return model.model_copy(update={"path": str(locate_one(model)), "revision": None})


def _parts(
    plan: Plan, usable: dict[int, tuple[AlignedPair, AlignedPair]]
) -> tuple[list[AlignedPair], list[AlignedPair]]:
    """Return the pairs to choose heads on and those to judge on."""
    count = len(plan.pairs.pairs)
    first = [place for place in usable if place < count]
    second = [place for place in usable if place >= count]
    if plan.held_out is None:
        parts = split(len(first), plan.held_out_share, SPLIT_SEED)
        first, second = ([first[i] for i in part] for part in parts)
    if not first or not second:
        raise ScoringError(
            f"{len(first)} calibration and {len(second)} held-out pairs are left, both are needed"
        )
    return [usable[place][0] for place in first], [usable[place][1] for place in second]


def _provenance(
    plan: Plan, identity: dict[str, str], rate: ErrorRate | None, skipped: Counter[str], row: Row
) -> dict[str, Any]:
    chosen = "asked for" if plan.row else f"better of the two, top {plan.top_k}, held out"
    held_out = plan.held_out
    return {
        "tool": f"alignatt-calibrate {__version__}",
        "engine": identity["engine"],
        "model": f"sha256:{identity['model']}",
        "prompt": f"sha256:{identity['prompt']}",
        "pairs": f"{plan.pairs.name}, sha256:{plan.pairs.digest()}",
        "held_out_pairs": (
            f"{plan.held_out_share:g} of the pairs, seed {SPLIT_SEED}"
            if held_out is None
            else f"{held_out.name}, sha256:{held_out.digest()}"
        ),
        "judged_by": "aligner" if judged_by_aligner(plan.all_pairs) else "gold alignments",
        "aligner": {
            "name": plan.aligner.name,
            "version": plan.aligner.version,
            "alignment_error_rate": None if rate is None else round(rate.aer, 4),
        },
        "row": f"{row}: {chosen}",
        "skipped": dict(sorted((+skipped).items())),
    }
