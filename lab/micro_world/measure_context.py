"""Measure how the micro translation model uses a history and a list of names."""

import math
import random
import re
from collections.abc import Sequence
from itertools import chain, islice

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
LENGTH = 10
"""Number of sentences of a talk."""
TOKENS = 512
"""Maximum number of tokens of a history."""
MAX_TARGET_TOKENS = 100
"""Maximum number of tokens of a translation."""
AT_ONCE = 8
"""Number of concurrent translations, which take a third of the time. Speech is not batched: batches
resolve near-ties differently in every run (periods per cut 22.0 to 22.8 % instead of 22.4 %).
"""


def talks(count: int) -> list[list[Pair]]:
    """Return talks of ``count`` held-out sentences whose "it" refers to a thing named before."""
    drawn = []
    for number in range(math.ceil(count / LENGTH)):
        pairs = sentences(f"{SEED} {number}", held_out=True, linked=True)
        drawn.append(list(islice(pairs, LENGTH)))
    return drawn


def context(engines: Engines, code: str, count: int) -> dict[str, float]:
    """Return shares of right pronouns with and without a history, and of names as listed.

    The history has the previous sentences with the model's translations. A name is heard in its
    other spelling.
    """
    drawn = talks(count)
    return {
        f"pronouns_k0_{code}": _pronoun_share(engines, drawn, code, history_length=0),
        f"pronouns_k2_{code}": _pronoun_share(engines, drawn, code, history_length=2),
        f"names_{code}": _name_share(engines, drawn, code),
    }


def _pronoun_share(
    engines: Engines, drawn: list[list[Pair]], code: str, history_length: int
) -> float:
    """Return how often the pronoun for "it" is that of the reference."""
    builder = _builder(engines, code)
    sources = [[pair.words for pair in talk] for talk in drawn]
    title = f"{code}, history {history_length}"
    texts = translated(engines, builder, sources, history_length, title)
    right = []
    for pair, text in zip(chain.from_iterable(drawn), chain.from_iterable(texts), strict=True):
        pronoun = pair.tree.main.subject.pronoun
        if pronoun is None or pronoun.value.en != "it":
            continue
        right.append(_subject(text, code) == _subject(pair.targets[code].text, code))
    return _share(right)


def _name_share(engines: Engines, drawn: list[list[Pair]], code: str) -> float:
    """Return how often a translation has a name in the listed spelling."""
    rng = random.Random(SEED)
    right = []
    for pair in chain.from_iterable(drawn):
        names = _names(pair)
        if not names:
            continue
        # The list has the right spellings, and the transcript has the other ones.
        lines = "\n".join(drawn_names(rng, pair.words))
        builder = _builder(engines, code, lines)
        heard = tuple(respelled(word, SPELLED) for word in pair.words)
        ((text,),) = translated(engines, builder, [[heard]])
        words = re.findall(r"\w+", text)
        right += [name in words for name in names]
    return _share(right)


def _builder(engines: Engines, code: str, lines: str = "") -> PromptBuilder:
    english, target = language("en"), language(code)
    return PromptBuilder.of(engines.tokenizer, PROMPTS["finishes"], english, target, lines)


def translated(
    engines: Engines,
    builder: PromptBuilder,
    sources: Sequence[Sequence[tuple[str, ...]]],
    history_length: int = 0,
    title: str = "",
) -> list[list[str]]:
    """Translate talks sentence by sentence, with a history of the model's own translations.

    Args:
        engines: the translation engine and its tokenizer.
        builder: writes the prompts.
        sources: for each talk, the words of each sentence.
        history_length: maximum number of previous sentences in a prompt.
        title: description of the progress bar; without it, there is no bar.

    Returns:
        For each talk, the translation of each sentence.
    """

    def translate(talk: Sequence[tuple[str, ...]]) -> list[str]:
        history = History(builder, history_length, TOKENS)
        texts = []
        for words in talk:
            request = DraftRequest(history.prompt(words, ()), MAX_TARGET_TOKENS)
            draft = engines.translation.draft(request)
            history = history.add(words, draft.token_ids)
            texts.append(str(engines.tokenizer.decode(draft.token_ids)))
        return texts

    texts = thread_map(translate, sources, max_workers=AT_ONCE, desc=title, disable=not title)
    return list(texts)


def _subject(text: str, code: str) -> str | None:
    """Return the first pronoun that may refer to a thing."""
    words: list[str] = re.findall(r"\w+", text.lower())
    for word in words:
        if word in PRONOUNS[code]:
            return word
    return None


def _names(pair: Pair) -> list[str]:
    """Return the names with two spellings in a source."""
    bare_words = [word.strip(".,") for word in pair.words]
    return [word for word in bare_words if word in SPELLED]


def _share(right: Sequence[bool]) -> float:
    return sum(right) / max(1, len(right))
