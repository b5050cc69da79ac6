"""Rooms of the live server: late viewers, one speaker, and what is forgotten."""

import asyncio
import json
import threading
from types import SimpleNamespace

import pytest

from alignatt_agent.serve import room as room_module
from alignatt_agent.serve import room_access
from alignatt_agent.serve.access import LATER, POLICY, RefusedError
from alignatt_agent.serve.journal import Journal
from alignatt_agent.serve.messages import Said
from alignatt_agent.serve.room import Room
from alignatt_agent.serve.room_access import Rooms
from tests.serve.live import WAIT_S, asynchronous


def said(text):
    return Said(target="de", audio_s=1.0, units=[(text, 0.0, 1.0, True)])


@pytest.fixture
def clock(monkeypatch):
    found = SimpleNamespace(now=0.0)
    monkeypatch.setattr(room_access, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def kept(clock):
    return Rooms(keep_s=10)


async def collected(room, since=""):
    """Return ids and texts of all events, of a room that is closed."""
    return [(key, json.loads(text)["units"][0][0]) async for key, text in room.follow(since)]


@pytest.mark.parametrize("since", ["nonsense", "deadbeef.2", ".", "TALK.x", "TALK." + "9" * 5000])
@asynchronous
async def test_a_position_that_is_not_known_begins_at_the_beginning(since):
    room = Room("talk")
    await room.publish(said("a"))
    room.close()
    since = since.replace("TALK", room._talk)
    assert [text for _, text in await collected(room, since)] == ["a"]


@asynchronous
async def test_viewers_who_stay_follow_into_the_next_talk():
    room = Room("talk")
    await room.publish(said("old"))
    seen = asyncio.create_task(collected(room))
    await asyncio.sleep(0)
    room.begin("secret")
    await room.publish(said("new"))
    await asyncio.sleep(0)
    room.close()
    assert [text for _, text in await seen] == ["old", "new"]


@asynchronous
async def test_a_room_remembers_so_much(monkeypatch):
    monkeypatch.setattr(room_module, "MAX_EVENTS", 20)
    room = Room("talk")
    for k in range(100):
        await room.publish(said(str(k)))
    room.close()
    *_, (last, text) = found = await collected(room)
    assert 15 < len(found) <= 20
    assert text == "99"
    assert last.endswith(".100")


@asynchronous
async def test_rooms_have_one_speaker_who_can_come_back():
    found = Rooms(keep_s=600)
    assert len(found.take(None, None).name) >= 16  # nobody guesses it
    room = found.take("talk", None)
    session = room.session
    # Only the speaker's own client may try again: it cannot begin another talk by itself.
    for given, close in (("talk", None), POLICY), ((None, session), LATER):
        with pytest.raises(RefusedError, match="room 'talk' already has") as refused:
            found.take(*given)
        assert (refused.value.code, refused.value.close) == ("room-taken", close)
    await room.publish(said("a"))
    found.free(room)
    assert found.take(None, session) is room
    for guess in ("guess", ""):
        with pytest.raises(RefusedError, match="this talk has ended"):
            found.take(None, guess)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "../etc", "a.b", "ä\n"])
def test_names_of_rooms(name):
    with pytest.raises(RefusedError, match="1 to 64 letters"):
        room_access.check_name(name)


@asynchronous
async def test_a_room_is_forgotten_a_while_after_the_last_one_left(kept, clock):
    def is_there(at):
        clock.now = at
        kept.sweep()
        return kept.find("talk") is room

    room = kept.take("talk", None)
    await room.publish(said("a"))
    assert is_there(at=100.0)
    kept.free(room)
    viewed = kept.enter("talk")
    viewed.viewers += 1
    assert is_there(at=200.0)
    viewed.viewers -= 1
    kept.leave(room)
    assert is_there(at=209.0)
    assert not is_there(at=210.0)


@asynchronous
async def test_a_talk_is_held_for_its_page_though_viewers_stay(kept, clock):
    room = kept.take("talk", None)
    await room.publish(said("a"))
    kept.enter("talk").viewers += 1
    kept.free(room)
    for clock.now in (0.0, 9.9):
        with pytest.raises(RefusedError, match="'talk' has an unfinished talk: .* wait 0 minutes"):
            kept.take("talk", None)
    clock.now = 10.0
    assert kept.take("talk", None) is room
    assert list(room.messages()) == []


def test_a_room_in_which_nothing_was_said_is_forgotten_at_once(kept):
    for number in range(3):
        kept.leave(kept.enter(f"guess-{number}"))
    assert list(kept) == []


@asynchronous
async def test_a_slow_disk_does_not_stop_the_event_loop(tmp_path, monkeypatch):
    """Viewers see what the journal has, in its order, though the speaker is disconnected."""
    disk, write = threading.Event(), Journal._write
    monkeypatch.setattr(Journal, "_write", lambda *given: disk.wait(WAIT_S) and write(*given))
    slow = Rooms(10, Journal(tmp_path))
    room = slow.take("talk", None)
    first, *others = [asyncio.create_task(room.publish(said(text))) for text in "abc"]
    await Rooms(10).take("other", None).publish(said("d"))
    assert list(room.messages()) == []
    disk.set()
    await first
    for task in others:
        task.cancel()
    await slow.close()
    for known in (slow, Rooms(10, Journal(tmp_path))):
        texts = [message.units[0].text for message in known.find("talk").messages()]
        assert texts == ["a", "b", "c"]
