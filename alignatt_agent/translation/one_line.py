"""A translation is one line: later lines of a chat model are not part of it.

After a line break, instructed models comment on a translation, repeat it or answer it. The prompt
has one line to translate, so the first line break ends a draft like the end of a turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from alignatt_agent.types import Draft

Ids = Sequence[int]


def first_line(
    draft: Draft, before: Ids, text: Callable[[Ids], str], ids: Callable[[str], Ids]
) -> Draft:
    r"""Return ``draft`` up to its first line break, marked as ended there.

    A token may hold the end of the text and the break (``".\n\n"``); it becomes its text alone.

    Args:
        draft: the continuation of ``before``.
        before: accepted translation.
        text: decodes ids.
        ids: encodes text.
    """
    texts = [
        text([*before, *draft.token_ids[:k]]).lstrip() for k in range(len(draft.token_ids) + 1)
    ]
    k = next((k for k, line in enumerate(texts[1:]) if "\n" in line), None)
    if k is None:
        return draft
    line = texts[k + 1].partition("\n")[0]
    rest = ids(line[max(len(texts[0]), len(texts[k])) :].rstrip())
    places = [*range(k), *[k] * len(rest)]
    return replace(
        draft,
        token_ids=(*draft.token_ids[:k], *rest),
        rows=None if draft.rows is None else draft.rows[np.array(places, np.intp)],
        probabilities=tuple(draft.probabilities[at] for at in places if draft.probabilities),
        ended=True,
        cut=False,
    )
