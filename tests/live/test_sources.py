"""Sound as it comes: cut on a grid, waited for."""

import numpy as np
import pytest

from alignatt_agent.live import sources


@pytest.mark.parametrize("total", [0, 1, 999, 1000, 1001, 7777])
def test_the_grid_does_not_depend_on_how_the_sound_came(total):
    samples = np.arange(total, dtype=np.float32)
    cuts = np.sort(np.random.default_rng(0).integers(0, total + 1, 9))
    chunks = list(sources.chunks(np.split(samples, cuts), 1000))
    sizes = [1000] * (total // 1000) + [total % 1000]
    assert [chunk.size for chunk in chunks] == [size for size in sizes if size]
    assert (np.concatenate([*chunks, samples[:0]]) == samples).all()


def test_who_is_late_hears_all_that_waits():
    samples = np.zeros(5000, np.float32)
    left = [samples[:150], *np.array_split(samples[150:4000], 9), samples[4000:4050]]
    coming = (left.pop(0) for _ in range(len(left)))
    chunks = sources.chunks(coming, 100, lambda: 0 < len(left) < 10)
    assert [chunk.size for chunk in chunks] == [150, 3900]


def test_names_of_files():
    names = {"a/talk.mp4": "talk", "https://x.org/live.m3u8?k=1": "live", "-": "stdin"}
    names |= {"Why? 1.wav": "Why? 1", "12:30 talk.mp3": "12:30 talk"}
    assert {source: sources.name_of(source) for source in names} == names
