"""Scoring a log that is already there: ours, another system's, or OmniSTEval's JSONL."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.log import LogError, parse_log
from alignatt_agent.evaluation.outcome import score_all, score_run, write_reports
from alignatt_agent.evaluation.report import Source, table
from alignatt_agent.evaluation.results import Result, read_ceilings
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import check_scorer, omnisteval_command
from alignatt_agent.evaluation.signature import sign_log


def rescore(
    log: Path,
    target: str,
    devset: Path,
    output: Path,
    log_config: Path | None = None,
    source: str = "en",
    offline: Path | None = None,
) -> int:
    """Score ``log`` and print the table; nothing is streamed and no audio is needed.

    Args:
        log: Simulstream's log, or OmniSTEval's JSONL.
        target: language of the output.
        devset: directory of the dev set.
        output: folder to write to; the target gets a folder below it.
        log_config: YAML with ``detokenizer_type`` of a Simulstream log; default: ``agent.yaml``
            beside the log, else whole words (single characters for Chinese) are expected.
        source: language of the speech.
        offline: output of ``alignatt-offline`` whose row is shown, too.

    Returns:
        Exit status: 0 when it was scored.

    Raises:
        LogError: the log cannot be scored, or the output would overwrite it.
        DevSetError: the dev set cannot be evaluated.
        LanguageError: the language is unknown.
        ScoringError: the scorer cannot run here.
    """
    code = language(target).code
    check_scorer([code])
    checked = load_devset(devset, [code], source=language(source).code, audio=False)
    files = copy_log(log, RunFiles(output / code), log_config, code)
    signature = sign_log(log, checked, code)
    ceilings = read_ceilings(offline, [signature]) if offline else []

    def task() -> Result:
        return score_run(files, checked, code, str(log), signature)

    results, status = score_all([(str(log), task)], 1)
    scored = [result for result in results if result is not None]
    if scored:
        command = omnisteval_command(files, checked, code, parse_log(files.metrics).format)
        sources = [Source(item, files.folder) for item in scored]
        write_reports(files.folder, sources, [command], checked.notes, ceilings)
        print(f"{table(scored, ceilings)}\n\nthe same with the official command:\n  {command}")
    return status


def copy_log(log: Path, files: RunFiles, log_config: Path | None, target: str) -> RunFiles:
    """Copy a log, its configuration and what lies beside it into a folder of its own.

    Raises:
        LogError: the log is not readable, lies in that folder, or needs a configuration.
    """
    found = parse_log(log).format
    if log.resolve().parent == files.folder.resolve():
        raise LogError(f"{log} lies in {files.folder}, which is written to; take another --output")
    config = log_config or log.with_name("agent.yaml")
    if log_config is not None and not log_config.is_file():
        raise LogError(f"{log_config} does not exist")
    files.clean()
    shutil.copyfile(log, files.metrics)
    for name in (files.records, files.clock):
        beside = log.with_name(name.name)
        if beside.is_file():
            shutil.copyfile(beside, name)
    if found == "simulstream":
        files.config.write_text(_evaluation_yaml(config, target), encoding="utf-8")
    return files


def _evaluation_yaml(config: Path, target: str) -> str:
    """Return the YAML that the scorers join units by."""
    unit = language(target).latency_unit
    settings: dict[str, Any] = {"detokenizer_type": "simuleval", "latency_unit": unit}
    if config.is_file():
        given = yaml.safe_load(config.read_text(encoding="utf-8"))
        if not isinstance(given, dict):
            raise LogError(f"{config} holds no mapping of keys")
        if "detokenizer_type" not in given:
            raise LogError(
                f"{config} has no detokenizer_type (hf, canary or simuleval), so the units of the "
                f"log cannot be joined; name an evaluation YAML with --log-config"
            )
        settings = given
    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
