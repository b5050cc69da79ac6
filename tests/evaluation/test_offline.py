"""The off-line cascade: whole recordings, whole sentences, the same segments."""

import json
import re
import shutil

import numpy as np
import pytest

from alignatt_agent.agent import AlignAttAgent
from alignatt_agent.cascade.open_stream import open_stream
from alignatt_agent.cli import main
from alignatt_agent.evaluation.offline import run
from alignatt_agent.evaluation.offline_audio import Pieces, transcribe
from alignatt_agent.evaluation.plan import plan
from alignatt_agent.types import SAMPLE_RATE, Transcript
from tests.fakes import agent as fakes


def sound(seconds, level=0.1):
    """Noise that is as loud as speech."""
    samples = np.random.default_rng(1).normal(0, level, seconds * SAMPLE_RATE)
    return samples.astype(np.float32)


def pieces(folder, audio, longest_s):
    """The pieces that hold speech, when nothing is transcribed again."""
    fakes.write_talk(folder / "a.wav", audio)
    recording = Pieces(folder / "a.wav", longest_s)
    found, begin = [], 0
    while begin < recording.frames:
        end, following = recording.piece(begin)
        if recording.speaks(begin, end):
            found.append(recording.read(begin, end))
        begin = following
    return found


def test_pieces_end_where_it_is_quiet(tmp_path):
    audio = sound(25)
    for second in (7.0, 13.5, 19.0):
        begin = int(second * SAMPLE_RATE)
        audio[begin : begin + SAMPLE_RATE // 2] = 0
    found = pieces(tmp_path, audio, 9.0)
    # Each of them holds the whole pause at either end.
    seconds = [(0, 7.5), (7, 14), (13.5, 19.5), (19, 25)]
    for piece, (begin, end) in zip(found, seconds, strict=True):
        assert piece.size / SAMPLE_RATE == pytest.approx(end - begin, abs=0.05)
        loud = np.flatnonzero(piece)
        heard = audio[int(begin * SAMPLE_RATE) : int(end * SAMPLE_RATE)]
        assert np.count_nonzero(piece) == pytest.approx(np.count_nonzero(heard), rel=0.01)
        assert begin == 0 or loud[0] > 0.4 * SAMPLE_RATE
        assert end == 25 or loud[-1] < piece.size - 0.4 * SAMPLE_RATE


def test_speech_without_a_pause_is_cut_where_it_is_quietest(tmp_path):
    audio = sound(20)
    audio[int(6.5 * SAMPLE_RATE) : int(6.7 * SAMPLE_RATE)] *= 0.3
    sizes = [piece.size / SAMPLE_RATE for piece in pieces(tmp_path, audio, 8.0)]
    assert sizes[0] == pytest.approx(6.6, abs=0.2)
    assert max(sizes) <= 8
    assert sum(sizes) == pytest.approx(20)


def test_long_silence_is_not_transcribed(tmp_path):
    speech, silence = sound(5), sound(40, level=0.001)
    audio = np.concatenate([silence, speech, silence, speech, silence[:77]])
    found = pieces(tmp_path, audio, 10.0)
    assert sum(piece.size for piece in found) < 40 * SAMPLE_RATE
    loud = sum(np.count_nonzero(np.abs(piece) > 0.01) for piece in found)
    assert loud == pytest.approx(np.count_nonzero(np.abs(audio) > 0.01), rel=0.001)


@pytest.mark.parametrize(
    "audio", [*(np.full(samples, 0.5, np.float32) for samples in (1, 100, 161)), fakes.talk(3)]
)
def test_short_recordings_are_one_piece(tmp_path, audio):
    assert [piece.size for piece in pieces(tmp_path, audio, 10.0)] == [audio.size]


@pytest.mark.parametrize("invention", ["invented", "invented."])
def test_what_a_recognizer_invents_where_audio_ends_is_dropped(tmp_path, invention):
    words = 61
    fakes.write_talk(tmp_path / "a.wav", fakes.talk(words))

    class Inventive(fakes.FakeRecognizer):
        def transcribe(self, audio, language, context="", expected=""):
            # After a number, a full stop may be a decimal point.
            heard = super().transcribe(audio, language).text.replace(".", "!").split()
            if heard[-1:] != [fakes.word(words - 1)]:
                heard = [*heard[:-1], invention]
            return Transcript(" ".join(heard))

    engines = fakes.FakeEngines()
    engines.asr = Inventive()
    expected = " ".join(fakes.word(k).replace(".", "!") for k in range(words))
    assert transcribe(engines, tmp_path / "a.wav", "en", 9.0) == expected


def test_the_command_scores_on_the_segments_of_the_dev_set(call, monkeypatch, capsys):
    engines, opened = fakes.FakeEngines(), []
    monkeypatch.setattr(AlignAttAgent, "runtime", fakes.FakeRuntime(engines))
    monkeypatch.setattr(
        "alignatt_agent.evaluation.offline.open_stream",
        lambda *given: opened.append(given[-1]) or open_stream(*given),
    )
    out = call.root / "offline"
    given = ["offline", "--config", str(call.root / "low.yaml"), "--devset", str(call.devset)]
    given += ["--set", "speech.context=[a = b]", "--output", str(out), "--target"]
    assert main([*given, "German", "zh"]) == 0
    assert re.search(r"^de +9\d\.\d\d|^de +100\.00", capsys.readouterr().out, flags=re.M)
    assert fakes.FakeRecognizer.contexts[-1] == "a"
    assert set(opened) == {"a = b"}  # translations of terms are for the translator
    for target in ("de", "zh"):
        written = json.loads((out / target / "offline.json").read_text())
        assert written["bleu"] > 90
        assert written["wer"] == 0
        assert written["signature"]["latency"] == "off-line"
    assert len((out / "transcript.txt").read_text().splitlines()) == 2
    assert "Wort12" in (out / "de" / "hypothesis.txt").read_text()
    assert main([*given, "it"]) == 2
    assert "no head set for en-it" in capsys.readouterr().err
    engines.translation.fail = True
    assert main([*given, "de"]) == 1
    assert "out of memory" in capsys.readouterr().err


def test_rows_beside_the_streamed_ones(finished, tmp_path):
    """``--offline`` shows the ceiling of the same models on the same data, and of nothing else."""
    config, offline, root = str(finished.root / "low.yaml"), tmp_path / "offline", "beside"
    agent = "tests.fakes.agent.FakeAgent"
    (planned,) = runs = plan(agent, [config], {}, None, ["de"], finished.devset, offline)
    resolved, engines = planned.choice.resolved, fakes.FakeEngines()
    (row,) = run(runs, resolved, engines, offline, longest_s=30.0).values()
    shutil.copytree(finished.root / "out" / "low", finished.root / root)

    def call(target):
        more = {"configs": ("low",), "targets": (target,), "out": root}
        return finished("--offline", str(offline), "--resume", **more)

    status, text, error = call("de")
    assert status == 0, error
    (line,) = (line for line in text.splitlines() if line.startswith("off-line de"))
    assert line.split()[2:4] == [f"{row['bleu']:.2f}", f"{row['chrf']:.2f}"]
    assert line.endswith("quality ceiling")
    report = (finished.root / root / "report.md").read_text()
    assert re.search(r"^\| off-line +\| de +\| +\d", report, flags=re.M)
    assert "dashed: off-line" in (finished.root / root / "report.html").read_text()

    status, _, error = call("zh")
    assert status == 2
    assert "alignatt offline --target zh" in error
    path = offline / "de" / "offline.json"
    content = json.loads(path.read_text())
    content["signature"]["devset"] = "another one"
    path.write_text(json.dumps(content))
    status, _, error = call("de")
    assert status == 2
    assert ", not another one" in error
    assert fakes.FakeAgent.runtime.starts == 0
