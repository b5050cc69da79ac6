"""Engines without models, for the real agent.

A fake talk is a sequence of blocks of half a second. Block ``k`` has the constant level
``0.1 + (k + 1) / 1000``, so the fake recognizer returns word ``k`` wherever the live tail is cut.
"""

import itertools
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
import yaml
from simulstream.config import yaml_config
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from alignatt_agent import cli
from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.runtime import Runtime
from alignatt_agent.types import SAMPLE_RATE, Draft, EngineError, Transcript
from alignatt_agent.types.engines import AlignedItem
from tests.fakes.models import make_rows

BLOCK = SAMPLE_RATE // 2
SENTENCE = 6
LAYERS, HEADS = 4, 2
CHAT = (
    "{% for m in messages %}<{{ 'model' if m['role'] == 'assistant' else m['role'] }}>"
    "{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<model>{% endif %}"
)


def evaluate(arguments) -> int:
    """Run ``simulstream-eval`` in this process; returns the exit status."""
    return cli.run("eval", arguments, "simulstream-eval")


def word(k: int) -> str:
    return f"word{k}" + ("." if k % SENTENCE == SENTENCE - 1 else "")


def translated(source: str, chinese: bool) -> str:
    number = "".join(char for char in source if char.isdigit()) or "0"
    stop = source.endswith(".")
    if chinese:
        return "字" + "零一二三四五六七八九"[int(number) % 10] + ("。" if stop else "")
    return f"Wort{number}" + ("." if stop else "")


def talk(words: int, extra_samples: int = 0) -> np.ndarray:
    levels = np.repeat(0.1 + (np.arange(words) + 1) / 1000, BLOCK)
    return np.concatenate([levels, np.full(extra_samples, 0.1 + words / 1000)]).astype(np.float32)


def write_talk(path: Path, samples: np.ndarray, rate: int = SAMPLE_RATE, channels: int = 1) -> None:
    frames = np.round(samples * 32768).astype(np.int16).reshape(-1, channels)
    soundfile.write(path, frames, rate)


def heard(audio: np.ndarray) -> list[tuple[int, float, float]]:
    """Return the blocks of a piece of audio: number, start and end in seconds.

    A gap within a block does not split it: a browser on a busy machine inserts silence.
    """
    numbers = np.round((audio - 0.1) * 1000).astype(int) - 1
    blocks: list[tuple[int, float, float]] = []
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for begin, end in itertools.pairwise(edges):
        if end - begin >= BLOCK // 4 and numbers[begin] >= 0:
            block = int(numbers[begin]), begin / SAMPLE_RATE, end / SAMPLE_RATE
            if blocks and blocks[-1][0] == block[0]:
                block = block[0], blocks.pop()[1], block[2]
            blocks.append(block)
    return blocks


class FakeRecognizer:
    contexts: list[str] = []

    def transcribe(self, audio, language, context="", expected=""):
        self.contexts.append(context)
        return Transcript(" ".join(word(k) for k, _, _ in heard(audio)))


class FakeAligner:
    def align(self, audio, text, language):
        return [AlignedItem(word(k).rstrip("."), start, end) for k, start, end in heard(audio)]


class FakeTranslation:
    """Translates word by word, and attends to the word that it translates."""

    prompts: list[str] = []

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.fail = False
        self.entered = threading.Event()
        self.released = threading.Event()
        self.released.set()

    def draft(self, request):
        prompt, max_tokens = request.prompt, request.max_tokens
        self.entered.set()
        self.released.wait(30)
        if self.fail:
            raise EngineError("fake translation model: out of memory")
        text = self.tokenizer.decode(prompt.token_ids)
        self.prompts.append(text)
        span = prompt.token_ids[prompt.source_start : prompt.source_end]
        accepted = text.rpartition("<model>")[2]
        chinese = "Chinese" in text
        pieces = [translated(item, chinese) for item in self.tokenizer.decode(span).split()]
        joiner = "" if chinese else " "
        ids: list[int] = []
        owner: list[int] = []
        for k, piece in enumerate(pieces):
            new = self.tokenizer.encode(joiner + piece, add_special_tokens=False)
            ids += new
            owner += [k] * len(new)
        begun = accepted and joiner + accepted.lstrip()
        done = len(self.tokenizer.encode(begun, add_special_tokens=False))
        ids, owner = ids[done : done + max_tokens], owner[done : done + max_tokens]
        rows = None
        if request.readout is not None:
            at = np.equal.outer(owner, prompt.token_word)
            source = 0.8 * at / np.maximum(at.sum(1, keepdims=True), 1)
            rows = make_rows(np.repeat(source[:, None], len(request.readout.heads), axis=1))
        return Draft(tuple(ids), len(ids) < max_tokens, rows)


@dataclass
class FakeEngines:
    tokenizer: object = field(default_factory=lambda: byte_tokenizer())
    asr: object = field(default_factory=FakeRecognizer)
    aligner: object = field(default_factory=FakeAligner)
    translation: object = None
    num_layers: int = LAYERS
    num_heads: int = HEADS

    def __post_init__(self):
        self.translation = self.translation or FakeTranslation(self.tokenizer)


class FakeRuntime(Runtime):
    """The real runtime on engines without models; ``engines`` may be given.

    ``started`` has the recognizer of each start, and whether the engines were warmed up.
    """

    def __init__(self, engines=None):
        super().__init__()
        self.engines, self.started, self.dead = engines, [], False

    @property
    def starts(self):
        return len(self.started)

    def check(self, resolved, longest_s=None):
        pass

    def alive(self):
        return not self.dead

    def _start(self, key, warm):
        self.started.append((key[-1], warm))
        self.dead = False
        return self.engines or FakeEngines()


class FakeAgent(AlignAttAgent):
    """The real agent on a fake runtime; each test has a new runtime."""

    runtime = FakeRuntime()


def byte_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)
    fast.chat_template = CHAT
    return fast


def head_set(direction: str = "en-de", **changes) -> dict:
    content = {
        "model": "checkpoints/fake-mt",
        "revision": None,
        "direction": direction,
        "row": "predicting",
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "heads": [{"layer": 1, "head": 0, "ts": 0.9}, {"layer": 2, "head": 1, "ts": 0.8}],
    }
    return content | changes


def write_config(folder: Path, name: str = "fake", **changes) -> Path:
    """Write a valid configuration, its head sets and empty checkpoints below ``folder``."""
    models_section = {}
    for role in ("asr", "aligner", "translation"):
        checkpoint = folder / "checkpoints" / ("fake-mt" if role == "translation" else role)
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "config.json").write_text("{}")
        (checkpoint / "model.safetensors").write_bytes(b"")
        models_section[role] = {"path": str(checkpoint)}
    head_sets = {}
    for code in ("de", "zh"):
        path = folder / f"fake-en-{code}.json"
        path.write_text(json.dumps(head_set(f"en-{code}")))
        head_sets[code] = str(path)
    content = {
        "type": "tests.fakes.agent.FakeAgent",
        "chunk_ms": 850,
        "max_draft_tokens": 64,
        "models": models_section,
        "head_sets": head_sets,
        "speech": {"hold_back_ms": 0},
        "policy": {"top_k": 2, "normalize": "none", "median_width": 1, "border_margin": 0},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return path


def loaded_agent(folder: Path, **changes) -> FakeAgent:
    """Return an agent whose engines are loaded, with a configuration of ``write_config``."""
    config = yaml_config(str(write_config(folder, **changes)))
    FakeAgent.load_model(config)
    return FakeAgent(config)


def write_devset(root: Path, lengths: tuple[int, ...] = (13, 8)) -> Path:
    """Write a dev set of fake talks with their numbers of words, and the references."""
    (root / "wav").mkdir(parents=True, exist_ok=True)
    (root / "ref").mkdir(exist_ok=True)
    segments, references = [], {"en": [], "de": [], "zh": []}
    for number, words in enumerate(lengths):
        name = f"talk{number}.wav"
        write_talk(root / "wav" / name, talk(words, extra_samples=1))
        for begin in range(0, words, SENTENCE):
            end = min(begin + SENTENCE, words)
            segments.append({"wav": name, "offset": begin / 2, "duration": (end - begin) / 2})
            sentence = [word(k) for k in range(begin, end)]
            references["en"].append(" ".join(sentence))
            references["de"].append(" ".join(translated(item, False) for item in sentence))
            references["zh"].append("".join(translated(item, True) for item in sentence))
    (root / "audio-segments.yaml").write_text(yaml.safe_dump(segments))
    for code, lines in references.items():
        (root / "ref" / f"{code}.txt").write_text("".join(f"{line}\n" for line in lines))
    return root
