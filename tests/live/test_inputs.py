"""``alignatt translate`` out of pipes, the microphone and recordings that break off."""

import contextlib
import io
import os
import sys
import threading

import av
import numpy as np
import pytest

from alignatt_agent.live import sources
from alignatt_agent.types.audio import AudioError
from tests.live.conftest import WORDS, levels, standard_input
from tests.live.test_translate import GERMAN


def test_a_recording_through_a_pipe(run, tmp_path, monkeypatch):
    standard_input(monkeypatch, (tmp_path / "talk.wav").read_bytes())
    status, out, _ = run(source="-")
    assert (status, out.split()) == (0, GERMAN)


def mux(out, track, samples, form):
    sound = av.AudioFrame.from_ndarray(samples, format=form, layout="mono")
    sound.sample_rate = 16_000
    out.mux([*track.encode(sound), *track.encode(None)])


def test_an_mp4_through_a_pipe_is_explained(run, monkeypatch):
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as out:  # its index is at the end
        track = out.add_stream("aac", rate=16_000)
        noise = np.random.default_rng(0).standard_normal((1, 480_000)).astype(np.float32) / 9
        mux(out, track, noise, "fltp")
    pipe, end = os.pipe()
    sender = os.fdopen(end, "wb")
    sending = threading.Thread(target=lambda: (sender.write(file.getvalue()), sender.close()))
    sending.start()
    monkeypatch.setattr(sys, "stdin", os.fdopen(pipe))
    status, out, err = run(source="-")
    sending.join()
    assert (status, out) == (1, "")
    assert "standard input cannot be decoded: Invalid data" in err
    assert "whose index is at its end" in err


def test_of_several_tracks_the_first_is_taken_and_a_note_says_so(run):
    sound = levels(WORDS)
    with av.open("2 tracks.mkv", "w") as out:
        tracks = [out.add_stream("pcm_s16le", rate=16_000, layout="mono") for _ in range(2)]
        for track, samples in zip(tracks, (sound, 0 * sound), strict=True):
            mux(out, track, samples[None], "s16")
    status, out, err = run(source="2 tracks.mkv")
    assert (status, out.split()) == (0, GERMAN)
    assert "the first of 2 audio tracks is taken; the second: ffmpeg -i '2 tracks.mkv' -map" in err


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_raw_samples_through_a_pipe(run, monkeypatch, rate):
    standard_input(monkeypatch, np.repeat(levels(WORDS), rate // 16_000).tobytes())
    status, out, _ = run("--raw", rate, source="-")
    assert status == 0
    assert out.split()[:5] == GERMAN[:5]


def test_the_microphone(run, tmp_path, monkeypatch):
    """A recorder that plays the talk, and goes on until it is told to stop."""
    raw = tmp_path / "talk.raw"
    raw.write_bytes(levels(WORDS).tobytes())
    code = "import sys, time; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    recorder = (sys.executable, "-c", code, str(raw))
    monkeypatch.setattr(sources, "RECORDERS", (("no-such-program",), recorder))
    standard_input(monkeypatch, b"")
    status, out, err = run(source="mic")
    assert (status, out.split()) == (0, GERMAN)
    assert "listening to the microphone with" in err


def test_a_recording_that_breaks_off(run, monkeypatch):
    @contextlib.contextmanager
    def opened(source, rate=None):
        def broken():
            yield levels(8)
            raise AudioError("talk.wav cannot be decoded: Invalid data")

        yield broken()

    monkeypatch.setattr(sources, "opened", opened)
    status, out, err = run()
    assert (status, out.split()) == (1, GERMAN[:8])
    assert "alignatt translate: talk.wav cannot be decoded" in err
