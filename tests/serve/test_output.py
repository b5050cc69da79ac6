"""The log and the output of a server whose standard error nobody reads."""

import os
import re
import subprocess
import sys
import threading
import time

import pytest

from alignatt_agent.serve.access import MOST_GUESSES, MOST_LOGGED, Limits, RefusedError
from tests.serve import live
from tests.serve.test_access import connection

SERVER = """
import sys
from pathlib import Path
from alignatt_agent.serve import cli, engines
from tests.fakes import agent as fakes
from tests.serve import live

cli.Runtime, engines.SharedEngines = fakes.FakeRuntime, live.FakePool
config = fakes.write_config(Path(sys.argv[1]))
cli.main(["--config", str(config), "--port", "0", "--token", "s3"])
"""

WRITERS = """
import logging, os, subprocess, sys
from alignatt_agent.serve.output import unblocked

with unblocked():
    for number in range(3_000):
        logging.getLogger("a").error("log line %d", number)
        print(f"printed line {number}", file=sys.stderr)
    child = "import os; os.write(2, bytes(10**6) + bytes([10]))"
    subprocess.run([sys.executable, "-c", child], timeout=60)
    os.write(2, b"x" * 200_000 + b"\\n")
    print("all written", flush=True)
    sys.stdin.read()
    logging.getLogger("a").error("last line")
"""


@pytest.fixture
def full_pipe():
    """Yield a pipe that is full: the ends for reading and writing."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    while True:
        try:
            os.write(writable, b"x" * 4095 + b"\n")
        except BlockingIOError:
            break
    os.set_blocking(writable, True)
    yield readable, writable
    os.close(readable)


def run(code, stderr, *arguments):
    """Start a program; its standard error is the given descriptor, which is closed here."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    os.close(stderr)
    return process


def test_a_server_whose_errors_nobody_reads_serves_on_and_stops(tmp_path, full_pipe):
    _, writable = full_pipe
    process = run(SERVER, writable, tmp_path)
    try:
        matches = (re.match(r"http://127.0.0.1:(\d+)/ translates", line) for line in process.stdout)
        port = int(next(filter(None, matches))[1])
        begin = time.monotonic()
        for number in range(MOST_GUESSES - 1):  # each is logged
            assert live.get(port, f"/health?token=wrong{number}")[0] == 200
        with live.RemoteSocket(port, "/ws?token=s3") as socket:
            live.start(socket)
            live.send(socket, stop=True)
            assert live.text_of(live.until(socket, "end")) == live.GERMAN
        assert time.monotonic() - begin < live.WAIT_S
        process.terminate()
        assert process.wait(live.WAIT_S) == 0
    finally:
        process.kill()


def test_what_nobody_reads_is_dropped_and_counted(full_pipe):
    readable, writable = full_pipe
    process = run(WRITERS, writable)
    lines = []

    def read():
        with os.fdopen(os.dup(readable), "rb") as file:
            lines.extend(file)

    try:
        assert process.stdout.readline() == "all written\n"  # although stderr is full
        reading = threading.Thread(target=read)
        reading.start()
        live.wait_until(lambda: any(b"lines were dropped" in line for line in lines))
        process.stdin.close()
        assert process.wait(live.WAIT_S) == 0
        reading.join(live.WAIT_S)
    finally:
        process.kill()
    text = b"".join(lines).decode()
    assert "log line 0\n" in text
    assert "printed line 0\n" in text
    assert re.search(r"^\d{4,} lines were dropped because nobody read this output$", text, re.M)
    assert "last line\n" in text


def test_output_that_is_read_is_complete_and_in_order():
    readable, writable = os.pipe()
    process = run(WRITERS.replace("3_000", "100").replace("200_000", "20"), writable)
    process.stdin.close()
    with os.fdopen(readable, "rb") as file:
        text = file.read().decode()
    assert process.wait(live.WAIT_S) == 0
    for kind in ("log", "printed"):
        numbers = [int(number) for number in re.findall(rf"{kind} line (\d+)\n", text)]
        assert numbers == list(range(100))
    assert "dropped" not in text
    assert "x" * 20 in text
    assert "last line\n" in text


def test_strangers_cannot_fill_the_log(caplog):
    limits = Limits(token="s3")
    for host in range(MOST_LOGGED + 50):
        with pytest.raises(RefusedError):
            limits.check(connection("token=wrong", f"10.0.0.{host}"))
    assert len(caplog.records) == MOST_LOGGED
