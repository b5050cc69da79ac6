"""Word alignments by a chat model, and those in the file."""

import json
from dataclasses import replace

import httpx2
import pytest

from alignatt_agent.calibration import align
from alignatt_agent.calibration.chat_model import ChatAligner
from alignatt_agent.calibration.pairs import CalibrationError, PairError, make_pair
from alignatt_agent.config.errors import ConfigError
from alignatt_agent.config.languages import language
from alignatt_agent.evaluation.cache import ResultCache
from lab.micro_world.pairs import micro_pairs
from tests.calibration.chat_endpoint import answer, chat_endpoint

GOOD = {"links": [[0, 0], [1, 1], [2, 2], [2, 3]]}
GOOD_LINKS = frozenset({(0, 0), (1, 1), (2, 2), (2, 3)})


PAIRS = [
    make_pair(["We", "train", f"model{i}."], f"Wir trainieren Modell{i}.", None, spaced=True)
    for i in range(6)
]


def server(reply):
    """An endpoint; ``reply(number of the pair, attempt)`` gives a body, a status or bytes."""
    return chat_endpoint(
        lambda question, attempt: reply(int(question.split("model")[1][0]), attempt)
    )


def numbers(seen):
    return [int(item["question"].split("model")[1][0]) for item in seen]


def aligner(url, **options):
    options = {"retries": 1, "timeout_s": 5.0, "price": (1.0, 10.0), **options}
    return ChatAligner(url, "some-model", "English", "German", **options)


def test_links_from_an_endpoint(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with server(lambda *_: answer(GOOD)) as (url, seen):
        asked = aligner(url)
        assert list(asked.align(PAIRS)) == [GOOD_LINKS] * 6
    requests = [item["request"] for item in seen]
    assert {str(request.url) for request in requests} == {f"{url}/chat/completions"}
    assert {request.headers["Authorization"] for request in requests} == {"Bearer secret"}
    assert {request.extensions["timeout"]["read"] for request in requests} == {5.0}
    body = seen[0]["body"]
    assert body["model"] == "some-model"
    assert "English" in body["messages"][0]["content"]
    number = numbers(seen)[0]
    assert body["messages"][1]["content"] == (
        f"source: 0=We 1=train 2=model{number}.\ntarget: 0=Wir 1=trainieren 2=Modell{number} 3=."
    )


WRONG_LINKS = ([], 3, [[0, 99]], [[-1, 0]], [["0", "0"]], [[0, 1, 2]], [[True, 0]])
NONSENSE = ["I cannot do that.", "", "{'links': [[0, 0]]}", {"other": []}]
NONSENSE += [{"links": links} for links in WRONG_LINKS]
LATE = "too late"


@pytest.mark.parametrize("content", [*NONSENSE, LATE])
def test_a_bad_answer_is_counted_and_does_not_end_the_run(content):
    def reply(number, attempt):
        if number == 2 and content == LATE:
            raise httpx2.ReadTimeout(LATE)
        return answer(content if number == 2 else GOOD)

    with server(reply) as (url, seen):
        found = list(aligner(url).align(PAIRS))
    assert found.pop(2).reason == f"aligner_{'error' if content == LATE else 'nonsense'}"
    assert found == [GOOD_LINKS] * 5
    assert numbers(seen).count(2) == 2  # asked again, once


def test_a_local_server_needs_no_key_and_may_add_words(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    text = "Sure!\n```json\n" + json.dumps(GOOD, indent=1) + "\n```\nAnything else?"
    with server(lambda *_: answer(text)) as (url, seen):
        assert list(aligner(url).align(PAIRS[:1])) == [GOOD_LINKS]
    assert "Authorization" not in seen[0]["request"].headers


@pytest.mark.parametrize("failure", [503, 429, b"<html>", b'{"choices": []}', b"[]"])
def test_passing_failures_are_asked_again(failure):
    with server(lambda _, attempt: failure if attempt == 0 else answer(GOOD)) as (url, seen):
        assert list(aligner(url).align(PAIRS)) == [GOOD_LINKS] * 6
    assert len(seen) == 12


@pytest.mark.parametrize("status", [400, 401])
def test_what_no_repetition_changes_ends_at_once(status):
    with (
        server(lambda *_: status) as (url, seen),
        pytest.raises(
            CalibrationError, match=rf"status {status}: .*check --endpoint, --aligner-model"
        ),
    ):
        list(aligner(url).align(PAIRS * 20))
    assert len(seen) < 20


def test_the_estimate_is_on_the_high_side():
    url = "http://127.0.0.1:9/v1"
    cost = aligner(url).estimate(PAIRS)
    assert cost.startswith("6 requests, ")
    assert int(cost.split()[2]) > 6 * 200  # the instructions alone
    assert cost.endswith(" 0.01 US dollars")
    assert "price unknown (--price SENT RECEIVED" in aligner(url, price=None).estimate(PAIRS)
    with pytest.raises(ConfigError, match="--endpoint nowhere: expected an http"):
        aligner("nowhere")


@pytest.fixture
def cache(tmp_path):
    with ResultCache(tmp_path / "calibration.sqlite") as cache:
        yield cache


def test_answers_are_paid_once(cache):
    refused = {3, 4, 5}

    def reply(number, attempt):
        return 401 if number in refused else answer(GOOD if number != 1 else "no")

    with server(reply) as (url, seen):
        with pytest.raises(CalibrationError):
            align.align(aligner(url, parallel=1), PAIRS, cache)
        refused.clear()
        before = len(seen)
        missing = align.not_aligned(aligner(url), PAIRS, cache)
        found = align.align(aligner(url, parallel=1), PAIRS, cache)
        asked = numbers(seen[before:])
        assert [PAIRS[number] for number in asked] == missing
        assert set(asked) <= {2, 3, 4, 5}
        again = align.align(aligner(url, parallel=1), PAIRS, cache)  # nothing is asked again
        assert again[2:] == found[2:]
        assert align.align(aligner(url), PAIRS[:3], cache)[0] == found[0]
        assert len(seen) == before + len(asked)
    assert isinstance(found[1], PairError)
    assert found[1].reason == again[1].reason == "aligner_nonsense"
    assert [found[i] for i in (0, 2, 3, 4, 5)] == [GOOD_LINKS] * 5


def test_what_a_link_depends_on(cache):
    class Fixed:
        name, version = "fixed", "1"

        def align(self, pairs):
            yield from [GOOD_LINKS] * len(pairs)

    fixed = Fixed()
    align.align(fixed, PAIRS[:2], cache)
    assert align.not_aligned(fixed, PAIRS[:3], cache) == PAIRS[2:3]
    other = replace(PAIRS[0], target="Wir trainieren Modell9.")
    assert align.not_aligned(fixed, [other], cache) == [other]
    fixed.version = "2"
    assert align.not_aligned(fixed, PAIRS[:2], cache) == PAIRS[:2]


def test_a_dead_endpoint_is_given_up_and_nothing_is_kept(cache):
    dead = aligner("http://127.0.0.1:9/v1", retries=0)
    assert {error.reason for error in dead.align(PAIRS)} == {"aligner_error"}
    with pytest.raises(CalibrationError, match="10 times in a row.*run the command again later"):
        align.align(dead, PAIRS * 5, cache)
    assert align.not_aligned(dead, PAIRS, cache) == PAIRS


def test_gold(cache):
    pairs = [*PAIRS[:1], *micro_pairs(2, 3, language("en"), language("de")).pairs]
    found = align.align(None, pairs, cache)
    assert found[0].reason == "no_gold"
    assert [found[1], found[2]] == [pair.gold for pair in pairs[1:]]
    with pytest.raises(
        CalibrationError, match="add a column with Pharaoh alignments .*--aligner openai"
    ):
        align.align(None, PAIRS, cache)
