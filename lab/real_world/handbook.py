"""Read sentence pairs of the Debian Administrator's Handbook, and divide them into sets.

If a page and its English page have equally many paragraphs, paragraphs are paired in order, and so
are sentences. A sentence ends at a mark that no lower-case letter follows. The sets share no page
and no sentence.
"""

import html
import random
import re
from collections import defaultdict
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
        texts = map(str.casefold, (self.source, *self.targets.values()))
        return ["".join(filter(str.isalnum, text)) for text in texts]

    def speakable(self) -> bool:
        """Whether a talk may contain it."""
        return 8 <= len(self.source.split()) <= 24 and not _HARD_TO_SAY.search(self.source)


Sets = dict[str, list[Sentence]]


def read(code: str, root: Path = HTML) -> list[Sentence]:
    """Return all sentence pairs of a target language, in the order of the pages."""
    found, spaced = [], language(code).spaced
    for page in sorted((root / "en-US").glob("*.html")):
        sides = _paragraphs(page), _paragraphs(root / FOLDERS[code] / page.name)
        if len(sides[0]) == len(sides[1]):
            for number, (english, translated) in enumerate(zip(*sides, strict=True)):
                split = _SPACED.split if spaced else _UNSPACED.findall
                both = _SPACED.split(english), split(translated)
                if len(both[0]) == len(both[1]):
                    pairs = (pair for pair in zip(*both, strict=True) if _usable(*pair, spaced))
                    found += [Sentence(page.stem, number, x, {code: y}) for x, y in pairs]
    return found


def divide(seed: int, root: Path = HTML, parts: int = 1) -> tuple[Sets, Sets]:
    """Deal whole pages to the dev sets by name; pairs by target are those of the other pages.

    The sizes of the dev sets are divided by ``parts``.
    """
    pairs = {code: read(code, root) for code in FOLDERS}
    targets: dict[str, dict[str, str]] = defaultdict(dict)
    for code in SPOKEN:
        for pair in pairs[code]:
            targets[pair.source].setdefault(code, pair.targets[code])
    pages: dict[str, list[Sentence]] = defaultdict(list)
    for pair in pairs[SPOKEN[0]]:
        whole = pair._replace(targets=targets.pop(pair.source, {}))  # a sentence counts once
        if len(whole.targets) == len(SPOKEN) and pair.speakable() and len(pages[pair.page]) < TALK:
            pages[pair.page].append(whole)
    rng, taken, known = random.Random(seed), set[str](), set[str]()
    dealt = [page for page, spoken in sorted(pages.items()) if len(spoken) >= FEWEST]
    rng.shuffle(dealt)
    sets: dict[str, list[Sentence]] = {name: [] for name in SIZES}
    for name, spoken in sets.items():
        while len(spoken) < (size := SIZES[name] // parts):
            if not dealt:
                raise AlignAttError(f"{name}: {len(spoken)} of {size} sentences found")
            taken.add(page := dealt.pop())
            new = [said for said in pages[page] if not known & {*said.keys()}]
            spoken += new[: size - len(spoken)]
            known = known.union(*(said.keys() for said in pages[page]))
    kept = {}
    for code, found in pairs.items():
        left = (x for x in found if x.page not in taken and not known & {*x.keys()})
        kept[code] = [*{x.keys()[0]: x for x in left}.values()]
        rng.shuffle(kept[code])
    return sets, kept


def _paragraphs(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = re.sub(r"(?s)<(pre|sup)\b.*?</\1>", "", text)
    found = re.findall(r'<div class="para">(.*?)</div>', text, re.S)
    bare = (html.unescape(re.sub(r"<[^>]+>", "", part)).replace("\u200b", "") for part in found)
    return [" ".join(part.split()) for part in bare]


def _usable(source: str, target: str, spaced: bool) -> bool:
    """Whether a pair is a plain sentence with a different translation of similar length."""
    words = {*source.lower().split()}
    shortest, longest = (0.5, 2.0) if spaced else (0.15, 0.8)
    return (
        6 <= len(source.split()) <= 32
        and _PLAIN.fullmatch(source) is not None
        and shortest < len(target) / len(source) < longest
        and len(words & {*target.lower().split()}) < len(words) / 2
    )
