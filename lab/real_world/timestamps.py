"""Compare Whisper's own timestamps with the times of cross-attention at the ends of sentences.

Talks of a dev set are cut between sentences into pieces of at most 28 s. Whisper transcribes each
piece twice: with its timestamp tokens, and without them. A sentence ends where the transcript has a
final mark before a timestamp, or at a final mark whose token has a time from cross-attention.
  python -m lab.real_world.timestamps MODEL --devset DIR --output FILE
"""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import yaml

from alignatt_agent.engine.cpu_whisper import FRAME_S, CpuWhisper
from alignatt_agent.evaluation.statistics import micro
from alignatt_agent.evaluation.wer import segment_errors
from alignatt_agent.types import SAMPLE_RATE
from lab import commands

MARGIN_S, PIECE_S = 0.2, 28.0


class Timed:
    """Times of sentence ends in a piece of audio."""

    def __init__(self, path: str) -> None:
        self._model = CpuWhisper(path)
        self._tokenizer = self._model.tokenizer
        names = ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
        *self._prompt, self._without = map(self._tokenizer.convert_tokens_to_ids, names)
        self._text_end = self._tokenizer.convert_tokens_to_ids("<|endoftext|>")

    def timestamps(self, audio: Any) -> tuple[str, list[float]]:
        """Return text and times from timestamp tokens."""
        ids = self._model.generate(self._prompt, audio, 400).token_ids
        times = []
        for before, token in itertools.pairwise(ids):
            mark = before < self._text_end and self._tokenizer.decode([before])
            if token > self._without and mark and mark.strip().endswith((".", "!", "?")):
                times.append((token - self._without - 1) * FRAME_S)
        text = [token for token in ids if token < self._text_end]
        return self._tokenizer.decode(text), times

    def attention(self, audio: Any) -> tuple[str, list[float]]:
        """Return text and times from cross-attention."""
        prompt = [*self._prompt, self._without]
        ids = [
            token
            for token in self._model.generate(prompt, audio, 400).token_ids
            if token < self._text_end
        ]
        starts = self._model.token_starts(audio, prompt, ids)
        texts = [self._tokenizer.decode(ids[: k + 1]) for k in range(len(ids))]
        times = [
            starts[k]
            for k, text in enumerate(texts)
            if re.search(r"[.!?]$", text) and [*texts, text + " "][k + 1][len(text) :][:1] == " "
        ]
        return self._tokenizer.decode(ids), times


def measure(path: str, devset: Path) -> dict[str, Any]:
    """Compare both kinds of times with the known ends of the sentences."""
    listing = yaml.safe_load((devset / "audio-segments.yaml").read_text(encoding="utf-8"))
    lines = (devset / "ref/en.txt").read_text(encoding="utf-8").splitlines()
    talks: dict[str, list[tuple[float, float, str]]] = {}
    for item, text in zip(listing, lines, strict=True):
        begin = item["offset"]
        talks.setdefault(item["wav"], []).append((begin, begin + item["duration"], text))
    timed = Timed(path)
    kinds = {"timestamp tokens": timed.timestamps, "cross-attention": timed.attention}
    late: dict[str, list[float]] = {kind: [] for kind in kinds}
    found = dict.fromkeys(kinds, 0)
    errors: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for wav, sentences in talks.items():
        sound, _ = soundfile.read(devset / "wav" / wav, dtype="float32")
        while sentences:
            begin = max(0.0, sentences[0][0] - MARGIN_S)
            count = sum(end + MARGIN_S - begin < PIECE_S for _, end, _ in sentences)
            piece, sentences = sentences[:count], sentences[count:]
            first, last = (int(x * SAMPLE_RATE) for x in (begin, piece[-1][1] + MARGIN_S))
            ends = np.array([end for _, end, _ in piece])
            for kind, transcribe in kinds.items():
                text, times = transcribe(np.ascontiguousarray(sound[first:last]))
                errors[kind].append(segment_errors([said for *_, said in piece], text))
                apart = begin + np.array(times)[:, None] - ends
                nearest = apart[np.arange(len(apart)), np.abs(apart).argmin(1)]
                late[kind] += nearest[np.abs(nearest) < 1].tolist()
                found[kind] += int((np.abs(apart) < 1).any(0).sum()) if times else 0
    rows = []
    for kind, values in late.items():
        wrong, total = (np.concatenate(part) for part in zip(*errors[kind], strict=True))
        spread = np.abs(np.array(values) - np.median(values))
        rows.append(
            {
                "times": kind,
                "wer": micro(100 * wrong, total).as_json(),
                "sentences": len(lines),
                "found": found[kind],
                "late_s": round(float(np.median(values)), 3),
                "late_p90_s": round(float(np.percentile(spread, 90)), 3),
            }
        )
    return {**commands.machine(), "rows": rows}


def main() -> None:
    """Run the command line."""
    parser = commands.parser("lab.real_world.timestamps", __doc__)
    parser.add_argument("model", metavar="MODEL", help="folder of the model for CTranslate2")
    parser.add_argument("--devset", type=Path, required=True, metavar="DIR")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    commands.write_json(args.output, measure(args.model, args.devset))


if __name__ == "__main__":
    main()
