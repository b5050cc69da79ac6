"""Check a bundle: checksums, dev set, logs, scores, versions and image."""

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF
from tabulate import tabulate
from tqdm import tqdm

from alignatt_agent.config.agent_config import AgentConfig, ConfigError, load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import read_lines
from alignatt_agent.evaluation.check_log import Finding, check_log, refuse
from alignatt_agent.evaluation.devset import DevSet, load_devset
from alignatt_agent.evaluation.latency import REGIMES, regime_of
from alignatt_agent.evaluation.log import Log, LogError, parse_log
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import Result, Scores, ScoringError, read_result, score
from alignatt_agent.evaluation.segments import DevSetError
from alignatt_agent.submission.bundle import (
    SYSTEM_FILES,
    Bundle,
    Facts,
    SystemFiles,
    SystemName,
    checksums,
    read_facts,
    unserved_contexts,
)
from alignatt_agent.submission.versions import AGAIN, BUILD_AGAIN, check_config, check_versions

COMPARED = ("bleu", "chrf", "longyaal_cu_ms", "longyaal_ca_ms")
TOLERANCE = 1e-3
"""Permitted difference between scores; OmniSTEval prints only four decimal places."""


@dataclass(slots=True)
class Report:
    """Violations in a bundle, and the scores and number of units of each system's log."""

    findings: list[Finding] = field(default_factory=list)
    scores: dict[SystemName, Scores] = field(default_factory=dict)
    tokens: dict[SystemName, int] = field(default_factory=dict)

    def text(self, root: Path) -> str:
        """Format the scores, the violations and the result."""
        lines: list[str] = []
        if self.scores:
            lines.append(self._table())
        lines += map(str, self.findings)
        if self.findings:
            counts = Counter(finding.rule for finding in self.findings)
            listing = ", ".join(f"{rule} {count}" for rule, count in counts.most_common())
            lines.append(f"\n{root}: {len(self.findings)} violation(s): {listing}")
        elif self.scores:
            lines.append(f"{root}: valid, {len(self.scores)} systems")
        else:
            lines.append(f"{root}: no violation found; the logs were not scored again")
        return "\n".join(lines)

    def _table(self) -> str:
        rows: list[dict[str, Any]] = []
        for name, scores in self.scores.items():
            regime = REGIMES[name.regime]
            distance_ms = None
            if scores.longyaal_cu_ms is not None:
                distance_ms = regime.distance_ms(scores.longyaal_cu_ms)
            rows.append(
                {
                    "system": str(name),
                    "units": self.tokens[name],
                    "BLEU": scores.bleu,
                    "chrF": scores.chrf,
                    "CU ms": scores.longyaal_cu_ms,
                    "CA ms": scores.longyaal_ca_ms,
                    "distance": distance_ms,
                    "regime": str(regime),
                }
            )
        digits = ("", "", ".2f", ".2f", ".0f", ".0f", ".0f", "")
        table = tabulate(rows, "keys", "simple", floatfmt=digits, missingval="-")
        note = "scores computed from the logs; distance: ms to the nearer limit of the regime"
        return f"{table}\n\n{note}\n"


def check_bundle(root: Path, rescoring: bool = True) -> Report:
    """Check a bundle; ``rescoring`` scores the logs again, which takes most of the time."""
    bundle = Bundle(root)
    facts = read_facts(bundle)
    report = Report()
    names = [SystemName.parse(text) for text in facts.systems]
    report.findings += _check_sums(bundle)
    devset: DevSet | None = None
    try:
        targets = sorted({name.target for name in names})
        devset = load_devset(bundle.devset, targets, audio=False)
    except DevSetError as error:
        fix = "build the bundle again from the streamed dev set"
        report.findings.append(Finding("devset", bundle.where(bundle.devset), str(error), fix))
    with tqdm(names, "systems", unit="system", leave=False) as bar:
        for name in bar:
            bar.set_postfix_str(str(name))
            missing = list(_check_files(bundle, name))
            report.findings += missing
            if not missing:
                _check_system(report, bundle, name, facts, devset, rescoring)
    return report


def _check_files(bundle: Bundle, name: SystemName) -> Iterator[Finding]:
    """Verify that all files of a system exist."""
    for file_name in SYSTEM_FILES:
        path = bundle.system(name).folder / file_name
        if not path.is_file():
            yield Finding("files", bundle.where(path), "the file is missing", BUILD_AGAIN)


def _check_system(
    report: Report,
    bundle: Bundle,
    name: SystemName,
    facts: Facts,
    devset: DevSet | None,
    rescoring: bool,
) -> None:
    files, findings = bundle.system(name), report.findings
    log_path = bundle.where(files.metrics)
    scores_path = bundle.where(files.scores)
    config_path = bundle.where(files.config)
    claimed: Result | None = None
    try:
        claimed = read_result(files.folder)
    except ScoringError as error:
        fix = "submit the unaltered scores.json of simulstream-eval"
        findings.append(Finding("scores", scores_path, str(error), fix))
    signature = claimed.signature if claimed else {}
    config: AgentConfig | None = None
    try:
        config = load_config(str(files.config))
        findings += check_config(config_path, config, signature)
        if problem := unserved_contexts(config):
            fix = f"set speech.context to one list for all talks or to [], and {AGAIN}"
            findings.append(Finding("contexts", config_path, problem, fix))
        findings += _check_served(bundle, name, config)
    except ConfigError as error:
        findings.append(Finding("config", config_path, str(error), AGAIN))
    if signature and devset is not None:
        findings += check_versions(bundle, scores_path, signature, devset, name.target)
    log = parse_log(files.metrics)
    # The log is also checked if the configuration cannot be read.
    chunk_ms = config.chunk_ms if config else int(signature.get("chunk_ms") or 0)
    if chunk_ms:
        unit = language(name.target).latency_unit
        findings += check_log(log, log_path, facts.talks, unit, chunk_ms)
    if devset is not None:
        findings += _check_language(log, log_path, name.target, bundle)
    report.tokens[name] = sum(len(talk.tokens) for talk in log.talks)
    claimed_scores = claimed.scores if claimed else None
    latency_ms = claimed_scores.longyaal_cu_ms if claimed_scores else None
    if rescoring and devset is not None:
        try:
            scores = _rescore(files, log, devset, name.target)
        except (LogError, ScoringError) as error:
            fix = "correct the reported faults so that OmniSTEval can read the log"
            findings.append(Finding("scores", log_path, f"the log cannot be scored: {error}", fix))
            return
        report.scores[name] = scores
        findings += _compare(log_path, claimed_scores, scores)
        latency_ms = scores.longyaal_cu_ms
    if isinstance(latency_ms, int | float):
        findings += check_regime(log_path, name.regime, latency_ms)
    elif claimed is not None:
        message = "LongYAAL CU is unknown: all units were emitted after the end of the recordings"
        findings.append(Finding("regime", log_path, message, AGAIN))


def _check_served(bundle: Bundle, name: SystemName, scored: AgentConfig) -> Iterator[Finding]:
    """Verify that the image serves the configuration that was scored."""
    path = bundle.image_agent(name)
    where = bundle.where(path)
    try:
        served = load_config(str(path)).for_target(name.target)
    except ConfigError as error:
        yield Finding("image", where, str(error), BUILD_AGAIN)
        return
    if served.digest() != scored.digest():
        message = f"the hash is {served.digest()}, but {scored.digest()} was scored"
        yield Finding("image", where, message, BUILD_AGAIN)


def _rescore(files: SystemFiles, log: Log, devset: DevSet, target: str) -> Scores:
    """Score a log as the organizers do, with the evaluation YAML of the bundle."""
    refuse(log, devset, language(target).latency_unit)
    with tempfile.TemporaryDirectory(prefix="alignatt-submission-") as folder:
        run = RunFiles(Path(folder))
        shutil.copyfile(files.metrics, run.metrics)
        shutil.copyfile(files.evaluation, run.config)
        try:
            return score(run, devset, target, log)
        except ScoringError as error:
            # The temporary folder no longer exists when the message is read.
            raise ScoringError(str(error).replace(f"{folder}/", "")) from None


def _compare(where: str, claimed: Scores | None, scores: Scores) -> Iterator[Finding]:
    fix = "submit the scored log, or score this log and build the bundle again"
    for key in COMPARED:
        signed, actual = getattr(claimed, key, None), getattr(scores, key)
        # Both are unknown: a log without latencies has none in scores.json, either.
        if claimed is not None and signed is None and actual is None:
            continue
        equal = False
        if isinstance(signed, int | float) and isinstance(actual, int | float):
            equal = math.isclose(signed, actual, abs_tol=TOLERANCE)
        if not equal:
            message = f"{key} is {signed} in scores.json, but the score of the log is {actual}"
            yield Finding("scores", where, message, fix)


def check_regime(where: str, regime: str, longyaal_cu_ms: float) -> Iterator[Finding]:
    """Verify that a latency is inside the regime of a system."""
    declared = REGIMES[regime]
    distance_ms = declared.distance_ms(longyaal_cu_ms)
    if distance_ms >= 0:
        return
    seconds = longyaal_cu_ms / 1000
    message = f"LongYAAL CU is {seconds:.3f} s, outside {declared} by {-distance_ms / 1000:.3f} s"
    actual, _ = regime_of(longyaal_cu_ms)
    if longyaal_cu_ms < 0:
        fix = "output precedes the speech: raise speech.hold_back_ms or speech.min_start_s"
    elif actual in REGIMES:
        fix = f"submit the run for the regime {actual}, or change chunk_ms or speech.hold_back_ms"
    else:
        fix = "lower chunk_ms, speech.hold_back_ms or speech.min_start_s; run the dev set again"
    yield Finding("regime", where, message, fix)


def _check_language(log: Log, where: str, target: str, bundle: Bundle) -> Iterator[Finding]:
    """Verify that the output is in the target language, not in that of another system."""
    tokens: list[str] = []
    for talk in log.talks:
        tokens += talk.tokens
    if not tokens:
        return  # already reported for each talk
    samples: dict[str, str] = {}
    for path in sorted((bundle.devset / "ref").glob("*.txt")):
        samples[path.stem] = path.read_text(encoding="utf-8", errors="replace")
    joiner = " " if language(target).spaced else ""
    problem = wrong_language(joiner.join(tokens), target, samples)
    if problem is not None:
        fix = f"submit the log of the run with target {target}"
        yield Finding("direction", where, f"the output is not {target}: {problem}", fix)


def wrong_language(text: str, target: str, samples: Mapping[str, str]) -> str | None:
    """Return the reason why ``text`` is not in the language ``target``, or ``None``.

    ``samples`` maps language codes to texts: the references of the dev set. Texts are compared by
    chrF, which ignores the order of sentences.
    """
    if not any(map(str.isalpha, text)):
        return "it contains no letters"
    if target not in samples:
        return None
    chrf = CHRF(char_order=3)
    scores: dict[str, float] = {}
    for code, sample in samples.items():
        scores[code] = chrf.sentence_score(text, [sample]).score
    nearest = max(scores, key=lambda code: scores[code])
    name = language(target).name
    if scores[nearest] > scores[target]:
        return (
            f"its character n-grams resemble the {language(nearest).name} references "
            f"(chrF {scores[nearest]:.1f}), not the {name} references ({scores[target]:.1f})"
        )
    if not scores[target]:
        return f"none of its trigrams is in the {name} references"
    return None


def _check_sums(bundle: Bundle) -> Iterator[Finding]:
    fix = "restore the file from the original bundle, or build the bundle again"
    if not bundle.sums.is_file():
        yield Finding("checksum", bundle.sums.name, "the file is missing", fix)
        return
    expected: dict[str, str] = {}
    for line in read_lines(bundle.sums):
        digest, _, name = line.partition("  ")
        expected[name] = digest
    actual = checksums(bundle)
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            yield Finding("checksum", name, "the file is listed in SHA256SUMS but is missing", fix)
        elif name not in expected:
            message = "the file was added after the build: SHA256SUMS does not list it"
            yield Finding("checksum", name, message, f"remove it, or {BUILD_AGAIN}")
        elif actual[name] != expected[name]:
            message = (
                f"the file changed: its SHA-256 is {actual[name][:12]}…, not {expected[name][:12]}…"
            )
            yield Finding("checksum", name, message, fix)
