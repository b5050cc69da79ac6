"""``alignatt-offline``: the quality ceiling of a cascade, everything heard before anything is said.

Whole recordings through the recogniser, in long pieces that end in pauses; whole sentences through
the translation model, without a gate. The output is scored on the same segments as a streamed one,
so what is missing there is the price of simultaneity.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from alignatt_agent.cascade import build_session
from alignatt_agent.config.agent_config import AgentConfig, ConfigError, parse_overrides
from alignatt_agent.config.checkpoints import CheckpointError, locate
from alignatt_agent.config.head_sets import HeadSetError
from alignatt_agent.config.languages import LanguageError, language
from alignatt_agent.config.resolved import resolve
from alignatt_agent.evaluation.comet import (
    CometError,
    comet_python,
    comet_scores,
    comet_section,
    comet_triples,
)
from alignatt_agent.evaluation.devset import DevSet, DevSetError, load_devset
from alignatt_agent.evaluation.offline_audio import transcribe
from alignatt_agent.evaluation.resolve import AgentChoice, choose_agent
from alignatt_agent.evaluation.run_files import RunFiles
from alignatt_agent.evaluation.score import (
    ScoringError,
    check_scorer,
    omnisteval_arguments,
    run_omnisteval,
)
from alignatt_agent.evaluation.signature import MICRO_LABEL, is_micro, sign
from alignatt_agent.evaluation.wer import word_error_rate
from alignatt_agent.speech.sentences import split_sentences
from alignatt_agent.types import EngineError, Word

if TYPE_CHECKING:
    from alignatt_agent.cascade import Engines

PIECE_S, MICRO_PIECE_S = 30.0, 8.0

EPILOG = """\
examples
  alignatt-offline --config micro-low --target de it zh --devset micro_models/devset \\
      --output outputs/offline

  as the paper: the recogniser hears every recording at once (Qwen3-ASR takes up to 20 minutes)
  alignatt-offline --config iwslt26-low --target de it zh --devset DIR --output OUT \\
      --piece-s 1200 --set models.asr.engine.max_model_len=32768

  the rows beside the streamed ones: simulstream-eval ... --offline outputs/offline

OUT/transcript.txt holds one recording per line, OUT/TARGET/hypothesis.txt its translation,
OUT/TARGET/offline.json the scores with a signature.

exit status: 0 scored; 1 the run failed; 2 nothing was started
"""


def translate(
    config: AgentConfig, engines: Engines, transcripts: dict[str, str], source: str, target: str
) -> dict[str, str]:
    """Return the translation of every transcript, sentence by sentence and without a gate."""
    goal = language(target)
    found: dict[str, str] = {}
    for talk, text in transcripts.items():
        translator = build_session(resolve(config), engines, language(source), goal).translator
        sentences, rest = split_sentences([Word(item, 0.0, 0.0) for item in text.split()], None)
        units: list[str] = []
        for sentence in tqdm(
            [*sentences, *([tuple(rest)] if rest else [])], desc=f"{target} {talk}"
        ):
            units += translator.complete(sentence).units
            translator.reset()
        joined = " ".join(units) if goal.spaced else "".join(units)
        found[talk] = " ".join(joined.split())
    return found


def score_offline(
    folder: Path, devset: DevSet, target: str, translations: dict[str, str]
) -> dict[str, float]:
    """Score whole translations on the segments of the dev set.

    Raises:
        ScoringError: OmniSTEval failed.
    """
    files = RunFiles(folder)
    files.clean()
    hypothesis = folder / "hypothesis.txt"
    lines = [translations[talk.name] for talk in devset.talks]
    hypothesis.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = run_omnisteval(
        omnisteval_arguments(files, devset, target, "text", hypothesis=hypothesis), folder
    )
    return {"bleu": float(found["BLEU"]), "chrf": float(found["chrF"])}


def run(
    choice: AgentChoice,
    engines: Engines,
    devset: DevSet,
    targets: Sequence[str],
    output: Path,
    longest_s: float,
) -> dict[str, dict[str, Any]]:
    """Run the whole cascade off-line and write its scores.

    Args:
        choice: configuration.
        engines: of its models.
        devset: what is translated.
        targets: codes of the target languages.
        output: folder to write to.
        longest_s: longest piece of audio that the recogniser takes.

    Raises:
        EngineError: an engine failed.
        ScoringError: OmniSTEval failed.
    """
    assert choice.config is not None
    source = choice.config.source_language
    output.mkdir(parents=True, exist_ok=True)
    heard = {talk.name: transcribe(engines, talk.wav, source, longest_s) for talk in devset.talks}
    text = "".join(f"{heard[talk.name]}\n" for talk in devset.talks)
    (output / "transcript.txt").write_text(text, encoding="utf-8")
    errors = word_error_rate(devset, heard) if devset.transcript is not None else {}
    rows: dict[str, dict[str, Any]] = {}
    for target in targets:
        translations = translate(choice.config, engines, heard, source, target)
        scores = score_offline(output / target, devset, target, translations)
        signature = {**sign(choice, devset, target), "latency": "off-line", "piece_s": longest_s}
        rows[target] = {**scores, **errors, "signature": signature}
        _write(output / target, rows[target])
    return rows


def add_offline_comet(
    rows: dict[str, dict[str, Any]],
    devset: DevSet,
    source: str,
    output: Path,
    model: str,
    python: Path | None,
) -> None:
    """Score all targets with COMET and write it into their files.

    Raises:
        CometError: environment, model or transcript is missing.
    """
    for target, row in rows.items():
        triples = comet_triples(RunFiles(output / target), devset, source, target)
        row["comet"] = comet_section(model, comet_scores(triples, model, python))
        _write(output / target, row)


def _write(folder: Path, row: dict[str, Any]) -> None:
    text = json.dumps(row, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "offline.json").write_text(text + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="alignatt-offline",
        description="Run the cascade off-line on a dev set: the quality ceiling of its models.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", required=True, help="name or path of a YAML configuration")
    parser.add_argument("--target", nargs="+", required=True, metavar="LANG")
    parser.add_argument("--devset", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="OUT")
    parser.add_argument(
        "--piece-s",
        type=float,
        metavar="S",
        help="longest piece of audio that the recogniser takes, in seconds; pieces end in pauses; "
        f"default {PIECE_S:.0f}, with the embedded models, which know single sentences, "
        f"{MICRO_PIECE_S:.0f}",
    )
    parser.add_argument("--comet", metavar="MODEL", help="score with COMET, as simulstream-eval")
    parser.add_argument("--comet-python", type=Path, metavar="FILE", help="interpreter with COMET")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    arguments = parser.parse_args(argv)
    from alignatt_agent.cascade import load_engines, shutdown

    try:
        codes = [language(name).code for name in arguments.target]
        choice = choose_agent(
            "alignatt4llm", arguments.config, parse_overrides(arguments.overrides)
        )
        config = choice.config
        assert config is not None
        models = locate(config.models)
        devset = load_devset(
            arguments.devset, codes, arguments.output / "audio", config.source_language
        )
        check_scorer(codes)
        if arguments.comet:
            comet_python(arguments.comet_python)
    except (
        CheckpointError,
        CometError,
        ConfigError,
        DevSetError,
        HeadSetError,
        LanguageError,
        ScoringError,
    ) as error:
        print(f"alignatt-offline: {error}", file=sys.stderr)
        return 2
    try:
        engines = load_engines(models, ())
        longest = arguments.piece_s or (MICRO_PIECE_S if is_micro(choice) else PIECE_S)
        rows = run(choice, engines, devset, codes, arguments.output, longest)
        shutdown()
        if arguments.comet:
            spoken = config.source_language
            add_offline_comet(
                rows, devset, spoken, arguments.output, arguments.comet, arguments.comet_python
            )
    except (CometError, EngineError, ScoringError) as error:
        print(f"alignatt-offline: {error}", file=sys.stderr)
        return 1
    finally:
        shutdown()
    print(table(rows))
    if is_micro(choice):
        print(f"** {MICRO_LABEL} **")
    return 0


def table(rows: dict[str, dict[str, Any]]) -> str:
    """Format the scores for a terminal."""
    lines = [f"{'target':<8}{'BLEU':>8}{'chrF':>8}{'WER %':>8}{'COMET':>8}"]
    for target, row in rows.items():
        wer = f"{row['wer']:.2f}" if "wer" in row else "-"
        comet = f"{row['comet']['score']:.4f}" if "comet" in row else "-"
        lines.append(f"{target:<8}{row['bleu']:>8.2f}{row['chrf']:>8.2f}{wer:>8}{comet:>8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
