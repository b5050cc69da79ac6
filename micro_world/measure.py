"""``python -m micro_world.measure``: the micro models one by one, on held-out data."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import jiwer
import numpy as np
import sacrebleu
import soundfile
import yaml
from tqdm import tqdm

from alignatt_agent.cascade import Engines, load_engines, shutdown
from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import SAMPLE_RATE, FloatArray, Word
from micro_world.corpus import TARGETS, sentences

MARGIN = 0.35
"""Seconds of audio kept after a segment, so that its full stop can be heard."""
MAX_TARGET_TOKENS = 80


def segments(devset: Path) -> Iterator[tuple[FloatArray, list[Word]]]:
    """Yield the audio of every dev segment and its gold words, timed from its start."""
    listing = yaml.safe_load((devset / "audio-segments.yaml").read_text())
    for wav in dict.fromkeys(entry["wav"] for entry in listing):
        audio, _ = soundfile.read(devset / "wav" / wav, dtype="float32")
        gold = json.loads((devset / "gold" / wav).with_suffix(".json").read_text())
        for entry in (e for e in listing if e["wav"] == wav):
            begin, end = entry["offset"], entry["offset"] + entry["duration"]
            piece = audio[int(begin * SAMPLE_RATE) : int((end + MARGIN) * SAMPLE_RATE)]
            inside = [w for w in gold if begin - 1e-3 <= w[1] < end]
            yield piece, [Word(t, a - begin, b - begin) for t, a, b in inside]


def speech(engines: Engines, devset: Path) -> dict[str, float]:
    """Measure word error rate and the mean absolute error of aligned word ends."""
    references, hypotheses, errors = [], [], []
    for audio, gold in tqdm(list(segments(devset)), desc="speech"):
        text = " ".join(word.text for word in gold)
        references.append(text)
        hypotheses.append(engines.asr.transcribe(audio, "en").text or "")
        items = engines.aligner.align(audio, text, "en")
        if len(items) != len(gold):
            raise RuntimeError(f"the aligner returned {len(items)} items for {len(gold)} words")
        errors += [abs(i.end - w.end) for i, w in zip(items, gold, strict=True)]

    def plain(text: str) -> str:
        return re.sub(r"[^\w ]", "", text).lower()

    return {
        "wer": jiwer.wer([plain(t) for t in references], [plain(t) for t in hypotheses]),
        "wer_with_punctuation": jiwer.wer(references, hypotheses),
        "aligner_mae_ms": 1000 * float(np.mean(errors)),
    }


def translation(engines: Engines, code: str, count: int) -> float:
    """Return BLEU of greedy translations of fresh held-out sentences."""
    target = language(code)
    builder = PromptBuilder(engines.tokenizer, "English", target.name)
    hypotheses, references = [], []
    for pair in tqdm(islice(sentences(4242, held_out=True), count), desc=code, total=count):
        draft = engines.translation.draft(builder.build(pair.words), MAX_TARGET_TOKENS)
        hypotheses.append(engines.tokenizer.decode(draft.token_ids))
        references.append(pair.targets[code].text)
    tokenizer = "zh" if code == "zh" else "13a"
    return float(sacrebleu.corpus_bleu(hypotheses, [references], tokenize=tokenizer).score)


def measure(engines: Engines, devset: Path, count: int) -> dict[str, float]:
    """Measure all three models; translation on ``count`` sentences."""
    figures = speech(engines, devset)
    for code in TARGETS:
        figures[f"offline_bleu_{code}"] = translation(engines, code, count)
    return figures


def main() -> None:
    """Print WER, aligner error and off-line BLEU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="micro-low")
    parser.add_argument("--devset", type=Path, default=None)
    parser.add_argument("--sentences", type=int, default=150)
    arguments = parser.parse_args()
    devset = arguments.devset or find_path("micro_models/devset")
    engines = load_engines(load_config(arguments.config).models, ())
    try:
        figures = measure(engines, devset, arguments.sentences)
    finally:
        shutdown()
    for key, value in figures.items():
        print(f"{key}: {value:.4g}")


if __name__ == "__main__":
    main()
