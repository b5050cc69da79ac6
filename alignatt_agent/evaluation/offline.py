"""``alignatt-offline``: the quality ceiling of a cascade, everything heard before anything is said.

Whole recordings through the recogniser, in pieces that end where it is quiet; whole sentences
through the translation model, without a gate. The output is scored on the same segments as a
streamed one, so what is missing there is the price of simultaneity.
"""

from __future__ import annotations

import argparse
import json
import sys
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from alignatt_agent.agent import build_session
from alignatt_agent.checkpoints import CheckpointError, locate
from alignatt_agent.config import AgentConfig, ConfigError
from alignatt_agent.evaluation.agents import AgentChoice, choose_agent, parse_overrides
from alignatt_agent.evaluation.devset import DevSet, DevSetError, load_devset
from alignatt_agent.evaluation.files import RunFiles
from alignatt_agent.evaluation.scoring import (
    ScoringError,
    check_scorer,
    omnisteval_arguments,
    run_omnisteval,
)
from alignatt_agent.evaluation.signature import MICRO_LABEL, is_micro, sign
from alignatt_agent.evaluation.transcripts import word_error_rate
from alignatt_agent.head_sets import HeadSetError
from alignatt_agent.languages import LanguageError, language
from alignatt_agent.nouns import SAMPLE_RATE, FloatArray, Word
from alignatt_agent.speech.sentences import split_sentences

if TYPE_CHECKING:
    from alignatt_agent.engine.host import Engines

QUIET_S = 0.3
"""A piece ends in the middle of the quietest stretch of this length."""

PIECE_S, MICRO_PIECE_S = 30.0, 8.0

EPILOG = """\
example
  alignatt-offline --config micro-low --target de it zh --devset micro_models/devset \\
      --output outputs/offline

OUT/transcript.txt holds one recording per line, OUT/TARGET/hypothesis.txt its translation,
OUT/TARGET/offline.json the scores with a signature.

exit status: 0 scored; 1 the run failed; 2 nothing was started
"""


def pieces(wav: Path, longest_s: float) -> Iterator[FloatArray]:
    """Yield a recording in pieces of at most ``longest_s`` that end where it is quiet."""
    longest = round(longest_s * SAMPLE_RATE)
    rest = np.zeros(0, np.float32)
    with wave.open(str(wav), "rb") as stream:
        while True:
            data = stream.readframes(longest - rest.size)
            heard = np.frombuffer(data, "<i2").astype(np.float32) / 2**15
            rest = np.concatenate([rest, heard])
            if rest.size < longest:
                break
            cut = quietest(rest)
            yield rest[:cut]
            rest = rest[cut:]
    if rest.size:
        yield rest


def quietest(audio: FloatArray) -> int:
    """Return the sample in the second half of ``audio`` around which it is quietest."""
    frame = SAMPLE_RATE // 100
    width = round(QUIET_S * 100)
    half = audio.size // frame // 2
    frames = audio[half * frame :][: (audio.size // frame - half) * frame].reshape(-1, frame)
    power = np.square(frames, dtype=np.float64).mean(axis=1)
    if len(power) <= width:
        return int(audio.size)
    smooth = np.convolve(power, np.ones(width), "valid")
    return int((half + int(smooth.argmin()) + width // 2) * frame)


def transcribe(engines: Engines, devset: DevSet, source: str, longest_s: float) -> dict[str, str]:
    """Return the transcript of every recording."""
    found: dict[str, str] = {}
    for talk in devset.talks:
        with tqdm(total=talk.seconds, desc=f"transcribing {talk.name}", unit="s") as bar:
            texts = []
            for piece in pieces(talk.wav, longest_s):
                texts.append(engines.asr.transcribe(piece, source))
                bar.update(piece.size / SAMPLE_RATE)
        found[talk.name] = " ".join(" ".join(texts).split())
    return found


def translate(
    config: AgentConfig, engines: Engines, transcripts: dict[str, str], source: str, target: str
) -> dict[str, str]:
    """Return the translation of every transcript, sentence by sentence and without a gate."""
    goal = language(target)
    found: dict[str, str] = {}
    for talk, text in transcripts.items():
        translator = build_session(config, engines, language(source), goal).translator
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
    choice: AgentChoice, engines: Engines, devset: DevSet, targets: Sequence[str], output: Path,
    longest_s: float,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Run the whole cascade off-line and write its scores.

    Raises:
        EngineError: an engine failed.
        ScoringError: OmniSTEval failed.
    """
    assert choice.config is not None
    source = choice.config.source_language
    output.mkdir(parents=True, exist_ok=True)
    heard = transcribe(engines, devset, source, longest_s)
    text = "".join(f"{heard[talk.name]}\n" for talk in devset.talks)
    (output / "transcript.txt").write_text(text, encoding="utf-8")
    errors = word_error_rate(devset, heard) if devset.transcript is not None else {}
    rows: dict[str, dict[str, Any]] = {}
    for target in targets:
        translations = translate(choice.config, engines, heard, source, target)
        scores = score_offline(output / target, devset, target, translations)
        signature = {**sign(choice, devset, target), "latency": "off-line", "piece_s": longest_s}
        rows[target] = {**scores, **errors, "signature": signature}
        content = json.dumps(rows[target], indent=2, ensure_ascii=False)
        (output / target / "offline.json").write_text(content + "\n", encoding="utf-8")
    return rows


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
        help="longest piece of audio that the recogniser takes, in seconds; default "
        f"{PIECE_S:.0f}, with the embedded models {MICRO_PIECE_S:.0f} (they know single sentences)",
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    arguments = parser.parse_args(argv)
    from alignatt_agent.engine.host import load_engines, shutdown

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
    except (
        CheckpointError, ConfigError, DevSetError, HeadSetError, LanguageError, ScoringError,
    ) as error:  # fmt: skip
        print(f"alignatt-offline: {error}", file=sys.stderr)
        return 2
    try:
        engines = load_engines(models, ())
        longest = arguments.piece_s or (MICRO_PIECE_S if is_micro(choice) else PIECE_S)
        rows = run(choice, engines, devset, codes, arguments.output, longest)
    finally:
        shutdown()
    print(f"{'target':<8}{'BLEU':>8}{'chrF':>8}{'WER %':>8}")
    for target, row in rows.items():
        print(
            f"{target:<8}{row['bleu']:>8.2f}{row['chrf']:>8.2f}{row.get('wer', float('nan')):>8.2f}"
        )
    if is_micro(choice):
        print(f"** {MICRO_LABEL} **")
    return 0


if __name__ == "__main__":
    sys.exit(main())
