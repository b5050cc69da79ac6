"""The commands and files in the documents exist."""

import os
import re
import shlex
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from alignatt_agent import cli
from alignatt_agent.cli import COMMANDS, usage

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    ROOT / "lab" / "gpu" / "README.md",
]
ELSEWHERE = (
    *(".", "cat", "curl", "export", "ffmpeg", "hf", "ls", "openssl", "uv", "pip", "docker"),
    *("sha256sum", "simulstream_inference", "simulstream_server", "simulstream_wavs_client"),
    *("hostname:", "port:", "pool_size:", "acquire_timeout:", "metrics:", "END"),
)
"""First words of other programs' lines."""


def _commands() -> list[tuple[str, str]]:
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        blocks = re.findall(r"```(?:sh|console)\n(.*?)```", text, flags=re.S)
        inline = re.findall(r"`((?:alignatt|simulstream-eval) [^`]+)`", text.replace("\n", " "))
        lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        lines += [line for line in inline if " --" in line and not re.search(r" [A-Z]+\b", line)]
        found += [
            (path.relative_to(ROOT).as_posix(), line.strip())
            for line in lines
            if line.strip() and line.strip()[0] != "#"
        ]
    return found


COMMAND_LINES = _commands()


def test_the_readme_begins_with_the_one_command():
    assert ("README.md", "make dev-low dev-high submission") in COMMAND_LINES


@pytest.mark.parametrize(("document", "line"), COMMAND_LINES)
def test_every_command_line_can_be_typed(document, line):
    program, *words = shlex.split(line, comments=True)
    if "=" in program:
        program, *words = words
    program = Path(program).name or program
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
        asked = {word for word in words if "=" not in word}
        assert asked
        assert asked <= targets
    elif program in ("alignatt", "simulstream-eval"):
        name = words.pop(0) if program == "alignatt" else "eval"
        assert name in COMMANDS or name.startswith("-")
        if name in COMMANDS and words:
            _parse(name, words)
    elif program == "python" and words[:1] == ["-m"]:
        module = import_module(
            f"{words[1]}.__main__" if find_spec(words[1]).submodule_search_locations else words[1]
        )
        module.build_parser().parse_args(words[2:])
    elif ran := program == "docker" and re.search(r" run .*?alignatt(?::\w+)? (\w+)(.*)", line):
        _parse(ran[1], ran[2].split())  # a command in a container
    elif program == "sh":
        assert (ROOT / words[0]).is_file()
    else:
        assert program in ELSEWHERE


def _parse(name, words):
    parser = import_module(f"alignatt_agent.{COMMANDS[name][0]}").build_parser()
    if "--help" not in words:
        parser.parse_args(words)


class Loading(Exception):
    """A model was about to be loaded."""


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A working directory with the files that the documents name."""
    folder = tmp_path_factory.mktemp("desk")
    devset = ROOT / "micro_models" / "devset"
    (folder / "micro_models").symlink_to(ROOT / "micro_models")
    (folder / "outputs" / "tuning").mkdir(parents=True)
    (folder / "outputs" / "head_sets").mkdir()
    shutil.copyfile(
        ROOT / "head_sets" / "micro-en-de.json", folder / "outputs/head_sets/mine-en-de.json"
    )
    for name in ("mcif-long-trans", "DIR", "outputs/tuning/devset"):
        (folder / name).symlink_to(devset)
    for name in ("talk.mp3", "film.mkv"):
        shutil.copyfile(devset / "wav" / "talk-a.wav", folder / name)
    for name in ("pairs.en-de.tsv", "FILE"):
        (folder / name).write_text("a house\tein Haus\na talk\tein Vortrag\n" * 3)
    recorder = folder / "bin" / "arecord"
    recorder.parent.mkdir()
    recorder.touch(0o755)
    return folder


@pytest.fixture
def no_models(monkeypatch):
    """Every place where a command starts engines or a cluster."""

    def refuse(*arguments, **named):
        raise Loading

    for name in (
        "alignatt_agent.cascade.runtime.Runtime.load",
        "alignatt_agent.serve.engines.SharedEngines.load",
        "alignatt_agent.cluster.connection.joined",
        "alignatt_agent.calibration.cli.calibrate",
        "alignatt_agent.doctor.engine_checks.examine",
        "alignatt_agent.fetch.cli.look_up",
    ):
        monkeypatch.setattr(name, refuse)


def _ours(line):
    """The sub-command and its arguments, of a line that runs by itself."""
    words = shlex.split(line.rpartition("|")[2], comments=True)
    program, words = Path(words[0]).name, words[1:]
    if program == "simulstream-eval":
        return "eval", words
    return (words[0], words[1:]) if program == "alignatt" else (None, words)


def _runs_alone(line):
    """Whether a line is ours and needs no output of an earlier command."""
    name, words = _ours(line)
    earlier = name in ("compare", "asr", "submission") or "--score-only" in words
    return name in COMMANDS and not earlier


ALONE = [line for line in dict.fromkeys(line for _, line in COMMAND_LINES) if _runs_alone(line)]


@pytest.mark.parametrize("line", ALONE)
def test_every_command_line_runs_until_it_loads_a_model(line, desk, no_models, monkeypatch, capsys):
    name, words = _ours(line)
    monkeypatch.chdir(desk)
    monkeypatch.setenv("ALIGNATT_TOKEN", "of a line before")
    monkeypatch.setenv("PATH", str(desk / "bin"), prepend=os.pathsep)
    # Ray's proxy cannot choose a free port.
    port = ["--port", "8080" if "--ray" in words else "0"]
    words += {"serve": port, "demo": port, "eval": ["--dry-run"]}.get(name, [])
    try:
        status = cli.run(name, words)
    except Loading:
        return
    except SystemExit as ended:  # --help
        status = ended.code
    shown = capsys.readouterr()
    if status:
        assert "micro-" not in line
        expected = (
            "is not on this machine|finds no GPU here|add --yes to continue|example.org.* decoded"
        )
        assert re.search(expected, shown.out + shown.err)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_teaches_by_examples(name):
    parser = import_module(f"alignatt_agent.{COMMANDS[name][0]}").build_parser()
    parts = [item for item in parser._actions if isinstance(item.choices, dict)]
    subparsers = [item for part in parts for item in part.choices.values()]
    helps = [item.format_help() for item in (parser, *subparsers)]
    assert all("example" in text.lower() for text in helps)
    help_text = "".join(helps)
    called = "simulstream-eval" if name == "eval" else f"alignatt {name}"
    assert f"usage: {called}" in help_text
    assert f"\n  {called}" in help_text or f"\n    {called}" in help_text
    for line in re.findall(rf"(?m)^ +({called}(?: (?:[^\n]*\\\n)*[^\n]*)?)$", help_text):
        words = shlex.split(line.replace("\\\n", " "))[len(called.split()) :]
        if any(word.startswith("--") for word in words) and "..." not in words:
            _parse(name, words)


def test_the_map_names_every_command():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"  {name} " in usage()
        assert f"`alignatt {name}`" in readme


def test_every_target_is_in_make_help():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, flags=re.M).group(1).split())
    documented = set(re.findall(r"^([a-z-]+):.*## ", makefile, flags=re.M))
    assert phony == documented


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_linked_files_exist(path):
    text = path.read_text(encoding="utf-8")
    for link in set(re.findall(r"\]\((?!http)([^)#]+)", text)):
        assert (path.parent / link).exists(), link
    for name in set(re.findall(r"`([\w/]+\.py)`", text)):
        assert (ROOT / name).exists() or (ROOT / "alignatt_agent" / name).exists(), name
