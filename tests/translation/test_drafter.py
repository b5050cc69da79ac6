"""Drafts: what is expected in the next one, where a line break ends one, and quotations."""

import numpy as np
import pytest

from alignatt_agent.translation.drafter import Drafter, first_line
from alignatt_agent.translation.units import UnitDecoder
from alignatt_agent.types import AttentionRows, Draft, EngineError
from alignatt_agent.types.stopwatch import Stopwatch
from tests.fakes.models import PieceTokenizer, Prompts, ScriptedEngine


@pytest.mark.parametrize(
    ("before", "pieces", "kept"),
    [
        (" Der", " Hund bellt.|\n\n|This translation|", " Hund bellt."),
        ("", "Gut|.\n\n| Note", "Gut|."),  # one token ends the text and the line
        ("", "\n|Gut|.", "\n|Gut|."),  # before the text it ends nothing
        (" Gut", ".\n", "."),
        (" Gut.", "\nIt means", ""),
        (" Gut", ".|\u2028|It means", "."),
        (" Gut", ".\r|Note", "."),
        (" Gut", "\u00a0\u00a0\u00a0|so|.\x0c", "\u00a0\u00a0\u00a0|so|."),
    ],
)
def test_a_line_break_ends_a_draft(before, pieces, kept):
    tokenizer = PieceTokenizer()
    ids = tokenizer.ids(*filter(None, pieces.split("|")))
    rows = np.arange(len(ids), dtype=np.float32)
    rows = AttentionRows(rows[:, None, None], rows[:, None], rows[:, None])
    draft = Draft(ids, False, rows, probabilities=tuple(np.linspace(0, 1, len(ids))))
    found = first_line(
        draft,
        tokenizer.ids(before),
        tokenizer.decode,
        lambda text: tokenizer.ids(text) if text else (),
    )
    wanted = tokenizer.ids(*filter(None, kept.split("|")))
    assert found.token_ids == wanted
    assert found.ended == (found.token_ids != ids)
    assert len(found.rows.source) == len(found.probabilities) == len(wanted)
    assert found.rows.suffix[:, 0].tolist() == [*range(len(wanted))]


def test_where_a_draft_was_cut_the_one_before_goes_on():
    tokenizer = PieceTokenizer()
    ids = tokenizer.ids
    drafts = [
        Draft(ids(" a", " b", " c"), True),
        Draft(ids(" a", " b"), False, cut=True),
        Draft(ids(" a", " x"), False, cut=True),
        EngineError("it failed"),
        Draft(ids(" a"), True),
    ]
    rest = Prompts(), UnitDecoder(tokenizer, True), None, 8, Stopwatch()
    drafter = Drafter(engine := ScriptedEngine(drafts), *rest, verify=True)
    prompt = Prompts().build(["a"])
    drafter.draft(["a"], prompt, ())
    begun = drafter.draft(["a"], prompt, ())
    drafter.draft(["a"], prompt, (), resumed=begun)
    with pytest.raises(EngineError):
        drafter.draft(["a"], prompt, ())
    drafter.draft(["a"], prompt, ids(" b"))
    whole = ids(" a", " b", " c")
    assert engine.expected == [(), whole, whole[2:], ids(" a", " x"), ()]

    silent = Drafter(engine := ScriptedEngine([Draft(whole, True)] * 2), *rest, verify=False)
    for _ in range(2):
        silent.draft(["a"], prompt, ())
    assert engine.expected == [(), ()]


@pytest.mark.parametrize(
    ("source", "drafts", "excluded", "text"),
    [
        ("enter", ['"|Enter| the', "Geben| Sie"], ['"'], "Geben Sie"),
        ("enter", [' |"|Enter', "„|Geben", "Geben| Sie"], ['"', "„"], "Geben Sie"),
        ("enter", ['"a', "«a", '"b', "“c", "Geben"], ['"a', "«a", '"b'], "“c"),
        ('the "enter" key', ['"|Enter|"'], [], '"Enter"'),
        ("enter", ['Geben| Sie| "x"'], [], 'Geben Sie "x"'),
        ("enter", ["’s| avonds"], [], "’s avonds"),
        ("enter", [" "], [], ""),
    ],
)
def test_a_draft_does_not_quote_the_source(source, drafts, excluded, text):
    tokenizer = PieceTokenizer()
    pieces = [tokenizer.ids(*draft.split("|")) for draft in drafts]
    engine = ScriptedEngine([Draft(ids, True, steps=1) for ids in pieces])
    units = UnitDecoder(tokenizer, True)
    drafter = Drafter(engine, Prompts(), units, None, 8, Stopwatch(), verify=True)
    words = source.split()
    draft = drafter.draft(words, Prompts().build(words), ())
    assert tokenizer.decode(list(draft.token_ids)).strip() == text
    assert drafter.steps == draft.steps == len(excluded) + 1
    assert engine.excluded[-1] == tuple(tokenizer.ids(piece)[0] for piece in excluded)
    assert drafter.expected == draft.token_ids


def test_a_quotation_may_continue_a_translation():
    tokenizer = PieceTokenizer()
    engine = ScriptedEngine([Draft(tokenizer.ids('"', "Ja"), True)])
    units = UnitDecoder(tokenizer, True)
    drafter = Drafter(engine, Prompts(), units, None, 8, Stopwatch(), verify=True)
    prefix = tokenizer.ids(" sagt", " ")
    draft = drafter.draft(["yes"], Prompts().build(["yes"], prefix), prefix)
    assert tokenizer.decode(list(draft.token_ids)) == '"Ja'
