"""Measure how the micro translation model uses a history and a list of names."""

import random
import re
from collections.abc import Iterable, Sequence
from itertools import islice

from tqdm.contrib.concurrent import thread_map

from alignatt_agent.cascade.engines import Engines
from alignatt_agent.config.languages import language
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.types.engines import DraftRequest
from lab.micro_world.corpus import Pair, sentences
from lab.micro_world.grammar import GERMAN_IT, ITALIAN_IT
from lab.micro_world.lexicon import drawn_names
from lab.micro_world.translation_data import PROMPTS, SPELLED, respelled

SEED = 4242
PRONOUNS = {"de": set(GERMAN_IT.values()), "it": set(ITALIAN_IT.values())}
LENGTH, TOKENS, MAX_TARGET_TOKENS = 10, 512, 100
"""Number of sentences of a talk, and of tokens of its history and of a translation."""
AT_ONCE = 8
"""Number of concurrent translations, which take a third of the time. Speech is not batched: batches
resolve near-ties differently in every run (periods per cut 22.0 to 22.8 % instead of 22.4 %).
"""


def talks(count: int) -> list[list[Pair]]:
    """Return talks of ``count`` held-out sentences whose "it" refers to a thing named before."""
    seeds = [f"{SEED} {number}" for number in range(-(-count // LENGTH))]
    return [list(islice(sentences(s, held_out=True, linked=True), LENGTH)) for s in seeds]


def context(engines: Engines, code: str, count: int) -> dict[str, float]:
    """Return shares of right pronouns with and without a history, and of names as listed.

    The history has the previous sentences with the model's translations. A name is heard in its
    other spelling.
    """
    english, target, prompt = language("en"), language(code), PROMPTS["finishes"]
    said = talks(count)
    figures = {}
    for kept in (0, 2):
        builder = PromptBuilder.of(engines.tokenizer, prompt, english, target)
        told = [[pair.words for pair in talk] for talk in said]
        texts = translated(engines, builder, told, kept, f"{code}, history {kept}")
        figures[f"pronouns_k{kept}_{code}"] = _share(
            _subject(text, code) == _subject(pair.targets[code].text, code)
            for talk, lines in zip(said, texts, strict=True)
            for pair, text in zip(talk, lines, strict=True)
            if pair.tree.main.subject.pronoun and pair.tree.main.subject.pronoun.value.en == "it"
        )
    rng, found = random.Random(SEED), []
    for pair in (pair for talk in said for pair in talk if _names(pair)):
        lines = "\n".join(drawn_names(rng, pair.words))
        builder = PromptBuilder.of(engines.tokenizer, prompt, english, target, lines)
        heard = tuple(respelled(word, SPELLED) for word in pair.words)
        ((text,),) = translated(engines, builder, [[heard]])
        found += [name in re.findall(r"\w+", text) for name in _names(pair)]
    return {**figures, f"names_{code}": _share(found)}


def translated(
    engines: Engines,
    builder: PromptBuilder,
    told: Sequence[Sequence[tuple[str, ...]]],
    kept: int = 0,
    title: str = "",
) -> list[list[str]]:
    """Translate talks sentence by sentence, each with the ``kept`` previous sentences."""

    def translate(talk: Sequence[tuple[str, ...]]) -> list[str]:
        history, texts = History(builder, kept, TOKENS), []
        for words in talk:
            request = DraftRequest(history.prompt(words, ()), MAX_TARGET_TOKENS)
            draft = engines.translation.draft(request)
            history = history.add(words, draft.token_ids)
            texts.append(str(engines.tokenizer.decode(draft.token_ids)))
        return texts

    bar = {"desc": title, "disable": not title}
    return list(thread_map(translate, told, max_workers=AT_ONCE, **bar))


def _subject(text: str, code: str) -> str | None:
    """Return the first pronoun that may refer to a thing."""
    words = re.findall(r"\w+", text.lower())
    return next((word for word in words if word in PRONOUNS[code]), None)


def _names(pair: Pair) -> list[str]:
    return [name for word in pair.words if (name := word.strip(".,")) in SPELLED]


def _share(right: Iterable[bool]) -> float:
    found = list(right)
    return sum(found) / max(1, len(found))
