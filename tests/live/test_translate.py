"""``alignatt translate`` on fake engines: formats, files, failures, exit statuses."""

import errno
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import webvtt

from alignatt_agent import cli
from alignatt_agent.config.whole_files import replace_text
from alignatt_agent.live import cli as translate
from alignatt_agent.live import sources
from alignatt_agent.types import EngineError
from tests.fakes.agent import word
from tests.fakes.models import before_calls
from tests.live.conftest import WORDS, standard_input

GERMAN = [f"Wort{k}" + ("." if k % 6 == 5 else "") for k in range(WORDS)]


def test_text_on_the_terminal_a_sentence_a_line(run):
    status, out, _ = run()
    assert status == 0
    assert [line.split() for line in out.splitlines()] == [GERMAN[:6], GERMAN[6:12], GERMAN[12:]]
    _, out, _ = run(to=("de", "Chinese", "en"), last=True)
    lines = out.splitlines()
    assert {line[:4] for line in lines} == {"de: ", "zh: ", "en: "}
    assert "de: " + " ".join(GERMAN[:6]) in lines
    assert "zh: 字零字一字二字三字四字五。" in lines
    assert f"en: {' '.join(map(word, range(WORDS)))}" in lines  # ``5.`` ends none before a ``w``


def test_terms_may_be_longer_than_a_file_name(run):
    assert run("--context", ", ".join(f"Name{k}" for k in range(60)))[0] == 0


def test_subtitles_of_every_language_replace_those_of_before_if_asked(run, tmp_path):
    (tmp_path / "talk.de.srt").write_text("old" * 10_000)
    status, _, err = run("--format", "srt", to=("de", "zh", "en"))
    assert (status, "loading models" in err) == (2, False)
    assert "talk.de.srt exists: add --overwrite" in err
    status, out, err = run("--format", "srt", "--overwrite", to=("de", "zh", "en"))
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


@pytest.mark.parametrize(
    ("given", "mark", "note"),
    [
        (
            ("--set", "policy={name: hold_n, n: 1}", "--set", "head_sets={}"),
            *("interpolated", f"times of {WORDS} of {WORDS} units are interpolated"),
        ),
        (("--set", "speech.times=first_heard"), "approximate", "times are approximate"),
    ],
)
def test_times_without_rows_or_an_aligner_are_called_so(run, given, mark, note):
    status, out, _ = run(*given, "--format", "jsonl")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (status, [line["text"].strip() for line in lines]) == (0, GERMAN)
    assert all(line[mark] for line in lines)
    assert all(a["start"] <= b["start"] for a, b in itertools.pairwise(lines))
    assert lines[-1]["end"] == pytest.approx(WORDS / 2, abs=0.1)
    assert note in run(*given, "--format", "vtt")[2]
    told = Path("talk.de.vtt").read_text().startswith("WEBVTT\n\nNOTE times are approximate: ")
    assert told == (mark == "approximate")
    assert len(list(webvtt.read("talk.de.vtt"))) > 0
    assert mark not in run("--format", "vtt", "--overwrite")[2]


def test_subtitles_are_written_as_it_goes(run, engines, monkeypatch):
    for name in ("WRITE_S", "WRITE_RATIO"):
        monkeypatch.setattr(f"alignatt_agent.live.outputs.{name}", 0)
    sizes, path = [], Path("talk.de.srt")
    path.touch()
    before_calls(engines.asr, "transcribe", lambda: sizes.append(path.stat().st_size))
    assert run("--format", "srt", "--overwrite")[0] == 0
    assert sizes == sorted(sizes)
    assert sizes[0] == 0 < sizes[-2]


def test_an_input_without_audio_is_a_failure(run, monkeypatch):
    standard_input(monkeypatch, b"")
    status, out, err = run("--raw", "16000", "--format", "srt", source="-")
    assert (status, out, Path("stdin.de.srt").read_text()) == (1, "", "")
    assert "alignatt translate: the input contains no audio" in err


def test_said_captions_begin_when_something_was_said(run):
    status, _, err = run("--format", "vtt", "--times", "said", "--output", "captions")
    assert status == 0
    assert "characters per second" not in err
    cues = list(webvtt.read("captions.de.vtt"))
    assert cues[0].start_in_seconds > 0
    assert all(a.end == b.start for a, b in itertools.pairwise(cues))


def test_a_failing_language_does_not_stop_the_others_and_is_told_once(run, engines):
    inner = engines.translation.draft

    def draft(request):
        if "Chinese" in engines.tokenizer.decode(request.prompt.token_ids):
            raise EngineError("no Chinese today")
        return inner(request)

    engines.translation.draft = draft
    status, out, err = run(to=("de", "zh"))
    assert status == 1
    assert err.count("zh: no Chinese today") == 1
    assert "stopped after 3 errors" in err  # nothing is gained by hearing on
    assert out.startswith("de: Wort0") or out == ""


@pytest.mark.parametrize(
    ("error", "status"),
    [(EngineError("the recognizer is gone"), 1), (KeyboardInterrupt(), 130), (signal.SIGTERM, 130)],
)
def test_an_interrupt_or_a_failure_leaves_what_was_said(run, engines, error, status):
    calls = itertools.count(1)

    def fail():
        if next(calls) > 4:
            if error is signal.SIGTERM:
                signal.raise_signal(error)
            raise error

    before_calls(engines.asr, "transcribe", fail)
    found, _, err = run("--format", "srt")
    assert found == status
    assert err.count("the recognizer is gone") == (status == 1)
    shown = [line for cue in webvtt.from_srt("talk.de.srt") for line in cue.lines]
    assert 3 < len(" ".join(shown).split()) < WORDS


@pytest.mark.parametrize(
    ("given", "piped", "message"),
    [
        ({"source": "no.wav"}, b"", "no.wav is not a file; expected a file, an address, mic or -"),
        ({"source": "noise.mp3"}, b"", "noise.mp3 cannot be decoded"),
        ({"source": "http://127.0.0.1:9/a.mp3"}, b"", "http://127.0.0.1:9/a.mp3 cannot be decoded"),
        ({"to": ("Klingon",)}, b"", "unknown language 'Klingon'"),
        ({"to": ("it",)}, b"", "no head set for en-it"),
        ({"to": ("de", "--output", "nowhere/talk")}, b"", "nowhere"),
        ({"to": ("de", "--output", "/")}, b"", "--output /: expected the beginning of a file name"),
        ({"to": ("de", "--output", "taken")}, b"", "taken.de.txt is a folder or is not writable"),
        ({"source": "it", "to": ("de",), "last": True}, b"", "it is not a file"),
        ({"source": "-"}, None, "standard input is a terminal"),
        ({"source": "-"}, bytes(32_000), "raw samples need --raw RATE"),
        ({"source": "mic"}, b"", "pw-record, parec, arecord"),
    ],
)
def test_what_cannot_work_is_refused(run, tmp_path, monkeypatch, given, piped, message):
    (tmp_path / "noise.mp3").write_bytes(b"ID3 nothing")
    (tmp_path / "taken.de.txt").mkdir()
    monkeypatch.setattr(sources.shutil, "which", lambda _: None)
    standard_input(monkeypatch, piped)
    status, out, err = run(**given)
    assert (status, out) == (2, "")
    assert message in err
    assert ("loading models" in err) == bool(piped)  # a pipe is read when models wait for it


@pytest.mark.parametrize(
    ("stem", "form", "message"),
    [
        ("a" * 243, "srt", None),
        ("a" * 244, "srt", "aaa.de.srt.part has 256 bytes"),
        ("ü" * 122, "vtt", ".de.vtt.part has 256 bytes"),
        ("a" * 248, "txt", None),
        ("a" * 249, "txt", "aaaaa.de.txt has 256 bytes"),
        ("a" * 250, "jsonl", "aaa.de.jsonl has 259 bytes"),
    ],
)
def test_names_that_are_too_long_are_refused(run, tmp_path, stem, form, message):
    status, _, err = run("--format", form, "--output", tmp_path / stem)
    path = tmp_path / f"{stem}.de.{form}"
    if message is None:
        assert (status, path.stat().st_size > 0) == (0, True)
    else:
        assert (status, "loading models" in err) == (2, False)
        assert f"{message}, but {tmp_path} allows 255: choose a shorter --output" in err


@pytest.mark.parametrize("form", ["txt", "srt", "vtt", "jsonl"])
def test_links_and_modes_of_outputs_are_kept(run, tmp_path, form):
    (tmp_path / "public").mkdir()
    file, link = tmp_path / "public" / "captions", tmp_path / f"talk.de.{form}"
    file.write_text("old")
    file.chmod(0o664)
    link.symlink_to("public/captions")
    assert run("--format", form, "--output", "talk", "--overwrite")[0] == 0
    assert link.is_symlink()
    assert "Wort" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o664
    assert [path.name for path in file.parent.iterdir()] == ["captions"]
    link.unlink()
    link.symlink_to("nowhere/captions")
    status, _, err = run("--format", form, "--output", "talk", "--overwrite")
    assert (status, "loading models" in err) == (2, False)
    assert f"is a link to {tmp_path}/nowhere/captions, whose folder does not exist" in err
    link.unlink()
    link.symlink_to(link.name)
    status, _, err = run("--format", form, "--output", "talk", "--overwrite")
    assert (status, "loading models" in err) == (2, False)
    assert f"talk.de.{form} is a link that leads back to itself" in err


def test_an_output_that_is_mounted_is_written(run, tmp_path, monkeypatch):
    """A file that Docker mounts by itself cannot be replaced by another file."""
    mounted = tmp_path / "talk.de.srt"
    mounted.write_text("old")

    def refuse(path, target):
        raise OSError(errno.EBUSY, "Device or resource busy", str(path), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    assert run("--format", "srt", "--output", "talk", "--overwrite")[0] == 0
    assert "Wort" in mounted.read_text()
    assert not (tmp_path / "talk.de.srt.part").exists()


def test_a_link_to_a_pipe_is_written(tmp_path):
    """The real path of such a link, as of /dev/stdout, does not exist."""
    reader, writer = os.pipe()
    link = tmp_path / "talk.de.srt"
    link.symlink_to(f"/dev/fd/{writer}")
    replace_text(link, "Wort0\n")
    os.close(writer)
    assert os.read(reader, 100) == b"Wort0\n"
    os.close(reader)
    assert link.is_symlink()


def test_missing_models_and_the_language_of_embedded_ones_are_explained(run, capsys):
    assert cli.main(["translate", "talk.wav", "--target", "de"]) == 2
    err = capsys.readouterr().err
    assert "alignatt fetch" in err
    assert "The embedded models translate only a small artificial language" in err
    translate.choose(translate.Runtime(), "micro-low", {}, [translate.language("de")])
    err = capsys.readouterr().err
    assert "note: micro-low translates only a small artificial language" in err


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


def test_an_interrupt_does_not_wait_for_engines_that_still_start():
    code = (
        "import subprocess, sys, time; from concurrent.futures import ThreadPoolExecutor as Pool; "
        "from alignatt_agent import cli; "
        "pool = Pool(1, 'engine start'); pool.submit(subprocess.run, ['sleep', '60']); "
        "time.sleep(0.3); "
        "sys.exit(cli.report_errors('x', lambda: (_ for _ in ()).throw(KeyboardInterrupt)))"
    )
    command = [sys.executable, "-c", code]
    # Returns when the engine, too, has closed its output.
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (130, False)
