"""Define the models, prompts and situations of the parity matrix."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from alignatt_agent.config.agent_config import load_config
from alignatt_agent.config.checkpoints import find_files, locate_one
from alignatt_agent.config.head_sets import load_head_set
from alignatt_agent.config.languages import language
from alignatt_agent.config.resources import find_path, read_lines
from alignatt_agent.engine.proof import CPU_MODES, GPU_MODES
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types import Prompt
from alignatt_agent.types.engines import Readout
from lab.parity.cells import Ask, Head
from lab.real_world import OUTPUT
from lab.stand_ins import random_models

TRAINED = "gemma4"
"""Name of the embedded trained model; all other models are random."""

REAL = "qwen2.5-coder"
"""Name of the translation model of laptop-low, without its conversion to 8 bits."""

TARGETS = ("de", "it", "zh")

SUBJECTS = (TRAINED, "gemma4-random", "gemma3", "qwen3", "hunyuan", "llama")

OTHERS = (REAL, "gpt-oss", "cohere2", "olmoe", "apertus")
"""Models that run only if named: one whose files come from `make real`, one with attention sinks,
two that vLLM and Transformers compute differently, one whose constants vLLM keeps in bfloat16."""

BUDGET = 128
"""Number of tokens per step; longer prompts are split into chunks."""

BLOCK = 32
"""Number of tokens per cache block; prompts with an equal first block hit the prefix cache."""

ENGINE: Mapping[str, Any] = {
    "max_num_batched_tokens": BUDGET,
    "block_size": BLOCK,
    "max_model_len": 1024,
    "max_num_seqs": 16,
}
MODES = CPU_MODES
"""vLLM arguments of each engine mode."""

CUDA_MODES: Mapping[str, Mapping[str, Any]] = {
    **{name: GPU_MODES[name] for name in ("eager", "piecewise")},
    "full": {"enforce_eager": False, "compilation_config": {"cudagraph_mode": "FULL"}},
}
"""The same where there are CUDA graphs."""

ROWS: tuple[Literal["predicting", "emitted"], ...] = ("predicting", "emitted")

Dtype = Literal["float32", "bfloat16"]
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")


@dataclass(frozen=True)
class Call:
    """Requests that are submitted together; ``cold`` empties the prefix cache before."""

    asks: tuple[Ask, ...]
    cold: bool = True


Situations = dict[str, list[Call]]

Case = tuple[Prompt, tuple[Head, ...]]
"""A prompt to draft from, and the heads whose rows the gate reads."""


@dataclass(frozen=True)
class Subject:
    """A model, all of its heads, and prompts, some of which are longer than a step."""

    name: str
    path: Path
    heads: tuple[Head, ...]
    cases: Sequence[Case]

    @property
    def trained(self) -> bool:
        """Whether the model is trained, so that gate decisions are compared."""
        return self.name in (TRAINED, REAL)

    def situations(self) -> Situations:
        """Build the requests of each situation, always the same and in this order."""
        short: list[Ask] = []
        long: list[Ask] = []
        for prompt, gate_heads in self.cases:
            asks = long if len(prompt.token_ids) > BUDGET else short
            number = len(asks)
            readout = Readout(self.heads, ROWS[number % 2])
            asks.append(Ask(prompt, gate_heads, 10 + 3 * (number % 3), readout))
        plain = [replace(ask, max_tokens=8, readout=None) for ask in short[:2]]
        hits: list[Call] = []
        for ask in short + long:
            if len(ask.prompt.token_ids) > 2 * BLOCK:
                first = replace(ask, max_tokens=1, readout=None)
                hits += [Call((first,)), Call((ask,), cold=False)]
        return {
            "alone": [Call((ask,)) for ask in short],
            "batched": [Call((*short[:3], *plain, *long, *short[3:]))],
            "prefix": hits,
            "chunked": [Call((ask,)) for ask in long],
        }


def subject(name: str, folder: Path) -> Subject:
    """Prepare a model of the matrix; all but the embedded one are written to ``folder``."""
    if name == TRAINED:
        path = find_path("micro_models/gemma4")
        cases = _sentences(path, find_path("micro_models/devset"), "micro")
    elif name == REAL:
        path = _dequantized(folder / name)
        cases = _sentences(path, OUTPUT / "tuning", "qwen2.5-coder-1.5b")
    else:
        path = random_models.write(name.removesuffix("-random"), folder / name)
        cases = _random_prompts(_heads(path)[::3][:8])
    return Subject(name, path, _heads(path), cases)


def _heads(path: Path) -> tuple[Head, ...]:
    config = AutoConfig.from_pretrained(path).get_text_config(decoder=True)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    return tuple((layer, head) for layer in range(layers) for head in range(heads))


def _dequantized(path: Path) -> Path:
    """Write the model to ``path`` in bfloat16, as it is before its conversion to 8 bits."""
    model = load_config("laptop-low").models.translation
    locate_one(model)  # a missing model is an error
    if not (path / "tokenizer.json").exists():  # the last file
        files = {"pretrained_model_name_or_path": find_files(model), "gguf_file": model.gguf}
        plain = AutoModelForCausalLM.from_pretrained(**files, dtype=torch.bfloat16)
        plain.hf_quantizer = None  # refuses to save weights that are plain by now
        del plain.config.quantization_config
        plain.save_pretrained(path)
        AutoTokenizer.from_pretrained(**files).save_pretrained(path)
    return path


def _sentences(path: Path, devset: Path, head_sets: str) -> list[Case]:
    """Sentences of a dev set, some in part translated, some after another sentence."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    english = read_lines(devset / "ref" / "en.txt")
    numbers = cycle(range(len(english)))
    cases: list[Case] = []
    for number in range(2 * len(TARGETS)):
        code = TARGETS[number % len(TARGETS)]
        translated = read_lines(devset / "ref" / f"{code}.txt")
        builder = PromptBuilder(tokenizer, "English", language(code).name)
        heads = load_head_set(f"{head_sets}-en-{code}").top(8)
        counts = [1 + number % 3 * 2]
        if number % 2 == 1:
            # So many sentences are longer than a step.
            counts.append(10 + 3 * number)
        for count in counts:
            chosen = list(islice(numbers, count))
            words = " ".join(english[i] for i in chosen).split()
            first = chosen[0]
            target = tokenizer.encode(translated[first], add_special_tokens=False)
            history = History(builder, number % 2, BUDGET)  # of every other case
            history = history.remember([(english[first - 1], translated[first - 1])])
            cases.append((history.prompt(words, target[: number % 4]), heads))
    return cases


def _random_prompts(gate_heads: tuple[Head, ...]) -> list[Case]:
    """Random ids; the source is somewhere in the middle."""
    rng = np.random.default_rng(7)
    cases: list[Case] = []
    # Lengths around the token budget of a step, and some that take two or three steps.
    for length in (20, 45, 70, 100, 127, 128, 130, 200, 333):
        ids = rng.integers(random_models.FIRST_PLAIN_ID, random_models.VOCABULARY, length)
        source = tuple(range(length // 2))
        cases.append((Prompt(tuple(ids.tolist()), length // 5, source), gate_heads))
    return cases
