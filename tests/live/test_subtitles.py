"""Cues that can be read: order, width, time; and their files."""

import html
import itertools
import re

import av
import numpy as np
import pytest
import webvtt
from hypothesis import given, settings
from hypothesis import strategies as st

from alignatt_agent.config.languages import language
from alignatt_agent.live.cue_times import SHIFTS_S
from alignatt_agent.live.cues import (
    GAP_S,
    LINES,
    LONGEST_S,
    SHORTEST_S,
    SPACED,
    UNSPACED,
    Cue,
    Said,
    width,
)
from alignatt_agent.live.cues_from_units import said_cues, spoken_cues, too_fast
from alignatt_agent.live.outputs import build_output
from alignatt_agent.live.subtitle_formats import JOINER, srt, vtt
from alignatt_agent.types import SourceSpan

MS = 1e-3


def words(text, start=0.0, step=0.3, spaced=True):
    parts = [f" {part}" for part in text.split()] if spaced else re.findall(r"[ -~]+|.", text)
    return [
        Said(part, SourceSpan(start + k * step, start + (k + 0.9) * step), start + k * step + 1)
        for k, part in enumerate(parts)
    ]


WORDS = st.text("abcäß.,!?“-<&>è1", min_size=1, max_size=60)
CHARACTERS = st.sampled_from("我们。，GPU3.“”模型")


@st.composite
def talks(draw):
    """Units as translations give them: out of order, close together, with pauses."""
    form = draw(st.sampled_from([SPACED, UNSPACED]))
    texts = draw(st.lists(WORDS if form.spaced else CHARACTERS, min_size=1, max_size=60))
    units, time, at = [], 0.0, 0.0
    for text in texts:
        time += draw(st.sampled_from([0.0, 0.1, 0.3, 0.5, 2.0, 9.0]))
        at += draw(st.sampled_from([0.0, 0.0, 0.25, 3.0]))
        start = max(0.0, time + draw(st.sampled_from([-2.0, 0.0, 0.0, 1.0])))
        spoken = SourceSpan(start, start + draw(st.sampled_from([0.0, 0.2, 1.0, 8.0])))
        units.append(Said(f" {text}" if form.spaced else text, spoken, at))
    return form, units


def check(cues, form, gap_s=0.0):
    """Check what is true of cues on any clock."""
    for cue in cues:
        assert 1 <= len(cue.lines) <= LINES
        assert all(0 < width(line) <= form.columns for line in cue.lines)
        assert all(line == line.strip() for line in cue.lines)
        assert cue.start < cue.end <= cue.start + LONGEST_S + MS
    assert all(b.start - a.end >= gap_s - 1e-9 for a, b in itertools.pairwise(cues))


@settings(max_examples=150, deadline=None)
@given(talks())
def test_cues_of_a_recording(talk):
    form, units = talk
    cues = spoken_cues(units, form)
    check(cues, form, GAP_S - MS)
    # Everything is there, in order.
    shown = "".join("".join(line.split()) for cue in cues for line in cue.lines)
    assert shown == "".join(unit.text.strip() for unit in units)
    assert all(cue.end - cue.start >= SHORTEST_S - MS for cue in cues)
    assert cues[0].start <= units[0].spoken.start


@settings(max_examples=150, deadline=None)
@given(talks())
def test_captions_as_they_were_said(talk):
    form, units = talk
    cues = said_cues(units, form)
    check(cues, form)
    assert [cue.start for cue in cues] == sorted({unit.at for unit in units})
    for cue in cues:
        said = "".join(unit.text.strip() for unit in units if unit.at <= cue.start)
        assert said.endswith("".join("".join(cue.lines).split()))


@pytest.mark.parametrize(
    "shown",
    [
        "Glücklicherweise sollte der Freund unsere / Sätze schicken, "
        "wenn er die Bücher ändert. | Ja.",
        "Wenn er alle Bücher ändert, / sollte der Freund es sagen.",
        "我们今天要说一说很长的句子因 / 为它们很有意思，真的很有意思。",  # sixteen characters
        "这是一个用来训练模型的 / 很大GPUCluster3.5机器。",  # a run of letters is not torn
    ],
)
def test_cues_end_with_sentences_and_lines_with_clauses(shown):
    form = UNSPACED if "的" in shown else SPACED
    said = words(re.sub(r"[/|]", "", shown), step=0.3 if form.spaced else 0.15, spaced=form.spaced)
    cues = spoken_cues(said, form)
    assert " | ".join(" / ".join(cue.lines) for cue in cues) == shown


def test_a_long_pause_parts_cues():
    units = [*words("So ist es,"), *words("sagte er.", start=4.0)]
    assert [cue.lines for cue in spoken_cues(units, SPACED)] == [("So ist es,",), ("sagte er.",)]


def test_a_cue_begins_with_its_earliest_word_and_ends_with_its_latest():
    units = [
        Said(" Heute", SourceSpan(3.0, 3.4), 5.0),
        Said(" kommt", SourceSpan(4.4, 4.9), 5.2),
        Said(" er.", SourceSpan(2.5, 2.9), 5.3),
    ]
    (cue,) = spoken_cues(units, SPACED)
    assert (cue.start, cue.end, cue.lines) == (2.5, 4.9, ("Heute kommt er.",))


LATE_VERB = [
    *(("Ein", 71.6, 71.68), ("Manager", 71.68, 72.16), ("hat", 72.16, 72.48)),
    *(("gedacht,", 72.16, 72.72), ("dass", 72.48, 72.72), ("ich", 72.72, 72.88)),
    *(("diese", 73.68, 73.92), ("Gelände", 73.92, 74.4), ("mit", 74.4, 74.56)),
    *(("unseren", 74.56, 74.8), ("Listen", 74.8, 75.28), ("geschlossen", 73.12, 73.68)),
    *(("habe.", 72.88, 75.28), ("Wir", 76.4, 76.6), ("können", 76.6, 77.0), ("das.", 77.0, 77.4)),
]
"""Units of a talk of the embedded dev set: the last word translates an early one."""


def test_a_late_verb_joins_a_cue_that_can_be_read():
    units = [Said(f" {text}", SourceSpan(start, end), end) for text, start, end in LATE_VERB]
    cues = spoken_cues(units, SPACED)
    assert [" ".join(cue.lines) for cue in cues] == [
        "Ein Manager hat gedacht,",
        "dass ich diese Gelände mit unseren Listen geschlossen habe.",
        "Wir können das.",
    ]
    assert too_fast(cues, SPACED) == 0
    assert cues[0].start == pytest.approx(71.6 - 0.1, abs=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_no_cue_begins_far_from_its_words_or_inside_the_one_before(seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(6, 16, 60)
    units, time = [], 0.0
    for length in lengths.tolist():  # twenty characters a second: faster than can be read
        for k in range(length):
            text = " " + "a" * int(random.integers(2, 11)) + "." * (k == length - 1)
            spoken = SourceSpan(time, time + (len(text) - 1) / 20)
            units.append(Said(text, spoken, time))
            time += len(text) / 20
    cues, rest = spoken_cues(units, SPACED), iter(units)
    for cue in cues:
        own = [next(rest) for _ in " ".join(cue.lines).split()]
        off_s = cue.start - own[0].spoken.start
        assert SHIFTS_S[0] - 1e-6 <= off_s <= SHIFTS_S[-1] + 1e-6
        assert sum(map(len, cue.lines)) <= 25 * (cue.end - cue.start) + 1e-6
        inner = [unit.text.endswith(".") for unit in own]
        assert not any(inner[:-1]) or inner[-1]


def test_a_cue_waits_where_one_delay_saves_two_fast_cues():
    texts = [(2.0, 40), (2.0, 40), (2.0, 30), (9.0, 20)]  # seconds and columns of sentences
    begins = itertools.accumulate((0.0, *(length for length, _ in texts[:-1])))
    units = [
        Said(" " + "a" * (size - 1) + ".", SourceSpan(at, at + length), at)
        for at, (length, size) in zip(begins, texts, strict=True)
    ]
    cues = spoken_cues(units, SPACED)
    assert too_fast(cues, SPACED) == 0
    assert [cue.start for cue in cues] == pytest.approx([0.0, 2.5, 5.0, 6.9], abs=0.31)


def test_cues_above_the_reading_speed_are_counted():
    slow, fast = Cue(0.0, 4.0, ("x" * 40, "x" * 20)), Cue(5.0, 6.0, ("x" * 18,))
    assert too_fast([slow, fast], SPACED) == 1
    assert too_fast([Cue(0.0, 1.0, ("字" * 9,))], UNSPACED) == 0
    assert too_fast([Cue(0.0, 1.0, ("字" * 10,))], UNSPACED) == 1


def test_captions_roll_up():
    units = [Said(f" {'wort' * 4}{k}", SourceSpan(0, 1), k / 2) for k in range(5)]
    cues = said_cues(units, SPACED)
    a, b, c, d, e = (unit.text.strip() for unit in units)
    whole = (a,), (f"{a} {b}",), (f"{a} {b}", c), (f"{a} {b}", f"{c} {d}"), (f"{c} {d}", e)
    assert tuple(cue.lines for cue in cues) == whole
    assert (cues[-1].start, cues[-1].end) == (2.0, 2.0 + LONGEST_S)
    assert all(a.end == b.start for a, b in itertools.pairwise(cues))


def test_golden_files():
    cues = [Cue(0.5, 2.0, ("A & B", "<i> --> C")), Cue(3723.0004, 3724.9996, ("字。",))]
    assert srt(cues) == (
        "1\n00:00:00,500 --> 00:00:02,000\nA & B\n<\u2060i> --\u2060> C\n\n"
        "2\n01:02:03,000 --> 01:02:05,000\n字。\n"
    )
    assert vtt(cues) == (
        "WEBVTT\n\n00:00:00.500 --> 00:00:02.000\nA &amp; B\n&lt;i&gt; --&gt; C\n\n"
        "01:02:03.000 --> 01:02:05.000\n字。\n"
    )
    assert srt(spoken_cues([], SPACED)) == ""
    assert vtt(said_cues([], SPACED)) == "WEBVTT\n"


def shown_by_ffmpeg(text, folder):
    """Return the lines of each cue that FFmpeg shows, without overrides in braces."""
    path = folder / "talk.srt"
    path.write_text(text, encoding="utf-8")
    cues = []
    with av.open(str(path)) as container:
        for packet in container.demux():
            cues += [found.ass.decode().split(",", 8)[8] for found in packet.decode()]
    return [re.sub(r"\{[^}]*\}", "", cue).replace(JOINER, "") for cue in cues]


@pytest.mark.parametrize(
    "line",
    [
        "Der Typ List<String> und vector<int>.",
        "Ein <b>Tag</b>, </s> und <font color=red>",
        "wenn x<y und y>z, dann <3",
        r"{\an8}oben, {y:i} und {braces}",
        "nur eine { Klammer",
        r"C:\Neu\new\h",
        "AT&amp;T &lt;b&gt; &#60;",
        "00:00:01,000 --> 00:00:02,000",
    ],
)
def test_markup_stays_visible(tmp_path, line):
    cues = [Cue(0.0, 1.0, (line,)), Cue(1.0, 2.0, ("Ende",))]
    braces = str.maketrans("{}", "\uff5b\uff5d")
    assert shown_by_ffmpeg(srt(cues), tmp_path) == [line.translate(braces), "Ende"]
    (tmp_path / "talk.vtt").write_text(vtt(cues), encoding="utf-8")
    raw = [cue.raw_text for cue in webvtt.read(str(tmp_path / "talk.vtt"))]
    assert [html.unescape(text) for text in raw] == [line, "Ende"]
    assert not any("<" in text or "-->" in text for text in raw)


LATIN_FIRST, ARABIC = "GPT-4 خوب است (BLEU 30).", "مدل GPT-4 بهتر است."


def test_lines_have_the_direction_of_their_language():
    cues = [Cue(0.0, 1.0, (LATIN_FIRST, ARABIC)), Cue(1.0, 2.0, ("30 %",))]
    lines = srt(cues, rtl=True).split("\n")
    assert [*lines[2:4], lines[7]] == [
        f"\u202b{line}\u202c" for line in (LATIN_FIRST, ARABIC, "30 %")
    ]
    lines = vtt(cues, rtl=True).split("\n")
    assert [*lines[3:5], lines[7]] == [f"\u200f{LATIN_FIRST}", ARABIC, "\u200f30 %"]
    cues = [Cue(0.0, 1.0, ("العربية ist Arabisch.", "GPT-4 und العربية", "30 %"))]
    for text in (srt(cues), vtt(cues)):
        *_, first, second, third, _ = text.split("\n")
        assert (first, second, third) == ("\u200eالعربية ist Arabisch.", *cues[0].lines[1:])


@pytest.mark.parametrize("code", ["ar", "fa"])
def test_subtitle_files_have_the_direction_of_the_target(tmp_path, code):
    for form, begin in (("srt", "\u202b"), ("vtt", "\u200f")):
        stem = tmp_path / "talk"
        output = build_output(form, language(code), "spoken", stem, labelled=False)
        output.say(words(LATIN_FIRST))
        output.close()
        text = (tmp_path / f"talk.{code}.{form}").read_text(encoding="utf-8")
        assert f"\n{begin}GPT-4" in text
