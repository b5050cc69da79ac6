"""``alignatt translate`` on fake engines: formats, files, failures, exit statuses."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import webvtt

from alignatt_agent import cli
from alignatt_agent.live import cli as translate
from alignatt_agent.live import sources
from alignatt_agent.types import SAMPLE_RATE, EngineError
from alignatt_agent.types.audio import AudioError
from tests.fakes import agent as fakes

WORDS = 13


@pytest.fixture
def engines(monkeypatch):
    found = fakes.FakeEngines()
    monkeypatch.setattr("alignatt_agent.cascade.loading.load_engines", lambda *_: found)
    monkeypatch.setattr("alignatt_agent.cascade.loading.shutdown", lambda: None)
    monkeypatch.setattr("alignatt_agent.live.cli.check_requests", lambda _: None)
    return found


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, engines):
    """Run the command on a fake talk; returns status, output and errors."""
    monkeypatch.chdir(tmp_path)
    config = fakes.write_config(tmp_path)
    fakes.write_talk(tmp_path / "talk.wav", fakes.talk(WORDS))

    def call(*given, source="talk.wav", to=("de",)):
        argv = ["translate", source, "--target", *to, "--config", str(config), *map(str, given)]
        status = cli.main(argv)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return call


GERMAN = [f"Wort{k}" + ("." if k % 6 == 5 else "") for k in range(WORDS)]


def test_text_on_the_terminal_a_sentence_a_line(run):
    status, out, _ = run()
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [GERMAN[:6], GERMAN[6:12], GERMAN[12:]]


def test_several_languages_on_the_terminal_are_named(run):
    _, out, _ = run(to=("de", "Chinese", "en"))
    lines = out.splitlines()
    assert {line[:4] for line in lines} == {"de: ", "zh: ", "en: "}
    assert "de: " + " ".join(GERMAN[:6]) in lines
    assert "zh: 字零字一字二字三字四字五。" in lines
    assert "en: word0 word1 word2 word3 word4 word5." in lines


def test_subtitles_of_every_language_replace_those_of_before(run, tmp_path):
    (tmp_path / "talk.de.srt").write_text("old" * 10_000)
    status, out, err = run("--format", "srt", to=("de,zh", "en"))
    assert (status, out) == (0, "")
    for code in ("de", "zh", "en"):
        cues = list(webvtt.from_srt(str(tmp_path / f"talk.{code}.srt")))
        assert f"talk.{code}.srt: {len(cues)} cues, " in err
        assert cues[0].start_in_seconds == 0
    shown = " ".join(line for cue in webvtt.from_srt("talk.de.srt") for line in cue.lines)
    assert shown.split() == GERMAN


def test_every_word_has_the_time_at_which_it_was_spoken(run):
    status, out, _ = run("--format", "jsonl", to=("de", "en"))
    assert status == 0
    for code in ("de", "en"):
        lines = [line for line in map(json.loads, out.splitlines()) if line["target"] == code]
        assert len(lines) == WORDS
        for k, line in enumerate(lines):
            assert list(line) == ["target", "text", "start", "end", "emission_time"]
            # What was said before a word was over has the end of the sound so far.
            assert line["start"] == pytest.approx(k / 2)
            assert line["end"] == pytest.approx(k / 2 + 0.5, abs=0.06)
            assert line["emission_time"] >= line["end"]


def test_a_policy_without_rows_says_that_its_times_are_interpolated(run, tmp_path):
    content = fakes.write_config(tmp_path).read_text()
    assert "head_sets" in content
    given = ["--set", "policy={name: hold_n, n: 1}", "--set", "head_sets={}"]
    status, out, _ = run(*given, "--format", "jsonl")
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["text"] for line in lines] == GERMAN
    assert all(line["interpolated"] for line in lines)
    starts = [line["start"] for line in lines]
    assert starts == sorted(starts)
    assert lines[-1]["end"] == pytest.approx(WORDS / 2, abs=0.1)
    _, _, err = run(*given, "--format", "vtt")
    assert f"times of {WORDS} of {WORDS} units are interpolated" in err


def test_said_captions_begin_when_something_was_said(run):
    assert run("--format", "vtt", "--times", "said", "--output", "captions")[0] == 0
    cues = list(webvtt.read("captions.de.vtt"))
    assert cues[0].start_in_seconds > 0
    assert all(a.end == b.start for a, b in itertools.pairwise(cues))


def test_text_and_lines_into_files(run, tmp_path):
    assert run("--format", "txt", "--output", "a")[1:2] == ("",)
    assert (tmp_path / "a.de.txt").read_text().split() == GERMAN
    assert run("--format", "jsonl", "--output", "a")[0] == 0
    assert len((tmp_path / "a.de.jsonl").read_text().splitlines()) == WORDS


def test_a_failing_language_does_not_stop_the_others_and_is_told_once(run, engines):
    inner = engines.translation.draft

    def draft(prompt, *given):
        if "Chinese" in engines.tokenizer.decode(prompt.token_ids):
            raise EngineError("no Chinese today")
        return inner(prompt, *given)

    engines.translation.draft = draft
    status, out, err = run(to=("de", "zh"))
    assert status == 1
    assert err.count("zh: no Chinese today") == 1
    assert "given up" in err  # nothing is gained by hearing on
    assert out.startswith("de: Wort0") or out == ""


def test_what_was_said_before_a_failure_is_written(run, engines, tmp_path):
    inner, calls = engines.asr.transcribe, []

    def transcribe(*given):
        calls.append(1)
        if len(calls) > 4:
            raise EngineError("the recogniser is gone")
        return inner(*given)

    engines.asr.transcribe = transcribe
    status, _, err = run("--format", "srt")
    assert status == 1
    assert err.count("the recogniser is gone") == 1
    shown = [line for cue in webvtt.from_srt("talk.de.srt") for line in cue.lines]
    assert 3 < len(" ".join(shown).split()) < WORDS


def test_an_interrupt_leaves_what_was_said(run, engines, tmp_path):
    inner, calls = engines.asr.transcribe, []

    def transcribe(*given):
        calls.append(1)
        if len(calls) > 4:
            raise KeyboardInterrupt
        return inner(*given)

    engines.asr.transcribe = transcribe
    assert run("--format", "vtt")[0] == 130
    assert len(list(webvtt.read("talk.de.vtt"))) > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "none.wav"}, "none.wav is not a file; expected a file, an address, mic or -"),
        ({"source": "noise.mp3"}, "noise.mp3 cannot be decoded"),
        ({"to": ("Klingon",)}, "unknown language 'Klingon'"),
        ({"to": ("it",)}, "no head set for en-it"),
    ],
)
def test_nothing_is_started_for_what_cannot_work(run, tmp_path, given, message):
    (tmp_path / "noise.mp3").write_bytes(b"ID3 nothing")
    status, out, err = run(**given)
    assert (status, out) == (2, "")
    assert message in err
    assert "loading models" not in err


def test_a_folder_that_is_not_there(run):
    status, _, err = run("--output", "nowhere/talk")
    assert status == 2
    assert "nowhere" in err


def test_without_real_models_only_their_own_world_is_translated(run, capsys):
    assert cli.main(["translate", "talk.wav", "--target", "de"]) == 2
    err = capsys.readouterr().err
    assert "hf download" in err
    assert "know only their own small world" in err
    source = str(fakes.Path("micro_models/devset/wav/talk-a.wav"))
    resolved = translate.choose(None, {}, [translate.language("de")], _checkout(source))
    assert resolved.config.models.asr.path == "micro_models/qwen3-asr"
    assert "using those that know this talk: --config micro-low" in capsys.readouterr().err


def test_embedded_models_on_other_sound_are_warned_of(capsys):
    translate.choose("micro-low", {}, [translate.language("de")], "elsewhere.wav")
    assert "micro-low knows only their own small world" in capsys.readouterr().err
    translate.choose(
        "micro-low", {}, [translate.language("de")], _checkout("micro_models/devset/wav/talk-b.wav")
    )
    assert capsys.readouterr().err == ""


def _checkout(path):
    from alignatt_agent.config.resources import find_path

    return str(find_path(path))


def test_whoever_reads_our_output_may_go_away():
    code = (
        "import sys, types; from alignatt_agent import cli; "
        "module = sys.modules['alignatt_agent.endless'] = types.ModuleType('endless'); "
        "module.main = lambda argv: [print(k, flush=True) for k in range(10**6)]; "
        "cli.COMMANDS['endless'] = ('endless', ''); sys.exit(cli.run('endless', []))"
    )
    talker = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert talker.stdout.readline() == "0\n"
    talker.stdout.close()
    assert (talker.wait(60), talker.stderr.read()) == (1, "")


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit):
        cli.main(["translate", "--help"])
    text = capsys.readouterr().out
    assert "--target de it zh en --format srt" in text
    assert "exit status" in text


@pytest.mark.parametrize(("old", "new"), [("--to", "--target"), ("--from", "--source")])
def test_renamed_options_are_refused_with_the_new_name(capsys, old, new):
    with pytest.raises(SystemExit):
        cli.main(["translate", "talk.wav", old, "de"])
    assert f"{old} is now {new}" in capsys.readouterr().err


# ------------------------------------------------------------------ sound
def pieces(total, seed=0):
    rng = np.random.default_rng(seed)
    samples = np.arange(total, dtype=np.int16)
    cuts = np.sort(rng.integers(0, total, 9))
    return samples, np.split(samples, cuts)


@pytest.mark.parametrize("total", [0, 1, 999, 1000, 1001, 7777])
def test_the_grid_does_not_depend_on_how_the_sound_came(total):
    samples, cut = pieces(max(1, total))
    cut = cut if total else []
    chunks = list(sources.on_grid(cut, 1000))
    assert [chunk.size for chunk in chunks] == [1000] * (total // 1000) + (
        [total % 1000] if total % 1000 else []
    )
    if total:
        assert (np.concatenate(chunks) * 32768 == samples).all()
        assert chunks[0].dtype == np.float32


def test_who_is_late_hears_all_that_waits():
    samples, _ = pieces(5000)
    heard = threading.Event()

    def coming():
        yield samples[:150]
        heard.wait(30)
        yield from np.array_split(samples[150:4000], 9)
        yield samples[4000:4050]

    chunks = sources.as_it_comes(coming(), 100)
    first = next(chunks)
    heard.set()
    while threading.active_count() > 1 and any(
        "listen" in thread.name for thread in threading.enumerate()
    ):
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


def stdin(monkeypatch, data):
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    )


def test_a_recording_through_a_pipe(run, tmp_path, monkeypatch):
    stdin(monkeypatch, (tmp_path / "talk.wav").read_bytes())
    status, out, _ = run(source="-")
    assert (status, out.split()) == (0, GERMAN)


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_raw_samples_through_a_pipe(run, monkeypatch, rate):
    levels = np.round(fakes.talk(WORDS) * 32768).astype("<i2")
    stdin(monkeypatch, np.repeat(levels, rate // 16_000).tobytes())
    status, out, _ = run("--raw", rate, source="-")
    assert status == 0
    assert out.split()[:5] == GERMAN[:5]


def test_raw_samples_that_nobody_announced(run, monkeypatch):
    stdin(monkeypatch, np.zeros(16_000, "<i2").tobytes())
    status, _, err = run(source="-")
    assert status == 2
    assert "--raw RATE" in err


def test_a_terminal_is_no_recording(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    status, _, err = run(source="-")
    assert status == 2
    assert "standard input is a terminal" in err


def test_no_program_to_hear_with(run, monkeypatch):
    monkeypatch.setattr(sources.shutil, "which", lambda _: None)
    status, _, err = run(source="mic")
    assert status == 2
    assert "pw-record, parec, arecord" in err


def test_the_microphone(run, tmp_path, monkeypatch):
    """A recorder that plays the talk, and goes on until it is told to stop."""
    raw = tmp_path / "talk.raw"
    raw.write_bytes(np.round(fakes.talk(WORDS) * 32768).astype("<i2").tobytes())
    code = "import sys, time; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    recorder = (sys.executable, "-c", code, str(raw))
    monkeypatch.setattr(sources, "RECORDERS", (("no-such-program",), recorder))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    status, out, err = run(source="mic")
    assert (status, out.split()) == (0, GERMAN)
    assert "listening to the microphone with" in err


def test_names_of_files():
    names = {
        "a/talk.mp4": "talk",
        "https://x.org/live.m3u8?k=1": "live",
        "mic": "mic",
        "-": "stdin",
    }
    assert {source: sources.name_of(source) for source in names} == names


def test_a_recording_that_breaks_off(run, monkeypatch):
    @contextlib.contextmanager
    def opened(source, rate=None):
        def broken():
            yield np.round(fakes.talk(8) * 32768).astype(np.int16)
            raise AudioError("talk.wav cannot be decoded: Invalid data")

        yield broken()

    monkeypatch.setattr(sources, "opened", opened)
    status, out, err = run()
    assert (status, out.split()) == (1, GERMAN[:8])
    assert "alignatt translate: talk.wav cannot be decoded" in err
