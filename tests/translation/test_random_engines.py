"""Properties of a translator over random engines, sources and failures."""

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.engine.drafts import DraftEngine
from alignatt_agent.policy import AlignAtt
from alignatt_agent.translation.history import History
from alignatt_agent.translation.prompt import PromptBuilder
from alignatt_agent.translation.translator import Translator
from alignatt_agent.types import EngineError, SourceView
from alignatt_agent.types.engines import Readout
from tests.fakes.agent import FakeTranslation, byte_tokenizer, translated
from tests.fakes.engine import STOP, SimulatedModel, random_engine
from tests.fakes.models import READOUT, PieceTokenizer, Prompts, fail_calls, make_words
from tests.translation.test_units import clean

PIECES = [" a", " b.", "c", ".", " ", "，", "你", "好", "3", "\n", " “d", "”", "\ufffd", "  e"]
VOCABULARY = ["</s>", *PIECES]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    spaced=st.booleans(),
    failure_rate=st.sampled_from([0.0, 0.3]),
    steps=st.integers(1, 12),
)
def test_random_engines(seed, spaced, failure_rate, steps):
    """Append-only, whole units, no token past the frontier, for any drafts and revisions."""
    rng = random.Random(seed)
    tokenizer = PieceTokenizer(VOCABULARY)
    engine = random_engine(seed, len(VOCABULARY), failure_rate)
    policy = AlignAtt(border_margin=rng.randrange(3), drafts=rng.choice([1, 1, 2]))
    translator = Translator(engine, Prompts(), tokenizer, READOUT, policy, spaced, 6)
    texts = []
    spelled = ""
    for _ in range(steps):
        before, state = translator.accepted, translator._state
        texts = texts[: rng.randint(0, len(texts))] + rng.choices(
            ["the", "cat.", "sat", "I"], k=rng.randint(0, 3)
        )
        words = make_words(" ".join(texts))
        closes = bool(words) and rng.random() < 0.25
        count = rng.randint(1, len(words)) if closes else len(words)
        try:
            if closes:
                emission = translator.complete(words[:count])
            else:
                emission = translator.update(SourceView(words, rng.randint(0, count)))
        except EngineError:
            assert translator._state is state
            continue
        units, gated = emission.units, translator.gated
        if gated is not None:
            read = gated.words[: gated.decision.accepted]
            assert all(word <= gated.edge for word in read)  # the border may lie inside a word
        assert len(emission.times) == len(units)
        for time in emission.times:
            assert not time.interpolated
            assert words[0].start <= time.start < time.end <= words[count - 1].end
        for unit in units:
            assert unit[:1].strip() + unit[1:] == clean(unit) != ""
        if closes:
            texts = texts[count:]
            # Tokens that move to the next utterance were already emitted.
            assert before[len(before) - len(translator.accepted) :] == translator.accepted
            spelled = clean(tokenizer.decode(list(translator.accepted)))
        elif not words:
            spelled = ""
        else:
            assert translator.accepted[: len(before)] == before
            spelled += clean("".join(units))
        assert clean(tokenizer.decode(list(translator.accepted))) == spelled


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    spaced=st.booleans(),
    normalize=st.sampled_from(["zscore", "none"]),
    median_width=st.sampled_from([1, 3]),
    margin=st.integers(-2, 2),
    taus=st.sampled_from([{}, {"tau_argmax": 0.05, "tau_src": 0.2}]),
    agreement=st.integers(1, 3),
    row=st.sampled_from(["predicting", "emitted"]),
    steps=st.integers(1, 16),
    kept=st.integers(0, 2),
)
def test_an_engine_that_stops_early_changes_nothing(
    seed, spaced, normalize, median_width, margin, taus, agreement, row, steps, kept
):
    """Same emissions, decisions and state as drafting whole and scanning, source by source.

    The same holds for verified drafts and for requests that are fed in any way.
    """
    pieces = [piece for piece in VOCABULARY if piece != "\ufffd"]
    tokenizer = PieceTokenizer(pieces if agreement == 1 else pieces[:3])  # so that drafts agree
    filters = {"normalize": normalize, "median_width": median_width}
    policy = AlignAtt(border_margin=margin, drafts=agreement, **filters, **taus)
    readout = Readout(READOUT.heads, row)
    prompts, rng = Prompts(), random.Random(seed)
    whole, early = (
        Translator(
            random_engine(seed, len(tokenizer.pieces), chance=chance),
            *(prompts, tokenizer, readout, policy, spaced, 6, both, both),
            history=History(prompts, kept, 60),
        )
        for chance, both in ((None, False), (random.Random(seed), True))
    )
    texts = ["the"]
    for _ in range(steps):
        if rng.random() < 0.5:
            texts = texts[: rng.randint(1, len(texts))] + rng.choices(["cat.", "sat"], k=2)
        words = make_words(" ".join(texts))
        view = SourceView(words, rng.randint(0, len(words)))
        assert early.update(view) == whole.update(view)
        assert early.accepted == whole.accepted
        gated = [item.gated and item.gated.decision for item in (early, whole)]
        assert gated[0] == gated[1]
        if rng.random() < 0.15:
            assert early.complete(words) == whole.complete(words)


def test_a_stopped_draft_goes_on_where_the_gate_opens():
    model = SimulatedModel(seed=3, vocabulary=3)
    engine = DraftEngine(model, READOUT.heads, frozenset({STOP}))
    policy = AlignAtt(border_margin=0, normalize="none", median_width=1)
    tokenizer = PieceTokenizer(VOCABULARY[:3])
    translator = Translator(engine, Prompts(), tokenizer, READOUT, policy, True, 16, verify=False)
    words = make_words("I saw the old house there")
    for accessible in range(1, len(words) + 1):
        translator.update(SourceView(words, accessible))
    lengths = [length for length, _ in model.asked]
    assert len(lengths) > 1
    assert lengths == sorted(set(lengths))  # never started again


@settings(max_examples=200, deadline=None)
@given(
    sentences=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    margin=st.integers(0, 12),
    max_tokens=st.integers(2, 16),
    fail=st.booleans(),
)
def test_nothing_is_lost_or_translated_twice(sentences, seed, margin, max_tokens, fail):
    """A word-by-word model over live views that run ahead of the closed sentences."""
    rng = random.Random(seed)
    ends = list(itertools.accumulate(sentences))
    script = [f"w{i}e" + "." * (i + 1 in ends) for i in range(ends[-1])]
    whole = [f" {translated(word, chinese=False)}" for word in script]
    tokenizer = byte_tokenizer()
    prompts, engine = PromptBuilder(tokenizer, "English", "German"), FakeTranslation(tokenizer)
    fail_calls(engine, "draft", {rng.randint(1, 12), rng.randint(1, 12)} if fail else ())
    policy = AlignAtt(border_margin=margin, normalize="none", median_width=1)
    translator = Translator(engine, prompts, tokenizer, READOUT, policy, True, max_tokens)
    emitted, begin, heard = [], 0, 0
    while begin < len(script):
        heard = min(len(script), max(heard, begin) + rng.randrange(4))
        done = [end for end in ends if begin < end <= heard]
        try:
            if done and (rng.random() < 0.4 or heard == len(script)):
                emitted += translator.complete(make_words(" ".join(script[begin : done[0]]))).units
                begin = done[0]
            elif heard > begin:
                view = make_words(" ".join(script[begin:heard]))
                emitted += translator.update(SourceView(view, rng.randint(0, len(view)))).units
        except EngineError:
            pass
        assert emitted == whole[: len(emitted)]
    assert emitted == whole
