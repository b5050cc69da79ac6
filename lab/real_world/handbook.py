"""Read sentence pairs of the Debian Administrator's Handbook, and divide them into sets.

If a page and its English page have equally many paragraphs, paragraphs are paired in order, and so
are sentences. A sentence ends at a mark that no lower-case letter follows. The sets share no page
and no sentence.
"""

import html
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from alignatt_agent.config.languages import language
from alignatt_agent.types import AlignAttError
from lab.real_world.models import ARTIFACTS

HTML = Path("/usr/share/doc/debian-handbook/html")
FOLDERS: dict[str, str] = ARTIFACTS["handbook"]
SPOKEN = [*FOLDERS][:3]
SIZES = {"claims": 300, "tuning": 100}  # sentences of each dev set
TALK, FEWEST = 25, 10  # of a talk, and at most and at least of a page in a dev set

_PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,.;:'\u2019()“”!?-]+[.!?]")
_HARD_TO_SAY = re.compile(r"[():;“”]|\.\.|\b[A-Z]\.$|Section|[Cc]hapter")
_SPACED = re.compile(r"(?<=[.!?])\s+(?![a-zß-öø-ÿа-яё])")
_UNSPACED = re.compile("[^。\uff01\uff1f\\s][^。\uff01\uff1f]*[。\uff01\uff1f]")


class Sentence(NamedTuple):
    """A sentence with its translations by target; ``paragraph`` counts inside the page."""

    page: str
    paragraph: int
    source: str
    targets: dict[str, str]

    def keys(self) -> list[str]:
        """Return all texts in the form for comparison: letters and digits in lower case."""
        keys = []
        for text in (self.source, *self.targets.values()):
            characters = filter(str.isalnum, text.casefold())
            keys.append("".join(characters))
        return keys

    def speakable(self) -> bool:
        """Whether a talk may contain it."""
        # Voices are silent about brackets and quotation marks.
        if _HARD_TO_SAY.search(self.source):
            return False
        return 8 <= len(self.source.split()) <= 24


Sets = dict[str, list[Sentence]]


def read(code: str, root: Path = HTML) -> list[Sentence]:
    """Return all sentence pairs of a target language, in the order of the pages."""
    spaced = language(code).spaced
    sentences: list[Sentence] = []
    for page in sorted((root / "en-US").glob("*.html")):
        paragraphs = _paired(_paragraphs(page), _paragraphs(root / FOLDERS[code] / page.name))
        for number, (english, translated) in enumerate(paragraphs):
            split = _SPACED.split if spaced else _UNSPACED.findall
            for source, target in _paired(_SPACED.split(english), split(translated)):
                if _usable(source, target, spaced):
                    sentence = Sentence(page.stem, number, source, {code: target})
                    sentences.append(sentence)
    return sentences


def _paired(english: Sequence[str], translated: Sequence[str]) -> list[tuple[str, str]]:
    """Pair texts in order; without equally many texts there are no pairs."""
    if len(english) != len(translated):
        return []
    return list(zip(english, translated, strict=True))


def divide(seed: int, root: Path = HTML, parts: int = 1) -> tuple[Sets, Sets]:
    """Deal whole pages to the dev sets by name; pairs by target are those of the other pages.

    The sizes of the dev sets are divided by ``parts``.
    """
    pairs = {code: read(code, root) for code in FOLDERS}
    pages = _speakable_pages(pairs)
    # All draws come from one generator, so their order decides what a seed writes.
    rng = random.Random(seed)
    undealt = [page for page, sentences in sorted(pages.items()) if len(sentences) >= FEWEST]
    rng.shuffle(undealt)
    dev_sets: Sets = {}
    dealt_pages: set[str] = set()
    dealt_texts: set[str] = set()
    for name, whole_size in SIZES.items():
        size = whole_size // parts
        spoken: list[Sentence] = []
        while len(spoken) < size:
            if not undealt:
                raise AlignAttError(f"{name}: {len(spoken)} of {size} sentences found")
            page = undealt.pop()
            dealt_pages.add(page)
            new = [sentence for sentence in pages[page] if dealt_texts.isdisjoint(sentence.keys())]
            spoken += new[: size - len(spoken)]
            # A sentence that no longer fits into the set is not dealt to another one either.
            for sentence in pages[page]:
                dealt_texts.update(sentence.keys())
        dev_sets[name] = spoken
    calibration: Sets = {}
    for code, sentences in pairs.items():
        calibration[code] = _undealt(sentences, dealt_pages, dealt_texts)
        rng.shuffle(calibration[code])
    return dev_sets, calibration


def _speakable_pages(pairs: Sets) -> Sets:
    """Return the first ``TALK`` speakable sentences of every page, with all spoken targets."""
    targets: dict[str, dict[str, str]] = defaultdict(dict)
    for code in SPOKEN:
        for pair in pairs[code]:
            targets[pair.source].setdefault(code, pair.targets[code])
    pages: Sets = defaultdict(list)
    for pair in pairs[SPOKEN[0]]:
        # A sentence counts once: its repetitions get no targets.
        sentence = pair._replace(targets=targets.pop(pair.source, {}))
        if len(sentence.targets) < len(SPOKEN) or not sentence.speakable():
            continue
        if len(pages[sentence.page]) < TALK:
            pages[sentence.page].append(sentence)
    return pages


def _undealt(
    sentences: Sequence[Sentence], dealt_pages: set[str], dealt_texts: set[str]
) -> list[Sentence]:
    """Return sentences that share no page and no text with the dev sets, each source once."""
    by_source: dict[str, Sentence] = {}
    for sentence in sentences:
        source, *translations = sentence.keys()
        if sentence.page not in dealt_pages and dealt_texts.isdisjoint([source, *translations]):
            by_source[source] = sentence
    return list(by_source.values())


def _paragraphs(path: Path) -> list[str]:
    """Return the plain text of a page's paragraphs; a page that is not translated has none."""
    if not path.is_file():
        return []
    page = path.read_text(encoding="utf-8")
    # Listings and footnote marks are no part of a sentence.
    page = re.sub(r"(?s)<(pre|sup)\b.*?</\1>", "", page)
    paragraphs = []
    for marked_up in re.findall(r'<div class="para">(.*?)</div>', page, re.S):
        text = html.unescape(re.sub(r"<[^>]+>", "", marked_up))
        # Zero-width spaces mark where a line may break.
        words = text.replace("\u200b", "").split()
        paragraphs.append(" ".join(words))
    return paragraphs


def _usable(source: str, target: str, spaced: bool) -> bool:
    """Whether a pair is a plain sentence with a different translation of similar length."""
    if not 6 <= len(source.split()) <= 32 or _PLAIN.fullmatch(source) is None:
        return False
    # Characters of the target per character of English.
    shortest, longest = (0.5, 2.0) if spaced else (0.15, 0.8)
    if not shortest < len(target) / len(source) < longest:
        return False
    # A target that repeats half of the words was not translated.
    words = set(source.lower().split())
    repeated = words.intersection(target.lower().split())
    return len(repeated) < len(words) / 2
