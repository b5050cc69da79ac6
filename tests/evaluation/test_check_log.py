"""Every rule about logs, each on a log that breaks it: what scoring and what a submission says."""

import json
from pathlib import Path

import pytest

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import check_log, refuse
from alignatt_agent.evaluation.delays import delay_faults, log_notes
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.log import Log, LogError, TalkLog, parse_log
from alignatt_agent.evaluation.subwords import (
    BYTE_LEVEL,
    SENTENCEPIECE,
    SUBWORD_NMT,
    WORDPIECE,
    kind_of_pieces,
)
from tests.evaluation import logs
from tests.evaluation.logs import chunk
from tests.fakes import agent as fakes

TALKS = {"talk0": 2.0, "talk1": 1.7}
CHUNK_MS = 850


def log_lines(target="de"):
    """A log without fault: two talks, one of which is a whole number of chunks long."""
    units = {"de": ["das", "ist"], "zh": ["这", "是"]}[target]
    lines = [{"model_loading_time": 1.5}]
    for number, (name, seconds) in enumerate(TALKS.items()):
        lines.append({"id": number, "metadata": {"wav_name": f"/data/{name}.wav"}})
        lines += [chunk(number, end, units) for end in (0.85, 1.7, seconds)]
    return lines


def edit(*places, **changes):
    return lambda lines: [
        {**line, **changes} if k in places else line for k, line in enumerate(lines)
    ]


def say(*units):
    return edit(3, generated_tokens=list(units))


def append(*more):
    return lambda lines: [*lines, *more]


def drop(*places):
    return lambda lines: [line for k, line in enumerate(lines) if k not in places]


def pieces(mark):
    return lambda lines: json.loads(
        json.dumps(lines, ensure_ascii=False).replace('"das"', f'"{mark}das"')
    )


def talk_again(number):
    """Stream the second talk again as stream ``number``, from another folder."""
    return lambda lines: [
        *lines,
        {"id": number, "metadata": {"wav_name": "elsewhere/talk1.wav"}},
        *({**line, "id": number} for line in lines[6:]),
    ]


RERUN, FORMAT = "rerun-appended", "log-format"
SPACE = "contains white space, which the scorers count differently"
NAN = json.loads("NaN")

# mutation -> rules of a submission, rules of scoring, part of the first message
RULES = [
    (lambda lines: lines, "", "", ""),
    (lambda lines: lines * 2, f"{RERUN} duplicate-talk", f"{RERUN} duplicate-talk",
     "the log contains 2 runs, which start at lines 1, 10"),
    (lambda lines: lines + lines[2:5], f"{RERUN}", f"{RERUN}", "jumps back from 2.00 s to 0.85 s"),
    (drop(0), FORMAT, "", "contains no line with model_loading_time"),
    (talk_again(2), "duplicate-talk", "duplicate-talk", "talk1 was streamed 2 times (lines 6, 10)"),
    (drop(5, 6, 7, 8), "missing-talk", "missing-talk", "contains 1 of 2 talks; missing: talk1"),
    (edit(5, metadata={"wav_name": "other.wav"}), "missing-talk unknown-talk",
     "missing-talk unknown-talk", "the log contains 1 of 2 talks; missing: talk1"),
    (append({"id": 2, "metadata": {"wav_name": "b.wav"}}, chunk(2, 0.85, ["x"])), "unknown-talk",
     "unknown-talk", "talks that are not in the segmentation: b"),
    (drop(4), "cut-talk", "cut-talk", "talk0: processed up to 1.700 s, but"),
    (edit(6, 7, 8, generated_tokens=[]), "empty-talk", "empty-talk", "talk1: nothing was emitted"),
    (edit(3, deleted_tokens=["ist"]), "append-only", "", "1 tokens of talk0 were deleted (line 4)"),
    (edit(3, total_audio_processed=0.9), "chunks", "", "multiples of 850 ms (chunk_ms): line 4"),
    (say("zwei Worte"), "units", "", SPACE),
    (say("a\u00a0b"), "units", "units", SPACE),
    (say("a\u3000b"), "units", "units", f"'a\\u3000b' {SPACE}"),
    (say("a\u2028b"), "units", "units", SPACE),
    (say("x\n"), "units", "units", SPACE),
    (say(""), "units", "", "talk0: 1 invalid unit(s): '' is empty"),
    (pieces("▁"), "units", "units", f"the units are {SENTENCEPIECE} pieces, e.g. '▁das'"),
    (pieces("Ġ"), "units", "units", f"the units are {BYTE_LEVEL} pieces, e.g. 'Ġdas'"),
    (pieces("##"), "units", "units", f"the units are {WORDPIECE} pieces, e.g. '##das'"),
    (append("{not json"), FORMAT, FORMAT, "not JSON"),
    (append("\udcff"), FORMAT, FORMAT, "not JSON ('utf-8' codec can't decode byte 0xff"),
    (lambda lines: ["\ufeff" + json.dumps(lines[0]), *lines[1:]], FORMAT, FORMAT,
     "the line is not JSON (it begins with a byte order mark; remove the mark)"),
    (append("[]"), FORMAT, FORMAT, "expected an object, got list"),
    (append({"id": 0, "computation_time": 0.1}), FORMAT, FORMAT, "lacks total_audio_processed,"),
    (append({"id": 0, "metadata": {}}), FORMAT, FORMAT, "metadata lacks wav_name"),
    (append(chunk(0, NAN, [])), FORMAT, FORMAT, "total_audio_processed"),
    (append(chunk(0, 2.0, []) | {"generated_tokens": "x"}), FORMAT, FORMAT, "generated_tokens"),
    (append(chunk(77, 2.0, [])), FORMAT, FORMAT, "no earlier line names the recording of stream"),
    (lambda _: [], "log-format missing-talk", "log-format missing-talk", "is empty"),
    (lambda _: [{"a": 1}], "log-format missing-talk", "log-format missing-talk",
     "expected the keys of Simulstream's log"),
]  # fmt: skip


def findings(tmp_path, lines, chunk_ms, target="de"):
    path = tmp_path / "metrics.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    content = "".join(f"{text}\n" for text in texts)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    unit = language(target).latency_unit
    return check_log(parse_log(path), "metrics.jsonl", TALKS, unit, chunk_ms)


@pytest.mark.parametrize(("mutation", "submitted", "scored", "message"), RULES)
def test_rules(tmp_path, mutation, submitted, scored, message):
    lines = mutation(log_lines())
    found = findings(tmp_path, lines, CHUNK_MS)
    assert {item.rule for item in found} == set(submitted.split())
    assert not message or message in found[0].message
    found = findings(tmp_path, lines, None)
    assert {item.rule for item in found} == set(scored.split())


@pytest.mark.parametrize("token", ["你好", " 好", " ", "\u3000"])
def test_chinese_units_are_characters(tmp_path, token):
    assert findings(tmp_path, log_lines("zh"), CHUNK_MS, "zh") == []
    lines = say(token)(log_lines("zh"))
    assert {item.rule for item in findings(tmp_path, lines, CHUNK_MS, "zh")} == {"units"}
    assert findings(tmp_path, lines, None, "zh") == []


WHOLE = logs.lines()
FIRST, *OTHERS = logs.as_jsonl(WHOLE)
CUT = [line for line in WHOLE if line.get("total_audio_processed", 0) < 3][:-3]


@pytest.mark.parametrize(
    ("log", "messages"),
    [
        ([FIRST | {"prediction": "▁a b"}, *OTHERS], ["write the joined"]),
        ([FIRST | {"prediction": "a@@ b"}, *OTHERS], [f"{SUBWORD_NMT} pieces, e.g. 'a@@'"]),
        ([FIRST | {"prediction": "a</w> b"}, *OTHERS], [f"{SUBWORD_NMT} pieces, e.g. 'a</w>'"]),
        (
            [{key: FIRST[key] for key in ("source", "prediction", "delays")}, *OTHERS],
            ["1 of 2 talks have no elapsed: talk0; write elapsed for all talks, or remove"],
        ),
        ([FIRST | {"prediction": 1}, *OTHERS], [":1: expected the keys source and prediction"]),
        (
            [
                line | {"generated_tokens": []} if "computation_time" in line else line
                for line in WHOLE
            ],
            ["nothing was emitted for 11 s of audio"],
        ),
        (
            [*CUT, {"id": 5}],
            [
                ":5: the line lacks total_audio_processed, computation_time, generated_tokens",
                "the log contains 1 of 2 talks; missing: talk1",
                "talk0: processed up to 2.000 s, but the last segment starts at 6.0 s",
            ],
        ),
    ],
)
def test_every_problem_of_a_refused_log_is_listed(tmp_path, log, messages):
    devset = load_devset(fakes.write_devset(tmp_path / "devset"), ["de"])
    path = logs.write(tmp_path / "log.jsonl", log)
    with pytest.raises(LogError) as caught:
        refuse(parse_log(path), devset, "word")
    assert [message for message in messages if message not in str(caught.value)] == []


def instance(**changes):
    """One talk of eight words in OmniSTEval's JSONL, with delays of 500 to 4000 ms."""
    delays = [500.0 * number for number in range(1, 9)]
    words = " ".join(f"Wort{number}" for number in range(8))
    entry = {"source": "talk0.wav", "prediction": words, "delays": delays}
    entry["elapsed"] = [delay + 120 for delay in delays]
    return TalkLog("talk0", instance=entry | changes)


def with_delay(place, value):
    delays = instance().instance["delays"]
    delays[place] = value
    return delays


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, None),
        ({"elapsed": [500.0 * number for number in range(1, 9)]}, None),
        ({"delays": [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]}, "8 units have delays of at most 4 ms"),
        ({"delays": list(range(8))}, "8 units have delays of at most 7 ms"),
        ({"delays": [4.0] * 8, "elapsed": [4.1] * 8}, "8 units have delays of at most 4 ms"),
        ({"delays": with_delay(3, None)}, "1 of 8 values are no times of at least 0 ms; the first "
         "is number 4: None"),
        ({"delays": with_delay(3, NAN)}, "number 4: nan"),
        ({"delays": with_delay(3, float("inf"))}, "number 4: inf"),
        ({"delays": with_delay(3, "2000")}, "number 4: '2000'"),
        ({"delays": with_delay(3, True)}, "number 4: True"),
        ({"delays": with_delay(0, -850.0)}, "number 1: -850.0"),
        ({"delays": with_delay(3, 10**400)}, "number 4: 1000"),
        ({"delays": [0] * 8}, "all 8 delays are 0 ms"),
        ({"delays": []}, "delays: 0 values for 8 words of the prediction"),
        ({"elapsed": [500.0 * number for number in range(1, 10)]}, "elapsed: 9 values for 8 words"),
        ({"delays": None}, "expected a list of numbers, got None"),
        ({"delays": "500"}, "expected a list of numbers, got '500'"),
        ({"elapsed": [None] * 8}, "elapsed: 8 of 8 values are no times"),
        ({"delays": with_delay(5, 100.0)}, "1 of 8 delays are smaller than the delay before; the "
         "first is delay 6, 100 after 2500"),
        ({"elapsed": [0.12] * 8}, "8 of 8 elapsed times are smaller than their delays; the first "
         "is number 1, 0.12 with delay 500"),
        ({"source_length": 2500}, "source_length is 2500 ms, but the last segment starts at 3.0 s"),
    ],
)  # fmt: skip
def test_delays_of_jsonl_logs(changes, message):
    faults = [fault for fault, _ in delay_faults(instance(**changes), last_start_s=3.0)]
    assert len(faults) == (message is not None)
    assert all(message in fault for fault in faults)


def test_delays_of_characters():
    talk = instance(prediction="今天 天气很好", delays=[1000.0] * 7, elapsed=[1000.0] * 7)
    assert list(delay_faults(talk, 3.0, "char")) == []
    ((fault, fix),) = delay_faults(instance(prediction="今天", elapsed=[8000.0] * 2), 3.0, "char")
    assert fault == "talk0: delays: 8 values for 2 chars of the prediction"
    assert fix == "write one number of milliseconds per char of the prediction"


def test_a_talk_that_was_not_timed_is_named():
    untimed = instance(elapsed=instance().instance["delays"])
    untimed.name = "talk1"
    (note,) = log_notes(Log(Path("log.jsonl"), "jsonl", talks=[instance(), untimed]), {})
    assert note.startswith("all computation times of talk1 are 0 ms, so LongYAAL CA is too low")


def test_notes_on_doubtful_logs():
    def notes(talk):
        log = Log(Path("log.jsonl"), "jsonl", talks=[talk])
        return log_notes(log, {"talk0": (3.0, 4.0)})

    assert notes(instance()) == []
    (note,) = notes(instance(prediction="<s> das ist </s> gut </s> <unk> a<b"))
    assert note == "the output contains 4 control token(s), scored as text: <s>, </s>, <unk>"
    (note,) = notes(instance(prediction="<|turn>model Das ist gut.<turn|> [EOS]"))
    assert note.startswith("the output contains 3 control token(s), scored as text: <|turn>, <tur")
    assert notes(instance(prediction="a<b, b>c, <b> [1] |x|")) == []
    late = [*instance().instance["delays"][:6], 9000.0, 9500.0]
    (note,) = notes(instance(delays=late))
    assert note.startswith("talk0: 2 of 8 delays are more than 1 s after the end of the last segm")
    assert "(4.0 s), the largest by 5.5 s" in note
    (note,) = notes(instance(prediction="schön scho\u0308n"))
    assert note.startswith("output: 1 unit(s) not in Unicode form NFC (first: unit 2)")
    (note,) = notes(instance(delays=[2000.0] * 8))
    assert "the last unit was emitted at 2.0 s, before the last segment starts (3.0 s)" in note
    untimed = instance()
    del untimed.instance["delays"]
    assert notes(untimed) == []
    (note,) = notes(instance(elapsed=instance().instance["delays"]))
    assert note.startswith("all computation times are 0 ms, so LongYAAL CA equals CU")
    rounded = [delay + 0.4 for delay in instance().instance["delays"]]
    assert notes(instance(elapsed=rounded)) == [note]


@pytest.mark.parametrize(
    "text",
    [
        "są już późne źródła, ćma i łąka żółtej gęsi",
        "Ġorġ ħabib żgħir " + "għal dan il-kliem u hekk kif kien għadu hemm " * 2,
        "l’été déjà passé, où êtes-vous allés ? « là-bas »",
        "## Titel und noch viel mehr Text C# ##",
        "这是一个例子",
        "",
    ],
)
def test_words_are_no_pieces(text):
    assert kind_of_pieces(text.split()) is None
    assert kind_of_pieces(list(text)) is None
