"""From runs to a served bundle: evaluation, build, check, official HTTP server and client.

Engines start twice, for the evaluation and for the server. HTTP names no talk, so a client gets
what the direct runs of the other end-to-end tests emit: those without contexts.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess

import psutil
import pytest
import yaml

from alignatt_agent.submission.bundle import proxy_yaml, read_server
from alignatt_agent.submission.server import UnhealthyError, check_health
from tests.e2e.conftest import BIN, ROOT, emissions, run
from tests.serve.live import wait_until

DEVSET = ROOT / "micro_models" / "devset"
TARGETS = ("de", "zh")
START_S = 240


@pytest.fixture(scope="module")
def built(short_talk, tmp_path_factory):
    """What README does up to the bundle, on a dev set with contexts; its folder and its report."""
    folder = tmp_path_factory.mktemp("readme")
    devset = folder / "devset"
    shutil.copytree(short_talk.root, devset, ignore=shutil.ignore_patterns("*.json*"))
    name = f"{short_talk.wav.stem}.txt"
    (devset / "contexts").mkdir()
    shutil.copyfile(DEVSET / "contexts" / name, devset / "contexts" / name)
    shared = ("--config", "micro-low", "micro-high", "--target", "de", "--devset", devset)
    run("simulstream-eval", *shared, "--set", "speech.context=[]", "--output", folder / "runs")
    runs = [folder / "runs" / name for name in ("micro-low", "micro-high")]
    output = ("--output", folder / "bundle")
    text = run("alignatt", "submission", "build", *shared, "--runs", *runs, *output)
    return folder / "bundle", text


def healthy(port):
    with contextlib.suppress(UnhealthyError):
        check_health(port)
        return True
    return False


@pytest.fixture(scope="module")
def server(built, tmp_path_factory):
    """The entry point of the image as a plain process; yields it, its folder and its port."""
    root, image = tmp_path_factory.mktemp("server"), built[0] / "image"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for target in TARGETS:
        proxy = yaml.safe_load(proxy_yaml(target)) | {"hostname": "127.0.0.1", "port": port}
        (root / f"proxy-{target}.yaml").write_text(yaml.safe_dump(proxy))
    shutil.copytree(image / "systems", root / "systems")
    content = read_server(image / "server.yaml") | {"hostname": "127.0.0.1", "port": port}
    (root / "server.yaml").write_text(yaml.safe_dump(content))
    command = [str(BIN / "alignatt"), "submission", "serve", "low/en-de", "--root", str(root)]
    with (root / "server.log").open("w") as stream:
        process = subprocess.Popen(
            command,
            cwd=image / "weights",  # the working directory of the image
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    try:
        wait_until(lambda: process.poll() is not None or healthy(port), START_S, 0.5)
        assert process.poll() is None, (root / "server.log").read_text()[-4000:]
        yield process, root, port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def infer(root, short_talk, target, name):
    """Start the organisers' client; returns its process and the log that it writes."""
    log = root / f"{name}.jsonl"
    command = [
        str(BIN / "simulstream_inference"),
        *("--speech-processor-config", str(root / f"proxy-{target}.yaml")),
        *("--wav-list-file", str(short_talk.root / "wavs.txt")),
        *("--tgt-lang", target, "--src-lang", "en", "--metrics-log-file", str(log)),
    ]
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return process, log


def test_the_bundle_of_the_readme_is_valid(built):
    bundle, text = built
    assert text.rstrip().endswith("bundle: valid, 2 systems")
    checked = run("alignatt", "submission", "check", bundle)
    assert checked.rstrip().endswith("bundle: valid, 2 systems")
    for regime in ("low", "high"):
        served = yaml.safe_load((bundle / f"image/systems/{regime}/en-de.yaml").read_text())
        assert served["speech"]["context"] == []


def test_two_clients_at_once_get_what_a_direct_run_emits(driven, short_talk, server):
    _, root, _ = server
    clients = {target: infer(root, short_talk, target, target) for target in TARGETS}
    for target, (client, log) in clients.items():
        text, _ = client.communicate(timeout=300)
        assert client.returncode == 0, text[-4000:]
        direct = emissions(short_talk.root / f"{target}.jsonl")
        assert sum(len(tokens) for _, tokens, _ in direct) > 20
        assert emissions(log) == direct


def test_a_client_that_was_killed_leaves_no_trace(driven, short_talk, server):
    _, root, port = server
    client, log = infer(root, short_talk, "de", "killed")
    wait_until(lambda: log.exists() and len(log.read_text().splitlines()) > 6, START_S, 0.02)
    assert client.poll() is None
    client.kill()
    client.communicate()
    check_health(port)
    again, log = infer(root, short_talk, "de", "again")
    text, _ = again.communicate(timeout=300)
    assert again.returncode == 0, text[-4000:]
    assert emissions(log) == emissions(short_talk.root / "de.jsonl")


def test_it_stops_as_the_image_asks_for_and_takes_its_engines_along(server):
    process, root, _ = server
    assert len(_members(process.pid)) > 1
    process.send_signal(signal.SIGINT)  # STOPSIGNAL of the image
    process.wait(60)
    wait_for_the_end_of(process.pid)
    text = (root / "server.log").read_text()
    assert "http_speech_processor_server --server-config" in text
    assert text.count("Traceback") <= text.count("KeyboardInterrupt") + text.count("BrokenPipe")


def wait_for_the_end_of(group):
    wait_until(lambda: not _members(group), pause_s=0.1)


def _members(group):
    """Living processes of a process group."""
    found = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            alive = process.info["status"] != psutil.STATUS_ZOMBIE
            if alive and os.getpgid(process.pid) == group:
                found.append(process)
    return found
