"""Regime and language of the logs of a bundle."""

import pytest

from alignatt_agent.evaluation.latency import REGIMES
from alignatt_agent.submission.check import check_regime, wrong_language


def test_regime_violations_name_distance_and_fix():
    assert not list(check_regime("log", "low", 1999.0))
    (over,) = check_regime("log", "low", 2172.0)
    assert "LongYAAL CU is 2.172 s, outside low (0-2 s) by 0.172 s" in over.message
    assert "the regime high" in over.fix
    (early,) = check_regime("log", "low", -150.0)
    assert "precedes the speech" in early.fix
    (late,) = check_regime("log", "high", 4500.0)
    assert "lower chunk_ms" in late.fix
    assert REGIMES["high"].distance_ms(2100.0) == pytest.approx(100.0)


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


@pytest.mark.parametrize(
    ("text", "target", "problem"),
    [
        ("Sono i risultati di ieri e sono migliori", "de", "resemble the Italian references"),
        ("we saw that they are better than the results", "de", "English"),
        ("Wir haben 结果", "zh", "resemble the German references"),
        (SAMPLES["zh"], "de", "resemble the Chinese references"),
        ("Χθες είδαμε τα νέα αποτελέσματα", "de", "none of its trigrams is in the"),
        ("我们用 BLEU 评测模型的翻译质量", "zh", "None"),
        ("12 ...", "de", "it contains no letter"),
    ],
)
def test_wrong_language(text, target, problem):
    assert problem in str(wrong_language(text, target, SAMPLES))
