"""What every command needs of its process: standard streams, a temporary folder, and disk space."""

import errno
import os
import subprocess
import sys
import tempfile

import pytest

from alignatt_agent.cli import main, report_errors


def test_closed_standard_streams_are_replaced():
    """Python has no object for a closed stream, and ``print`` would write to another one."""
    command = f"exec {sys.executable} -m alignatt_agent.cli unknown <&- 2>&-"
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_machine_without_a_temporary_folder_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/nowhere"])
    (tmp_path / "notes.txt").write_text("We met Alice, and then Alice met us.")
    assert main(["terms", str(tmp_path / "notes.txt")]) == 2
    error = capsys.readouterr().err
    assert "alignatt terms: No usable temporary directory found in ['/proc/nowhere']: set" in error


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_file_that_cannot_be_written_is_named(capsys, code):
    def command():
        raise OSError(code, os.strerror(code), "/cache/int8")

    assert report_errors("alignatt fetch", command) == 1
    expected = f"alignatt fetch: /cache/int8 cannot be used: {os.strerror(code)}\n"
    assert capsys.readouterr().err == expected


def test_other_errors_of_the_system_are_faults():
    def command():
        raise FileNotFoundError(errno.ENOENT, "No such file", "talk.wav")

    with pytest.raises(FileNotFoundError):
        report_errors("alignatt fetch", command)
