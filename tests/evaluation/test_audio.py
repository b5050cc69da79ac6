"""Any recording is converted as a whole, in bounded memory, and named."""

import subprocess
import sys

import av
import numpy as np
import pytest
import soundfile

from alignatt_agent.audio.recording import AudioError, Recording
from alignatt_agent.audio.wav_header import undeclared_seconds
from alignatt_agent.evaluation.audio import converted
from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.segments import DevSetError
from tests.fakes import agent as fakes

SECONDS = 4


def tone(rate: int) -> np.ndarray:
    """A second of silence, a second of 440 Hz, and silence again."""
    time = np.arange(SECONDS * rate) / rate
    return np.where((time >= 1) & (time < 2), 0.5 * np.sin(2 * np.pi * 440 * time), 0.0)


def encode(path, codec, rate, layout="mono"):
    """Write ``tone`` in any format with the encoders of FFmpeg."""
    samples = np.repeat((tone(rate) * 32767).astype(np.int16), 2 if layout == "stereo" else 1)
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout=layout)
        frame.sample_rate = rate
        output.mux([*stream.encode(frame), *stream.encode(None)])


def read(path):
    with soundfile.SoundFile(path) as file:
        assert (file.channels, file.subtype, file.samplerate) == (1, "PCM_16", 16000)
        return file.read()


FORMATS = [
    ("a.wav", "pcm_s16le", 44_100, "stereo"),
    ("a.wav", "pcm_f32le", 48_000, "mono"),
    ("a.wav", "pcm_s16le", 8_000, "mono"),
    ("a.flac", "flac", 44_100, "stereo"),
    ("a.mp3", "libmp3lame", 44_100, "stereo"),
    ("a.mp4", "aac", 48_000, "stereo"),
]


@pytest.mark.parametrize(("name", "codec", "rate", "layout"), FORMATS)
def test_formats(tmp_path, name, codec, rate, layout):
    encode(tmp_path / name, codec, rate, layout)
    wav, note = converted(tmp_path / name, tmp_path / "audio")
    samples = read(wav)
    assert len(samples) == pytest.approx(SECONDS * 16_000, abs=1600)
    loud = np.sqrt(np.square(samples.reshape(-1)[: SECONDS * 15_000]).reshape(-1, 1000).mean(1))
    spoken = np.flatnonzero(loud > 0.2) / 16
    assert spoken[0] == pytest.approx(1, abs=0.1)
    assert spoken[-1] == pytest.approx(2, abs=0.15)
    spectrum = np.abs(np.fft.rfft(samples[17_600:30_400]))
    assert np.argmax(spectrum) * 16_000 / 12_800 == pytest.approx(440, abs=2)
    assert f"{rate} Hz" in note
    assert "converted to 16000 Hz, mono, 16 bit" in note


@pytest.mark.parametrize("rate", [16_000, 48_000])
@pytest.mark.parametrize("click", [np.inf, -np.inf, np.nan, 1e9, 50.0])
def test_a_click_does_not_silence_a_recording(tmp_path, click, rate):
    samples = tone(rate)
    samples[rate // 2] = click
    soundfile.write(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
    heard = read(converted(tmp_path / "a.wav", tmp_path / "audio")[0])
    assert np.abs(heard[18_000:30_000]).max() == pytest.approx(0.5, abs=0.005)


def test_float_samples_above_full_scale_are_scaled_and_not_clipped(tmp_path):
    soundfile.write(tmp_path / "a.wav", 4 * tone(16_000), 16_000, subtype="FLOAT")
    heard = read(converted(tmp_path / "a.wav", tmp_path / "audio")[0])
    assert np.abs(heard - 2 * tone(16_000)).max() < 0.002


def with_data_size(path, size, more=b""):
    """Change the size of the data that the header of a WAV file declares; append bytes."""
    content = bytearray(path.read_bytes())
    place = content.index(b"data") + 4
    content[place : place + 4] = size.to_bytes(4, "little")
    path.write_bytes(bytes(content) + more)
    return path


CHUNK = b"LIST\x04\0\0\0INFO"


@pytest.mark.parametrize(
    ("size", "more", "rest_s"),
    [
        (0, b"", 0),
        (0xFFFFFFFF, b"", 0),
        (128_000, b"", 0),
        (128_000, CHUNK, 0),
        (128_000, CHUNK + b"id3 \x03\0\0\0abc\0", 0),
        (128_000, b"\0", 0),
        (10**8, b"", 0),
        (64_000, b"", 2),
        (63_999, b"", 2),
        (96_000, CHUNK, 1),
    ],
)
def test_audio_that_a_header_does_not_declare_is_noted(tmp_path, caplog, size, more, rest_s):
    path = tmp_path / "talk0.wav"
    soundfile.write(path, np.tile(tone(16_000)[16_000:32_000], SECONDS), 16_000)
    with_data_size(path, size, more)
    assert undeclared_seconds(path) == pytest.approx(rest_s, abs=0.001)
    with Recording(path) as recording:
        seconds = sum(piece.size for piece in recording) / 16_000
    assert seconds == pytest.approx(SECONDS - rest_s, abs=0.002)
    assert ("more audio than its header declares" in caplog.text) == (rest_s > 0)


RF64 = b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0" + bytes(8)


@pytest.mark.parametrize(("declared_s", "rest_s"), [(4, 0), (3, 1), (0, 4)])
def test_headers_of_more_than_4_gib(tmp_path, declared_s, rest_s):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16_000), 16_000)
    size = (32_000 * declared_s).to_bytes(8, "little")
    with_data_size(path, 0xFFFFFFFF)
    path.write_bytes(RF64 + size + bytes(12) + path.read_bytes()[12:])
    assert undeclared_seconds(path) == rest_s


@pytest.mark.parametrize("length", [12, 19, 30, 44])
def test_a_file_that_ends_in_its_header(tmp_path, length):
    path = tmp_path / "a.wav"
    soundfile.write(path, tone(16_000), 16_000)
    path.write_bytes(path.read_bytes()[:length])
    assert undeclared_seconds(path) == 0
    with pytest.raises(AudioError, match=r"cannot be decoded|contains no audio"):
        converted(path, tmp_path / "audio")


def test_the_header_of_a_converted_recording_is_noted(tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    path = devset / "wav" / "talk1.wav"
    samples, rate = soundfile.read(path)
    soundfile.write(path, np.repeat(samples, 3), 3 * rate)
    path.write_bytes(path.read_bytes() + bytes(3 * 2 * rate))
    _, note = load_devset(devset, ["de"], tmp_path / "out").notes
    assert note.startswith("talk1.wav: the file has 1.00 s more audio than its header declares")
    with_data_size(path, 3 * 2 * rate)
    with pytest.raises(DevSetError, match=r"is 1.00 s long; the file has 4.00 s more audio than"):
        load_devset(devset, ["de"], tmp_path / "out")


def test_names_of_recordings_may_be_as_long_as_the_file_system_allows(tmp_path):
    soundfile.write(tmp_path / "a.wav", tone(8_000), 8_000)
    path = (tmp_path / "a.wav").rename(tmp_path / f"{'ü' * 125}x.wav")  # 255 bytes
    assert converted(path, tmp_path / "audio")[0].name == path.name


def test_headers_of_a_dev_set(tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    with_data_size(devset / "wav" / "talk0.wav", 0)
    path = devset / "wav" / "talk1.wav"
    path.write_bytes(path.read_bytes() + path.read_bytes()[44:32_044])
    loaded = load_devset(devset, ["de"], tmp_path / "out")
    assert [talk.seconds for talk in loaded.talks] == pytest.approx([6.5, 4.0], abs=0.001)
    _, note = loaded.notes
    assert note.startswith("talk1.wav: the file has 1.00 s more audio than its header declares")
    with_data_size(path, 32_000)
    with pytest.raises(DevSetError, match=r"is 1.00 s long; the file has 4.00 s more audio than"):
        load_devset(devset, ["de"], tmp_path / "out")


def test_a_recording_is_not_replaced_by_its_copy(tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    (devset / "wav").rename(devset / "audio")
    fakes.write_talk(devset / "audio" / "talk0.wav", fakes.talk(13), 8_000)
    before = (devset / "audio" / "talk0.wav").read_bytes()
    with pytest.raises(DevSetError, match="stored in the same folder: choose another --output"):
        load_devset(devset, ["de"], devset)
    assert (devset / "audio" / "talk0.wav").read_bytes() == before
    fakes.write_talk(devset / "audio" / "talk0.wav", fakes.talk(13, extra_samples=1))
    (devset / "ref" / "de.txt").write_bytes(
        b"\xef\xbb\xbf" + (devset / "ref" / "de.txt").read_bytes()
    )
    with pytest.raises(DevSetError, match="would replace the files: choose another --output"):
        load_devset(devset, ["de"], tmp_path)


def test_joined_files_of_two_rates(tmp_path):
    for name, rate in (("a.mp3", 44_100), ("b.mp3", 22_050)):
        encode(tmp_path / name, "libmp3lame", rate)
    joined = tmp_path / "joined.mp3"
    joined.write_bytes((tmp_path / "a.mp3").read_bytes() + (tmp_path / "b.mp3").read_bytes())
    samples = read(converted(joined, tmp_path / "audio")[0])
    assert len(samples) == pytest.approx(2 * SECONDS * 16_000, abs=3200)
    for second in (1.5, 1.5 + SECONDS):
        assert np.abs(samples[int(second * 16_000) :][:1600]).max() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(("gain", "second"), [(1, -1), (1, -0.7), (4, 1), (1, 0)])
def test_channels_neither_cancel_nor_clip(tmp_path, caplog, gain, second):
    sound = tone(48_000) * gain
    both = np.stack([sound, second * sound], axis=1)
    soundfile.write(tmp_path / "a.wav", both, 48_000, "FLOAT")
    heard = np.concatenate(list(Recording(tmp_path / "a.wav")))
    half = gain * (1 + abs(second)) / 4
    assert np.abs(heard[20_000:28_000]).max() == pytest.approx(half, rel=0.02)
    assert ("opposite phase" in caplog.text) == (second < 0)
    samples = read(converted(tmp_path / "a.wav", tmp_path / "audio")[0])
    scale = heard[20_000:28_000] @ samples[20_000:28_000] / (heard[20_000:28_000] ** 2).sum()
    assert scale == pytest.approx(min(1, 1 / half), rel=0.05)
    assert np.abs(samples - scale * heard).max() < 0.01


@pytest.mark.parametrize(("form", "starts"), [("matroska", [5, 8]), ("mpegts", [0, 3])])
def test_sound_stands_where_a_player_plays_it(tmp_path, form, starts):
    """Two seconds of sound begin at 5 s of the container's clock, and a third one is lost."""
    with av.open(str(tmp_path / "a"), "w", format=form) as output:
        stream = output.add_stream("mp2", rate=16_000, layout="mono")
        for begin in (5, 8):
            frame = av.AudioFrame.from_ndarray(np.full((1, 32_256), 9999, np.int16), "s16", "mono")
            frame.sample_rate, frame.pts = 16_000, begin * 16_000
            output.mux(stream.encode(frame))
    loud = np.abs(np.concatenate(list(Recording(tmp_path / "a")))) > 0.1
    edges = np.flatnonzero(np.diff(loud.astype(int), prepend=0) > 0) / 16_000
    assert edges == pytest.approx(starts, abs=0.1)


def test_a_dev_set_of_other_formats(tmp_path):
    devset = fakes.write_devset(tmp_path / "devset")
    wavs = devset / "wav"
    (wavs / "talk0.wav").unlink()
    encode(wavs / "talk0.mp3", "libmp3lame", 44_100)
    segments = (devset / "audio-segments.yaml").read_text()
    segments = segments.replace("offset: 6.0", "offset: 3.0").replace("ion: 3.0", "ion: 0.5")
    (devset / "audio-segments.yaml").write_text(segments)
    with pytest.raises(DevSetError, match="talk0"):
        load_devset(devset, ["de"])
    loaded = load_devset(devset, ["de"], tmp_path / "audio")
    assert [talk.wav.parent.name for talk in loaded.talks] == ["audio", "wav"]
    (note,) = [note for note in loaded.notes if "talk0" in note]
    assert "talk0.mp3: mp3" in note


def test_files_without_audio(tmp_path):
    (tmp_path / "a.mp3").write_bytes(b"ID3 not audio at all")
    with av.open(str(tmp_path / "a.mp4"), "w") as output:
        stream = output.add_stream("mpeg4", rate=5)
        stream.width = stream.height = 32
        frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24")
        output.mux([*stream.encode(frame), *stream.encode(None)])
    for name, message in (("a.mp3", "cannot be decoded"), ("a.mp4", "has no audio track")):
        with pytest.raises(AudioError, match=message):
            converted(tmp_path / name, tmp_path / "audio")
    assert not list((tmp_path / "audio").glob("*.wav"))


def test_long_recordings_take_constant_memory(tmp_path):
    """Eight minutes at 44.1 kHz stereo are 85 MB of samples; peak memory hardly moves."""
    with soundfile.SoundFile(tmp_path / "long.wav", "w", 44_100, 2, "PCM_16") as file:
        for _ in range(8):
            file.write(np.zeros((60 * 44_100, 2), np.int16))
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from alignatt_agent.evaluation.audio import converted\n"
        "import av\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "wav, _ = converted(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "print(wav.stat().st_size, (peak() - before) / 1024)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "long.wav"), str(tmp_path / "audio")]
    size, grown_mb = subprocess.check_output(command, text=True).split()
    assert int(size) == pytest.approx(8 * 60 * 32_000, abs=2000)
    assert float(grown_mb) < 25


def test_a_hole_of_hours_needs_no_memory(tmp_path, caplog):
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as output:
        stream = output.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for second in (0, 1, 7202, 7203):
            sound = np.full((1, 16_000), 9000, np.int16)
            frame = av.AudioFrame.from_ndarray(sound, format="s16", layout="mono")
            frame.sample_rate, frame.pts = 16_000, second * 16_000
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    total = loud = 0
    with Recording(path) as recording:
        for piece in recording:
            assert piece.size <= 16_000
            total += piece.size
            loud += int(np.count_nonzero(piece))
    assert (total / 16_000, loud / 16_000) == pytest.approx((7204, 4), abs=0.01)
    assert "7200 s without audio become silence" in caplog.text


def with_clock(path, form, codec, seconds, begin_s, first=0):
    """Write seconds of sound, which get louder, from ``first``, on a clock from ``begin_s``."""
    with av.open(str(path), "w", format=form, options={"mpegts_copyts": "1"}) as output:
        stream = output.add_stream(codec, rate=48_000, layout="mono")
        samples = np.repeat(np.arange(first + 1, first + seconds + 1) / 20, 48_000)
        time = np.arange(samples.size) / 48_000
        samples = samples * np.sin(2 * np.pi * 440 * time)
        frame = av.AudioFrame.from_ndarray(
            np.rint(samples * 32767).astype(np.int16)[None], format="s16", layout="mono"
        )
        frame.sample_rate, frame.pts = 48_000, 0
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            if packet.pts is not None:
                packet.pts += round(begin_s / packet.time_base)
                packet.dts = packet.pts
                output.mux(packet)


@pytest.mark.parametrize(
    ("jump_s", "silence_s"),
    [(0, 0), (5, 5), (-2, 0), (-50, 0), (60, 0), (3600, 0), (40_000, 0)],
)
def test_clocks_that_jump_in_a_transport_stream(tmp_path, jump_s, silence_s):
    for name, begin_s, first in (("a", 100, 0), ("b", 103 + jump_s, 3)):
        with_clock(tmp_path / f"{name}.ts", "mpegts", "mp2", 3, begin_s, first)
    path = tmp_path / "joined.ts"
    path.write_bytes((tmp_path / "a.ts").read_bytes() + (tmp_path / "b.ts").read_bytes())
    with Recording(path) as recording:
        samples = np.concatenate(list(recording))
    assert samples.size / 16_000 == pytest.approx(6 + silence_s, abs=0.2)
    heard = samples[np.abs(samples) > 1e-3]
    levels = [np.abs(heard[k * 15_500 :][4000:12_000]).max() for k in range(6)]
    assert levels == sorted(levels)
    assert levels == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.25, 0.3], abs=0.06)
