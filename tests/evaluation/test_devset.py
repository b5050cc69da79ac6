"""Everything that can be wrong with a dev set is said before a model is loaded."""

import unicodedata

import numpy as np
import pytest
import yaml

from alignatt_agent.evaluation.devset import load_devset
from alignatt_agent.evaluation.segments import DevSetError
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
    assert loaded.notes == ("de.txt: 1 line(s) with CSV quotes, which are scored as text",)


def problems(devset, targets, *messages):
    """Expect that a dev set is refused with all ``messages``."""
    with pytest.raises(DevSetError) as error:
        load_devset(devset, targets)
    for message in messages:
        assert message in str(error.value)


def test_all_problems_at_once(devset):
    write_talk(devset / "wav" / "talk0.wav", talk(30), 44_100, 2)
    (devset / "wav" / "talk1.wav").write_bytes(b"ID3 not a wav file")
    (devset / "ref" / "de.txt").write_text("one line\n")
    lines = "de.txt has 1 lines, but audio-segments.yaml has 5 segments"
    form = "talk0.wav is WAV, PCM_16, 44100 Hz, 2 channel(s); expected WAV, PCM_16, 16000 Hz, 1"
    others = "ffmpeg -i", "is not a WAV file", "it.txt does not exist"
    problems(devset, ["de", "it"], lines, form, *others)
    (devset / "wav" / "talk0.wav").unlink()
    problems(devset, ["de"], "talk0.wav is not in")
    write_talk(devset / "wav" / "talk0.wav", np.zeros(0))
    problems(devset, ["de"], lines, "contains no audio")


def last(**changes):
    return lambda segments: [*segments[:-1], segments[-1] | changes]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (last(duration=100.0), r"ends at 10[0-9.]+ s, but .*talk1.wav is 4.00 s long"),
        (last(duration=0), "segment 5 is .*duration > 0"),
        (last(wav="more/talk1.wav"), "talk1 has 2 groups"),
        (lambda segments: [segments[-1], *segments], "talk1 has 2 groups"),
        (lambda _: [{"wav": "a.wav"}], "segment 1 is"),
        (lambda _: [{"offset": 0, "duration": 1}], "segment 1 is"),
        (lambda _: ["a.wav"], "segment 1 is"),
        (last(offset=True), "segment 5 is .*'offset': True"),
        (last(offset=float("inf")), "segment 5 is .*'offset': inf"),
        (last(offset=float("nan")), "segment 5 is .*'offset': nan"),
        (last(offset="1.0"), "segment 5 is .*'offset': '1.0'"),
        (last(duration=True), "segment 5 is .*'duration': True"),
        (last(duration=float("inf")), "segment 5 is .*'duration': inf"),
    ],
)
def test_bad_segments(devset, change, message):
    path = devset / "audio-segments.yaml"
    path.write_text(yaml.safe_dump(change(yaml.safe_load(path.read_text()))))
    with pytest.raises(DevSetError, match=message):
        load_devset(devset, ["de"])


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda rows: [rows[1], rows[0], *rows[2:]],
            "1 segment(s) begin before the segment above (first: segment 2)",
        ),
        (
            lambda rows: [rows[0] | {"duration": 4.0}, *rows[1:]],
            "1 segment(s) overlap the segment above by more than 0.01 s (first: segment 2)",
        ),
        (lambda rows: [rows[0] | {"duration": 3.005}, *rows[1:]], None),
    ],
)
def test_segments_out_of_order_or_overlapping_are_noted(devset, change, note):
    path = devset / "audio-segments.yaml"
    path.write_text(yaml.safe_dump(change(yaml.safe_load(path.read_text()))))
    notes = load_devset(devset, ["de"]).notes
    assert len(notes) == (note is not None)
    assert all(text.startswith(f"audio-segments.yaml: {note}") for text in notes)


def test_a_key_twice_in_a_segment_is_refused(devset):
    path = devset / "audio-segments.yaml"
    path.write_text(f"{path.read_text()}- duration: 1.0\n  offset: 1\n  offset: 3\n  wav: a.wav\n")
    number = len(path.read_text().splitlines()) - 1
    problems(devset, ["de"], f"the key 'offset' in line {number} is already in line {number - 1}")


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda line: unicodedata.normalize("NFD", f"{line} schön"),
            "5 line(s) not in Unicode form NFC (first: line 1); the scorers take",
        ),
        (
            lambda line: f"\u200b{line}",
            "5 line(s) with invisible characters (first: line 1; U+200B), which the scorers comp",
        ),
        (
            lambda line: line.replace("Wort4", "W\u00adort\ufeff4"),
            "2 line(s) with invisible characters (first: line 1; U+00AD, U+FEFF), which",
        ),
        (
            lambda line: f"{line} schön – für".encode().decode("cp1252"),
            "5 line(s) that look like UTF-8 read in another encoding (first: line 1, 'Wort0 ",
        ),
        (
            lambda line: f"\u061c{line} \u034f \u3164",
            "5 line(s) with invisible characters (first: line 1; U+034F, U+061C, U+3164), which",
        ),
        (
            lambda line: f"{line} \x93Zitat\x94",
            "5 line(s) with invisible characters (first: line 1; U+0093, U+0094), which",
        ),
        (
            lambda line: f"{line} при".encode().decode("cp1251"),
            "5 line(s) that look like UTF-8 read in another encoding (first: line 1, 'Wort0 ",
        ),
        (lambda line: f"{line} sch\ufffdn", "5 line(s) with U+FFFD, which replaces characters"),
        (lambda line: f"{line} «perché» می‌خواهم नहीं\u00a0! 50\u202f% ❤\ufe0f\x85", None),
        (lambda line: f"{line} «План» ГДР» ř“ „Ψ»", None),
    ],
)
def test_characters_that_readers_do_not_see_are_noted(devset, change, note):
    path = devset / "ref" / "de.txt"
    path.write_text("".join(f"{change(line)}\n" for line in path.read_text().splitlines()))
    before = path.read_bytes()
    loaded = load_devset(devset, ["de"])
    assert len(loaded.notes) == (note is not None)
    assert all(text.startswith(f"de.txt: {note}") for text in loaded.notes)
    assert (loaded.references["de"], path.read_bytes()) == (path, before)


def test_empty_references(devset):
    path = devset / "ref" / "de.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["", *lines[1:]]) + "\n")
    loaded = load_devset(devset, ["de"])
    assert loaded.notes == ("de.txt: 1 empty reference(s) (first: line 1)",)
    path.write_text("\n".join([*lines[:3], "", ""]) + "\n")
    problems(devset, ["de"], "de.txt: all lines of talk1.wav are empty, but OmniSTEval needs")


@pytest.mark.parametrize(
    ("coding", "place", "fix"),
    [("latin-1", "line 2", "iconv -f ISO-8859-1"), ("utf-16", "line 1", "iconv -f UTF-16 -t"),
     ("utf-16-le", "line 2", "iconv -f UTF-16 -t")],
)  # fmt: skip
@pytest.mark.parametrize("name", ["ref/de.txt", "ref/en.txt", "audio-segments.yaml"])
def test_other_encodings_are_named_with_the_way_out(devset, name, coding, place, fix):
    lines = (devset / name).read_text().replace("\n", "\n#ä", 1)
    (devset / name).write_bytes(lines.encode(coding))
    problems(devset, ["de"], f"{name} is not UTF-8 text ({place}); if the encoding is", fix)


COMPOSED, APART = (unicodedata.normalize(form, "Žižka.wav") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("file", "named"),
    [("2022.acl-long.367.wav", "2022.acl-long.367"), ("10.1007_s1.wav", "10.1007_s1"),
     (COMPOSED, APART), (APART, COMPOSED)],
)  # fmt: skip
def test_scorers_get_the_names_of_the_files(devset, tmp_path, file, named):
    (devset / "wav/talk1.wav").rename(devset / "wav" / file)
    path = devset / "audio-segments.yaml"
    path.write_text(path.read_text().replace("talk1.wav", named))
    for audio in (True, False)[: 1 + named.isascii()]:
        loaded = load_devset(devset, ["de"], tmp_path / "out", audio=audio)
        assert loaded.talks[1].wav.name == loaded.segments[-1].wav == file
        scored = yaml.safe_load(loaded.segmentation.read_text())
        assert [item["wav"] for item in scored] == [span.wav for span in loaded.segments]
    problems(devset, ["de"], "audio-segments.yaml: scorers misread")
