"""Every rule about a dev log, on logs that break exactly one of them."""

from __future__ import annotations

import json

import pytest

from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.check_log import check_log
from alignatt_agent.evaluation.latency import REGIMES, regime_of
from alignatt_agent.evaluation.log import parse_log
from alignatt_agent.submission.check import check_regime
from alignatt_agent.submission.language_id import similarity, wrong_language

TALKS = {"talk0": 2.0, "talk1": 1.7}
CHUNK_MS = 850


def log_lines(target="de"):
    """A log without fault: two talks, one of which is a whole number of chunks long."""
    units = ["das", "ist"] if target == "de" else ["这", "是"]
    lines = [{"model_loading_time": 1.5}]
    for number, (name, seconds) in enumerate(TALKS.items()):
        lines.append({"id": number, "metadata": {"wav_name": f"/data/{name}.wav"}})
        lines += [
            {
                "id": number,
                "total_audio_processed": heard,
                "computation_time": 0.1,
                "generated_tokens": list(units),
                "deleted_tokens": [],
            }
            for heard in (0.85, 1.7, seconds)
        ]
    return lines


def findings(tmp_path, lines, target="de"):
    path = tmp_path / "metrics.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    unit = language(target).latency_unit
    return check_log(parse_log(path), "metrics.jsonl", TALKS, unit, CHUNK_MS)


def rules(tmp_path, lines, target="de"):
    return {finding.rule for finding in findings(tmp_path, lines, target)}


@pytest.mark.parametrize("target", ["de", "zh"])
def test_a_sound_log(tmp_path, target):
    assert findings(tmp_path, log_lines(target), target) == []


def test_rerun_appended(tmp_path):
    found = findings(tmp_path, log_lines() + log_lines())
    assert {item.rule for item in found} == {"rerun-appended", "duplicate-talk"}
    rerun = next(item for item in found if item.rule == "rerun-appended")
    assert "holds 2 runs, which start at lines 1, 10" in rerun.message
    assert "delete it" in rerun.fix


def test_rerun_whose_header_was_cut_off(tmp_path):
    lines = log_lines()
    assert "rerun-appended" in rules(tmp_path, lines + lines[2:5])


def test_missing_unknown_and_duplicate_talk(tmp_path):
    lines = log_lines()
    (found,) = findings(tmp_path, lines[:5])
    assert (found.rule, "talk1" in found.message) == ("missing-talk", True)
    renamed = [*lines[:5], {"id": 1, "metadata": {"wav_name": "other.wav"}}, *lines[6:]]
    assert rules(tmp_path, renamed) == {"missing-talk", "unknown-talk"}
    twice = [*lines, {"id": 2, "metadata": {"wav_name": "elsewhere/talk1.wav"}}]
    twice += [{**line, "id": 2} for line in lines[6:]]
    assert rules(tmp_path, twice) == {"duplicate-talk"}


def test_deleted_tokens(tmp_path):
    lines = log_lines()
    lines[3]["deleted_tokens"] = ["ist"]
    (found,) = findings(tmp_path, lines)
    assert found.rule == "append-only"
    assert found.where == "metrics.jsonl:4"
    assert "1 tokens of talk0 were deleted (line 4)" in found.message


@pytest.mark.parametrize(
    "token", ["zwei Worte", "a\u00a0b", "a\u3000", "a\u2028b", "x\n", "\t", ""]
)
def test_units_that_scorers_count_differently(tmp_path, token):
    lines = log_lines()
    lines[3]["generated_tokens"] = [token]
    assert rules(tmp_path, lines) == {"units"}


def test_unicode_space_names_both_counts(tmp_path):
    lines = log_lines()
    lines[3]["generated_tokens"] = ["a\u3000b"]
    messages = [item.message for item in findings(tmp_path, lines)]
    assert any("5 units by Simulstream's split, 6 by OmniSTEval's" in item for item in messages)


@pytest.mark.parametrize("token", ["你好", " 好", " "])
def test_chinese_units_are_characters(tmp_path, token):
    lines = log_lines("zh")
    lines[3]["generated_tokens"] = [token]
    assert rules(tmp_path, lines, "zh") == {"units"}


def test_shifted_times(tmp_path):
    lines = log_lines()
    lines[3]["total_audio_processed"] = 0.9
    (found,) = findings(tmp_path, lines)
    assert found.rule == "chunks"
    assert "line 4 are not whole steps of 850 ms" in found.message


def test_cut_talk(tmp_path):
    lines = log_lines()
    (found,) = findings(tmp_path, [line for line in lines if line is not lines[4]])
    assert found.rule == "cut-talk"
    assert "talk0: heard up to 1.700 s, but it is 2.000 s long" in found.message


def test_empty_talk(tmp_path):
    lines = log_lines()
    for line in lines[6:]:
        line["generated_tokens"] = []
    (found,) = findings(tmp_path, lines)
    assert (found.rule, found.where) == ("empty-talk", "metrics.jsonl:6")


@pytest.mark.parametrize(
    "bad",
    [
        "{not json",
        "[]",
        {"id": 0, "total_audio_processed": 1.0, "computation_time": 0.1, "generated_tokens": []},
        {"id": 0, "metadata": {}},
        {
            "id": 0,
            "total_audio_processed": float("nan"),
            "computation_time": 0.1,
            "generated_tokens": [],
            "deleted_tokens": [],
        },
        {
            "id": 0,
            "total_audio_processed": 1.0,
            "computation_time": 0.1,
            "generated_tokens": "text",
            "deleted_tokens": [],
        },
    ],
)
def test_malformed_lines(tmp_path, bad):
    found = findings(tmp_path, [*log_lines(), bad])
    assert [(item.rule, item.where) for item in found] == [("log-format", "metrics.jsonl:10")]


def test_stream_without_a_name_and_log_without_a_beginning(tmp_path):
    lines = log_lines()
    lines[7]["id"] = 77
    assert "log-format" in rules(tmp_path, lines)
    assert rules(tmp_path, log_lines()[1:]) == {"log-format"}


@pytest.mark.parametrize(
    ("latency", "regime"),
    [(0, "low"), (2000, "low"), (2000.1, "high"), (4000, "high"), (-1, None), (4000.1, None)],
)
def test_regimes(latency, regime):
    found = regime_of(latency)
    assert (found.name if found else None) == regime


def test_regime_violations_name_margin_and_fix():
    assert not list(check_regime("log", "low", 1999.0))
    (over,) = check_regime("log", "low", 2172.0)
    assert "LongYAAL CU is 2.172 s, outside low (0-2 s) by 0.172 s" in over.message
    assert "the regime high" in over.fix
    (early,) = check_regime("log", "low", -150.0)
    assert "ahead of the speech" in early.fix
    (late,) = check_regime("log", "high", 4500.0)
    assert "lower chunk_ms" in late.fix
    assert REGIMES["high"].margin_ms(2100.0) == pytest.approx(100.0)


SAMPLES = {
    "de": "Wir haben gestern die neuen Ergebnisse gesehen, und sie sind besser als erwartet.",
    "it": "Abbiamo visto ieri i nuovi risultati e sono migliori di quanto ci aspettassimo.",
    "en": "Yesterday we saw the new results and they are better than we had expected.",
    "zh": "我们昨天看到了新的结果，比预期的要好。",
}


@pytest.mark.parametrize("target", ["de", "it", "en"])
def test_right_language(target):
    assert wrong_language(SAMPLES[target], target, SAMPLES) is None
    others = {code: text for code, text in SAMPLES.items() if code != target}
    assert wrong_language(SAMPLES[target], target, others) is None


def test_wrong_language_of_the_same_script():
    problem = wrong_language("Sono i risultati di ieri e sono migliori", "de", SAMPLES)
    assert problem is not None
    assert "resemble the Italian text" in problem
    untranslated = wrong_language("we saw that they are better than the results", "de", SAMPLES)
    assert untranslated is not None
    assert "English" in untranslated


def test_wrong_script():
    assert "resemble the German text" in str(wrong_language("Wir haben 结果", "zh", SAMPLES))
    assert "resemble the Chinese text" in str(wrong_language(SAMPLES["zh"], "de", SAMPLES))
    greek = wrong_language("Χθες είδαμε τα νέα αποτελέσματα", "de", SAMPLES)
    assert "no three letters of the dev set's German text" in str(greek)
    assert wrong_language("我们用 BLEU 评测模型的翻译质量", "zh", SAMPLES) is None
    assert "not a single letter" in str(wrong_language("12 ...", "de", SAMPLES))


def test_statistics():
    assert similarity("abc", "abc") == pytest.approx(1.0)
    assert similarity("abc", "xyz") < 0.3
    assert similarity("", "") <= 1.0
