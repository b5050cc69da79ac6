"""Check a bundle: checksums, dev set, logs, scores, versions and image."""

import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

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
        lines = [self._table()] if self.scores else []
        lines += map(str, self.findings)
        if self.findings:
            counts = Counter(finding.rule for finding in self.findings)
            listed = ", ".join(f"{rule} {count}" for rule, count in counts.most_common())
            lines.append(f"\n{root}: {len(self.findings)} violation(s): {listed}")
        elif self.scores:
            lines.append(f"{root}: valid, {len(self.scores)} systems")
        else:
            lines.append(f"{root}: no violation found; the logs were not scored again")
        return "\n".join(lines)

    def _table(self) -> str:
        rows = []
        for name, found in self.scores.items():
            regime, cu = REGIMES[name.regime], found.longyaal_cu_ms
            quality = (self.tokens[name], found.bleu, found.chrf)
            distance_ms = None if cu is None else regime.distance_ms(cu)
            latency = (cu, found.longyaal_ca_ms, distance_ms)
            rows.append((str(name), *quality, *latency, str(regime)))
        headers = ("system", "units", "BLEU", "chrF", "CU ms", "CA ms", "distance", "regime")
        digits = ("", "", ".2f", ".2f", ".0f", ".0f", ".0f", "")
        table = tabulate(rows, headers, "simple", floatfmt=digits, missingval="-")
        note = "scores computed from the logs; distance: ms to the nearer limit of the regime"
        return f"{table}\n\n{note}\n"


def check_bundle(root: Path, rescoring: bool = True) -> Report:
    """Check a bundle; ``rescoring`` scores the logs again, which takes most of the time."""
    bundle = Bundle(root)
    facts = read_facts(bundle)
    report = Report()
    names = [SystemName.parse(text) for text in facts.systems]
    found = report.findings
    found += _check_sums(bundle)
    devset: DevSet | None = None
    try:
        targets = sorted({name.target for name in names})
        devset = load_devset(bundle.devset, targets, audio=False)
    except DevSetError as error:
        fix = "build the bundle again from the streamed dev set"
        found.append(Finding("devset", bundle.where(bundle.devset), str(error), fix))
    with tqdm(names, "systems", unit="system", leave=False) as bar:
        for name in bar:
            bar.set_postfix_str(str(name))
            files = [bundle.system(name).folder / item for item in SYSTEM_FILES]
            missing = [bundle.where(path) for path in files if not path.is_file()]
            found += [Finding("files", at, "the file is missing", BUILD_AGAIN) for at in missing]
            if not missing:
                _check_system(report, bundle, name, facts, devset, rescoring)
    return report


def _check_system(
    report: Report,
    bundle: Bundle,
    name: SystemName,
    facts: Facts,
    devset: DevSet | None,
    rescoring: bool,
) -> None:
    files, found = bundle.system(name), report.findings
    where, scores_at = bundle.where(files.metrics), bundle.where(files.scores)
    config_at = bundle.where(files.config)
    claimed: Result | None = None
    try:
        claimed = read_result(files.folder)
    except ScoringError as error:
        fix = "submit the unaltered scores.json of simulstream-eval"
        found.append(Finding("scores", scores_at, str(error), fix))
    signature = claimed.signature if claimed else {}
    config: AgentConfig | None = None
    try:
        config = load_config(str(files.config))
        found += check_config(config_at, config, signature)
        if problem := unserved_contexts(config):
            fix = f"set speech.context to one list for all talks or to [], and {AGAIN}"
            found.append(Finding("contexts", config_at, problem, fix))
        found += _check_served(bundle, name, config)
    except ConfigError as error:
        found.append(Finding("config", config_at, str(error), AGAIN))
    if signature and devset is not None:
        found += check_versions(bundle, scores_at, signature, devset, name.target)
    log = parse_log(files.metrics)
    chunk_ms = config.chunk_ms if config else int(signature.get("chunk_ms") or 0)
    if chunk_ms:
        unit = language(name.target).latency_unit
        found += check_log(log, where, facts.talks, unit, chunk_ms)
    if devset is not None:
        found += _check_language(log, where, name.target, bundle)
    report.tokens[name] = sum(len(talk.tokens) for talk in log.talks)
    latency = claimed.scores.longyaal_cu_ms if claimed else None
    if rescoring and devset is not None:
        try:
            scores = report.scores[name] = _rescore(files, log, devset, name.target)
        except (LogError, ScoringError) as error:
            fix = "correct the reported faults so that OmniSTEval can read the log"
            found.append(Finding("scores", where, f"the log cannot be scored: {error}", fix))
            return
        found += _compare(where, claimed.scores if claimed else None, scores)
        latency = scores.longyaal_cu_ms
    if isinstance(latency, int | float):
        found += check_regime(where, name.regime, latency)
    elif claimed is not None:
        message = "LongYAAL CU is unknown: all units were emitted after the end of the recordings"
        found.append(Finding("regime", where, message, AGAIN))


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
        said, found = getattr(claimed, key, None), getattr(scores, key)
        if claimed is not None and said is None and found is None:
            continue
        equal = False
        if isinstance(said, int | float) and isinstance(found, int | float):
            equal = math.isclose(said, found, abs_tol=TOLERANCE)
        if not equal:
            message = f"{key} is {said} in scores.json, but the score of the log is {found}"
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
    tokens = [token for talk in log.talks for token in talk.tokens]
    if not tokens:
        return  # already reported for each talk
    samples = {
        path.stem: path.read_text(encoding="utf-8", errors="replace")
        for path in sorted((bundle.devset / "ref").glob("*.txt"))
    }
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
    scores = {code: chrf.sentence_score(text, [item]).score for code, item in samples.items()}
    nearest = max(scores, key=lambda code: scores[code])
    name = language(target).name
    if scores[nearest] > scores[target]:
        return (
            f"its character n-grams resemble the {language(nearest).name} references "
            f"(chrF {scores[nearest]:.1f}), not the {name} references ({scores[target]:.1f})"
        )
    return None if scores[target] else f"none of its trigrams is in the {name} references"


def _check_sums(bundle: Bundle) -> Iterator[Finding]:
    fix = "restore the file from the original bundle, or build the bundle again"
    if not bundle.sums.is_file():
        yield Finding("checksum", bundle.sums.name, "the file is missing", fix)
        return
    rows = (line.partition("  ") for line in read_lines(bundle.sums))
    expected, found = {name: digest for digest, _, name in rows}, checksums(bundle)
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            yield Finding("checksum", name, "the file is listed in SHA256SUMS but is missing", fix)
        elif name not in expected:
            message = "the file was added after the build: SHA256SUMS does not list it"
            yield Finding("checksum", name, message, f"remove it, or {BUILD_AGAIN}")
        elif found[name] != expected[name]:
            message = (
                f"the file changed: its SHA-256 is {found[name][:12]}…, not {expected[name][:12]}…"
            )
            yield Finding("checksum", name, message, fix)
