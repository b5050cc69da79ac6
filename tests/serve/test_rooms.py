"""Rooms of the live server: late viewers, one speaker, and what is forgotten."""

from __future__ import annotations

import asyncio
import json

import pytest

from alignatt_agent.serve import rooms
from alignatt_agent.serve.access import RefusedError
from alignatt_agent.serve.rooms import Room, Rooms
from tests.serve.live import run


def said(text):
    return {"type": "said", "target": "de", "audio_s": 1.0, "units": [[text, 0.0, 1.0]]}


async def collected(room, since="", count=None):
    found = []
    async for event in room.follow(since):
        found.append((event.id, json.loads(event.text)["units"][0][0]))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("since", ["nonsense", "deadbeef.2", ".", "deadbeef.x", "1.99999999999"])
def test_a_position_in_another_talk_begins_at_the_beginning(since):
    async def scene():
        room = Room("talk")
        room.publish(said("a"))
        room.close()
        return [text for _, text in await collected(room, since)]

    assert run(scene()) == ["a"]


def test_viewers_who_stay_follow_into_the_next_talk():
    async def scene():
        room = Room("talk")
        room.publish(said("old"))
        seen = asyncio.create_task(collected(room))
        await asyncio.sleep(0)
        room.begin("secret")
        room.publish(said("new"))
        await asyncio.sleep(0)
        room.close()
        return [text for _, text in await seen]

    assert run(scene()) == ["old", "new"]


def test_a_room_remembers_so_much(monkeypatch):
    monkeypatch.setattr(rooms, "MAX_EVENTS", 20)

    async def scene():
        room = Room("talk")
        for k in range(100):
            room.publish(said(str(k)))
        room.close()
        return await collected(room)

    found = run(scene())
    assert 15 < len(found) <= 20
    assert found[-1][1] == "99"
    assert found[-1][0].endswith(".100")


def test_rooms_have_one_speaker_who_can_come_back():
    found = Rooms(keep_s=600)
    room = found.take("talk", None)
    with pytest.raises(RefusedError, match="somebody speaks in room 'talk'"):
        found.take("talk", None)
    with pytest.raises(RefusedError, match="somebody speaks"):
        found.take(None, room.session)
    session = room.session
    room.publish(said("a"))
    found.free(room)
    with pytest.raises(RefusedError, match="has the talk of a page: .* wait 10 minutes"):
        found.take("talk", None)
    assert found.take(None, session) is room
    with pytest.raises(RefusedError, match="this talk is over"):
        found.take(None, "guess")
    with pytest.raises(RefusedError, match="this talk is over"):
        found.take(None, "")


def test_nobody_guesses_a_room_without_a_name():
    found = Rooms(keep_s=10)
    one, other = found.take(None, None), found.take(None, None)
    assert one.name != other.name
    assert len(one.name) >= 16


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "../etc", "a.b", "ä\n"])
def test_names_of_rooms(name):
    with pytest.raises(RefusedError, match="1 to 64 letters"):
        rooms.check_name(name)


def test_a_room_is_forgotten_a_while_after_the_last_one_left():
    now = [0.0]
    found = Rooms(keep_s=10, clock=lambda: now[0])
    room = found.take("talk", None)
    room.publish(said("a"))
    now[0] = 100.0
    found.sweep()
    assert found.find("talk") is room
    found.free(room)
    viewed = found.enter("talk")
    viewed.viewers += 1
    now[0] = 200.0
    found.sweep()
    assert found.find("talk") is room
    viewed.viewers -= 1
    found.leave(room)
    now[0] = 209.0
    found.sweep()
    assert found.find("talk") is room
    now[0] = 210.0
    found.sweep()
    assert found.find("talk") is None


def test_a_talk_is_held_for_its_page_though_viewers_stay():
    now = [0.0]
    found = Rooms(keep_s=10, clock=lambda: now[0])
    room = found.take("talk", None)
    room.publish(said("a"))
    found.enter("talk").viewers += 1
    found.free(room)
    for now[0] in (0.0, 9.9):
        with pytest.raises(RefusedError, match="room 'talk' has the talk of a page"):
            found.take("talk", None)
    now[0] = 10.0
    assert found.take("talk", None) is room
    assert list(room.messages()) == []


def test_a_room_in_which_nothing_was_said_is_forgotten_at_once():
    found = Rooms(keep_s=10)
    for number in range(3):
        room = found.enter(f"guess-{number}")
        room.viewers += 1
        room.viewers -= 1
        found.leave(room)
    assert list(found) == []
