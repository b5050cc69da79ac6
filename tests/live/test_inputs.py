"""``alignatt translate`` out of pipes, the microphone and recordings that break off."""

import io
import os
import signal
import socket
import sys
import threading

import av
import numpy as np
import pytest

from alignatt_agent.live import sources
from tests.fakes import agent as fakes
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
    assert "with its index at the end" in err


def test_of_several_tracks_the_first_is_used(run):
    sound = levels(WORDS)
    with av.open("2 tracks.mkv", "w") as out:
        tracks = [out.add_stream("pcm_s16le", rate=16_000, layout="mono") for _ in range(2)]
        for track, samples in zip(tracks, (sound, 0 * sound), strict=True):
            mux(out, track, samples[None], "s16")
    status, out, _ = run(source="2 tracks.mkv")
    assert (status, out.split()) == (0, GERMAN)


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


@pytest.mark.parametrize(("status", "words"), [(1, 8), (130, 6), (2, 0)])
def test_an_address_that_stalls(run, tmp_path, monkeypatch, status, words):
    """It sends eight words or nothing at all, and nobody waits for more, least of all a user."""
    monkeypatch.setattr(sources, "NOTE_S", 1.0)
    monkeypatch.setattr(sources, "STALL_S", 120.0 if status == 130 else 2.0)
    sent = (tmp_path / "talk.wav").read_bytes()[: 44 + 8 * 16_000]
    listener, asked, users = socket.create_server(("127.0.0.1", 0)), [], []

    def send():
        while True:
            users.append(listener.accept()[0])
            asked.append(users[-1].recv(4096))
            users[-1].sendall(b"HTTP/1.1 200 OK\r\n\r\n" + sent if words else b"")

    threading.Thread(target=send, daemon=True).start()
    if status == 130:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has none
        interrupt = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start
        monkeypatch.setattr(sources, "print", lambda *_, **__: interrupt(), raising=False)
    found, out, err = run(source=f"http://127.0.0.1:{listener.getsockname()[1]}/talk.wav")
    for user in users:
        user.close()
    assert (found, out.split(), len(asked)) == (status, GERMAN[:words], 1)
    assert ("note: waiting for http://127" in err) == (status < 130)
    assert ("/talk.wav sent nothing for 2 s" in err) == (status < 130)


def test_audio_without_a_word_is_worth_a_warning(run, tmp_path):
    fakes.write_talk(tmp_path / "talk.wav", np.full(40 * 16_000, -0.2))
    assert "warning: no words in 40 s of audio; check the input, --source and --raw" in run()[2]


def test_an_output_that_cannot_be_written_does_not_stop_the_others(run, tmp_path):
    (tmp_path / "talk.de.srt").write_text("1\n")
    for name in ("talk.de.srt.part", "talk.de.txt"):
        (tmp_path / name).symlink_to("/dev/full")
    for form in ("srt", "txt"):
        given = "--format", form, "--overwrite", "--output", tmp_path / "talk"
        status, _, err = run(*given, to=("de", "zh"))
        assert (status, err.count("No space left on device")) == (1, 1)
        assert "五。" in (tmp_path / f"talk.zh.{form}").read_text()
    assert (tmp_path / "talk.de.srt").read_text() == "1\n"


def test_the_output_of_a_command_by_its_path(run, tmp_path):
    """A shell replaces ``<(command)`` by the path of a pipe, e.g. ``/dev/fd/63``."""
    named = tmp_path / "talk.fifo"
    os.mkfifo(named)
    reader, writer = os.pipe()
    for path, sink in ((f"/dev/fd/{reader}", writer), (str(named), named)):
        data = (tmp_path / "talk.wav").read_bytes()

        def send(sink=sink, data=data):
            with open(sink, "wb") as stream:  # noqa: PTH123 - a path or a descriptor
                stream.write(data)

        sending = threading.Thread(target=send)
        sending.start()
        status, out, _ = run(source=path)
        sending.join()
        assert (status, out.split()) == (0, GERMAN)
    os.close(reader)
    assert sources.name_of("/dev/fd/63") == sources.name_of("/proc/self/fd/11") == "stream"
    status, _, err = run(source=str(tmp_path))
    assert (status, "is not a file" in err) == (2, True)
