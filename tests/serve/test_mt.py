"""WhisperLiveKit's translation wire, ``/mt``, on fake engines."""

from dataclasses import replace

from tests.fakes import agent as fakes
from tests.serve.live import INIT, german


def words(count, begin=0):
    return [[fakes.word(k), 500.0 * k, 500.0 * k + 400] for k in range(begin, begin + count)]


def update(seq, heard, tail=(), final=False, utterance=0):
    return {
        "type": "update",
        "seq": seq,
        "utterance_id": utterance,
        "words": heard,
        "tail": {"words": [[text, None, None] for text in tail]},
        "clock_ms": 4000.0,
        "is_final": final,
    }


def answers(client, *updates, **init):
    """Begin, and send updates; returns the answers."""
    with client.websocket_connect("/mt") as socket:
        found = []
        for message in (INIT | init, *updates):
            socket.send_json(message)
            found.append(socket.receive_json())
        return found


def test_whisperlivekits_words_are_translated(client):
    given = [update(1, words(3), ["word3", "word4"]), update(2, words(6), final=True)]
    given += [update(3, words(2, 6), ["word8"], utterance=1)]
    first, early, final, next_one = answers(client, *given)
    assert (first["type"], first["direction"]) == ("init_ok", "en-de")
    assert (early["seq"], early["final"]) == (1, False)
    assert german(6).startswith(early["committed_text"])
    assert 0 < len(early["committed_text"].split()) <= 3
    assert early["covered_source_units"] <= 3
    assert final["committed_text"] == german(6)
    assert early["committed_delta"] + final["committed_delta"] == " " + german(6)
    assert next_one["committed_text"].startswith("Wort6")


def test_whisperlivekits_history_and_context_are_in_the_prompt(client, service, monkeypatch):
    monkeypatch.setattr("alignatt_agent.serve.service.check_contexts", lambda *_, **__: None)
    said = [["It works.", "Es geht."], ["Well.", "Gut."]]
    terms = f"vLLM\n{fakes.word(1)} = Wort"
    for kept in (0, 2):
        config = service.engines.resolved.config
        prompt = config.prompt.model_copy(update={"history": kept})
        config = config.model_copy(update={"prompt": prompt})
        service.engines.resolved = replace(service.engines.resolved, config=config)
        answers(client, update(1, words(3)), history=said, context_text=terms)
        asked = fakes.FakeTranslation.prompts[-1]
        assert "Names and terms of the talk: vLLM." in asked
        assert f"translations: {fakes.word(1)} = Wort." in asked
        assert all((text in asked) == bool(kept) for pair in said for text in pair)


def test_whisperlivekits_utterance_goes_on_after_a_new_connection(client, monkeypatch):
    monkeypatch.setattr("alignatt_agent.serve.service.check_contexts", lambda *_, **__: None)
    given = [update(4, words(4)), update(6, words(6), final=True)]
    _, *found = answers(client, *given, accepted_target_prefix=german(2))
    assert all(answer["committed_text"].startswith(german(2) + " ") for answer in found)
    deltas = "".join(answer["committed_delta"] for answer in found)
    assert german(2) + deltas == found[-1]["committed_text"] == german(6)
