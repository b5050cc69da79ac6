"""Everything that can be wrong with a dev set is said before a model is loaded."""

import numpy as np
import pytest
import yaml

from alignatt_agent.evaluation.devset import DevSetError, load_devset
from tests.fakes.agent import talk, write_devset, write_talk


@pytest.fixture
def devset(tmp_path):
    return write_devset(tmp_path)


def test_valid_and_recordings_may_lie_beside_the_segmentation(devset):
    loaded = load_devset(devset, ["de", "zh"])
    assert [item.wav.name for item in loaded.talks] == ["talk0.wav", "talk1.wav"]
    assert len(loaded.segments) == 5
    assert loaded.seconds == pytest.approx(10.5, abs=0.001)
    for wav in (devset / "wav").iterdir():
        wav.rename(devset / wav.name)
    assert len(load_devset(devset, ["de"]).talks) == 2


def test_the_archive_that_iwslt_gives(devset):
    """Recordings in ``audio/``; references as they came out of a table."""
    (devset / "wav").rename(devset / "audio")
    path = devset / "ref" / "de.txt"
    first, *others = path.read_text().splitlines()
    path.write_text("\n".join([f'"Das ""{first}"" da"', *others]) + "\n")
    loaded = load_devset(devset, ["de"])
    assert [item.wav.parent.name for item in loaded.talks] == ["audio", "audio"]
    assert loaded.notes == ("de.txt: 1 lines are quoted as in a CSV file; so they score",)


@pytest.mark.parametrize(("rate", "channels"), [(44_100, 1), (16_000, 2), (8_000, 1)])
def test_wrong_format(devset, rate, channels):
    write_talk(devset / "wav" / "talk1.wav", talk(30), rate, channels)
    problems(
        *(devset, ["de"], f"talk1.wav is {rate} Hz, {channels} channel(s), 16 bit"),
        *("expected 16000 Hz, 1 channel, 16 bit", "ffmpeg -i"),
    )


def problems(devset, targets, *messages):
    """Expect that a dev set is refused with all ``messages``."""
    with pytest.raises(DevSetError) as error:
        load_devset(devset, targets)
    for message in messages:
        assert message in str(error.value)


def test_all_problems_at_once(devset):
    (devset / "wav" / "talk0.wav").unlink()
    (devset / "wav" / "talk1.wav").write_bytes(b"ID3 not a wav file")
    (devset / "ref" / "de.txt").write_text("one line\n")
    lines = "de.txt has 1 lines, audio-segments.yaml has 5 segments"
    missing = "talk0.wav is neither in", "is not a PCM WAV file", "it.txt does not exist"
    problems(devset, ["de", "it"], lines, *missing)
    write_talk(devset / "wav" / "talk0.wav", np.zeros(0))
    problems(devset, ["de"], lines, "holds no audio")


def last(**changes):
    return lambda segments: [*segments[:-1], segments[-1] | changes]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (last(duration=100.0), r"ends at 10[0-9.]+ s, but .*talk1.wav is 4.00 s long"),
        (last(duration=0), "segment 5 is .*duration > 0"),
        (last(wav="more/talk1.wav"), "more/talk1.wav and talk1.wav are both talk1"),
        (lambda segments: [segments[-1], *segments], "talk1 are not in one block"),
        (lambda _: [{"wav": "a.wav"}], "segment 1 is"),
        (lambda _: [{"offset": 0, "duration": 1}], "segment 1 is"),
        (lambda _: ["a.wav"], "segment 1 is"),
    ],
)
def test_bad_segments(devset, change, message):
    path = devset / "audio-segments.yaml"
    path.write_text(yaml.safe_dump(change(yaml.safe_load(path.read_text()))))
    with pytest.raises(DevSetError, match=message):
        load_devset(devset, ["de"])


def test_empty_references(devset):
    path = devset / "ref" / "de.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["", *lines[1:]]) + "\n")
    loaded = load_devset(devset, ["de"])
    assert loaded.notes == ("de.txt: 1 empty references (first in line 1)",)
    path.write_text("\n" * len(lines))
    with pytest.raises(DevSetError, match="holds nothing but empty lines"):
        load_devset(devset, ["de"])


def test_transcript(devset):
    path = devset / "ref" / "en.txt"
    assert load_devset(devset, ["de"]).transcript == path
    assert load_devset(devset, ["de"], source="cs").transcript is None
    path.write_text("one line\n")
    with pytest.raises(DevSetError, match=r"en.txt has 1 lines, .* has 5 segments"):
        load_devset(devset, ["de"])
    path.unlink()
    assert load_devset(devset, ["de"]).transcript is None
