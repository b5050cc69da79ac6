"""Sound as it comes: cut on a grid, waited for, paced by the clock."""

import threading
import time

import numpy as np
import pytest

from alignatt_agent.live import sources
from alignatt_agent.types import SAMPLE_RATE
from alignatt_agent.types.audio import AudioError


@pytest.mark.parametrize("total", [0, 1, 999, 1000, 1001, 7777])
def test_the_grid_does_not_depend_on_how_the_sound_came(total):
    samples = np.arange(total, dtype=np.int16)
    cuts = np.sort(np.random.default_rng(0).integers(0, total + 1, 9))
    chunks = list(sources.on_grid(np.split(samples, cuts), 1000))
    sizes = [1000] * (total // 1000) + [total % 1000]
    assert [chunk.size for chunk in chunks] == [size for size in sizes if size]
    assert (np.concatenate([*chunks, np.zeros(0, np.float32)]) * 32768 == samples).all()
    assert all(chunk.dtype == np.float32 for chunk in chunks)


def test_who_is_late_hears_all_that_waits():
    samples = np.arange(5000, dtype=np.int16)
    heard = threading.Event()

    def coming():
        yield samples[:150]
        heard.wait(30)
        yield from np.array_split(samples[150:4000], 9)
        yield samples[4000:4050]

    chunks = sources.as_it_comes(coming(), 100)
    first = next(chunks)
    heard.set()
    while any("listen" in thread.name for thread in threading.enumerate()):
        time.sleep(0.01)  # until everything waits
    assert [first.size, *(chunk.size for chunk in chunks)] == [150, 3900]


def test_what_goes_wrong_while_listening_reaches_the_listener():
    def broken():
        yield np.zeros(10, np.int16)
        raise AudioError("the cable is gone")

    for chunks in (sources.as_it_comes(broken(), 15), sources.on_grid(broken(), 15)):
        assert next(chunks).size == 10
        with pytest.raises(AudioError, match="cable"):
            next(chunks)


def test_paced_chunks_come_by_the_clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(sources.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sources.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))
    arrived = []
    for _ in sources.paced(np.zeros(SAMPLE_RATE // 2, np.float32) for _ in range(3)):
        arrived.append(now[0])
        now[0] += 0.7 if len(arrived) == 1 else 0.0  # computing takes longer than a chunk
    assert arrived == [0.5, pytest.approx(1.2), 1.5]


def test_names_of_files():
    names = {"a/talk.mp4": "talk", "https://x.org/live.m3u8?k=1": "live", "-": "stdin"}
    assert {source: sources.name_of(source) for source in names} == names
