"""``alignatt``: one command with a subcommand for each task."""

import contextlib
import errno
import locale
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib import import_module

import psutil

from alignatt_agent import __version__
from alignatt_agent.config.quiet import quieten
from alignatt_agent.types import AlignAttError

COMMANDS = {
    "demo": ("serve.demo", "watch the embedded models translate a talk"),
    "translate": ("live.cli", "translate a recording or the microphone to text, subtitles or JSON"),
    "serve": ("serve.cli", "run a live server: a page for the speaker, captions for viewers"),
    "eval": ("evaluation.cli", "stream a dev set through the cascade and score the output"),
    "offline": ("evaluation.offline", "translate whole recordings off-line (the quality ceiling)"),
    "terms": ("live.terms", "propose names and terms of a talk from a paper or glossary"),
    "asr": ("evaluation.asr", "score the speech recognition of a run: word errors and latency"),
    "compare": ("evaluation.compare", "compare two runs, with paired significance tests"),
    "calibrate": ("calibration.cli", "find a model's alignment heads for a language direction"),
    "fetch": ("fetch.cli", "download the models of a configuration, at pinned revisions"),
    "doctor": ("doctor.cli", "check this machine: versions, models, memory and engines"),
    "prove": ("doctor.prove", "verify and time the faster modes of the translation engine"),
    "submission": ("submission.cli", "build, check and serve an IWSLT bundle"),
}
"""For each subcommand, the module of ``alignatt_agent`` that defines ``main``, and a summary."""

NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)
"""Errors of a folder that the user may not write to, or of a full disk."""

USAGE = """\
usage: alignatt COMMAND ...

Simultaneous speech translation with any decoder-only LLM, gated by the model's own attention.

{commands}

Help and examples of each command: alignatt COMMAND --help
First steps on a new machine: alignatt demo, then
  alignatt fetch default-low, alignatt doctor --config default-low

exit status: 0 success; 1 failure while running; 2 failure before the start; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``alignatt COMMAND ...``; return the exit status."""
    if argv is None:
        _in_utf8()
        _open_standard_streams()
        argv = sys.argv[1:]
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0
    name, *rest = argv
    if name in ("-V", "--version"):
        print(f"alignatt {__version__}")
        return 0
    if name not in COMMANDS:
        print(f"alignatt: no command {name!r}; use one of {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return run(name, rest)


def simulstream_eval() -> int:
    """Run ``eval`` under the name that users of the harness expect, ``simulstream-eval``."""
    _in_utf8()
    _open_standard_streams()
    return run("eval", sys.argv[1:], "simulstream-eval")


def _in_utf8() -> None:
    """Restart in UTF-8 mode if the locale uses another encoding, which Simulstream would adopt."""
    if locale.getpreferredencoding(False).lower() != "utf-8" and "PYTHONUTF8" not in os.environ:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, sys.orig_argv)


def _open_standard_streams() -> None:
    """Replace standard streams that are closed, as some daemons do, with the null device."""
    # In ascending order, because a new file gets the lowest free descriptor.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _require_temporary_folder() -> None:
    """Reject e.g. a container with a read-only file system, in which importing torch would fail."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise AlignAttError(
            f"{error.strerror}: set TMPDIR to a writable folder, or mount a tmpfs on /tmp"
        ) from None


def usage() -> str:
    """Return the usage message, which lists the commands."""
    width = max(map(len, COMMANDS))
    lines: list[str] = []
    for name, (_, summary) in COMMANDS.items():
        lines.append(f"  {name:<{width}}  {summary}")
    return USAGE.format(commands="\n".join(lines))


def run(name: str, argv: Sequence[str], called: str | None = None) -> int:
    """Run one of ``COMMANDS``; ``called`` is its name in errors, by default ``alignatt NAME``."""
    quieten()  # before the module imports libraries that print
    called = called or f"alignatt {name}"
    module, _ = COMMANDS[name]

    def command() -> int:
        _require_temporary_folder()
        # Imported by name, because a command loads only what it needs. This may raise errors, too.
        status: int = import_module(f"alignatt_agent.{module}").main(argv)
        return status

    return report_errors(called, command)


def report_errors(called: str, command: Callable[[], int]) -> int:
    """Run a command; print expected errors as one line, and return the exit status."""
    try:
        return command()
    except AlignAttError as error:
        print(f"{called}: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # the reader of our output has exited
        # Python writes the rest of its buffer when it exits, which would fail again.
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in NOT_WRITABLE or error.filename is None:
            raise
        print(f"{called}: {error.filename} cannot be used: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{called}: interrupted; run it again to resume or restart", file=sys.stderr)
        thread_names = [thread.name for thread in threading.enumerate()]
        if any(name.startswith("engine start") for name in thread_names):
            _abandon_engines()
        return 130


def _abandon_engines() -> None:
    """Exit without waiting for engines that are still starting; Python would wait."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "resource_tracker" not in " ".join(child.cmdline()):  # it removes semaphores
                child.kill()
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
