"""`alignatt fetch` against a hub on the loopback interface with the addresses of the real one."""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from alignatt_agent.config.agent_config import ModelConfig, load_config
from alignatt_agent.config.checkpoints import CheckpointError, locate_one
from alignatt_agent.fetch import cli
from alignatt_agent.fetch.hub import FetchError, look_up

COMMIT = "c0ffee" + 34 * "0"
FIRST, WEIGHTS = 11_000_000, random.Random(1).randbytes(12_000_000)  # written by 10 MB
FILES = {
    "config.json": b'{"model_type": "none"}',
    "model.safetensors": WEIGHTS,
    "model-2.safetensors": b"a second weight file" * 9,
    "original/consolidated.pth": b"another format" * 9,
}
SHA = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
NAME = f"someone/translator@{COMMIT}"


class Hub(BaseHTTPRequestHandler):
    """What the client asks for: metadata, access, tree, files with redirects to a store."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, path = self.server, self.path.partition("?")[0]
        server.asked.append((self.command, path, self.headers.get("Range")))
        owner, _, rest = path.removeprefix("/api/models/").removeprefix("/").partition("translator")
        if owner != "someone/":
            return self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        guarded = rest == "/auth-check" or rest.startswith("/resolve/")
        known = self.headers.get("Authorization") == "Bearer let-me-in"
        if server.gated and guarded and not known:
            return self.answer(401, b"", {"X-Error-Code": "GatedRepo"})
        if rest == "/auth-check":
            return self.answer(200, b"{}")
        if rest == f"/tree/{COMMIT}":
            return self.answer(200, json.dumps([self.entry(name) for name in FILES]).encode())
        if path.startswith("/api/"):
            if rest not in ("/revision/main", f"/revision/{COMMIT}"):
                return self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            siblings = [
                {"rfilename": name, "size": len(data), "blobId": "0" * 40, "lfs": self.lfs(name)}
                for name, data in FILES.items()
            ]
            body = {"id": "someone/translator", "sha": COMMIT, "siblings": siblings}
            return self.answer(200, json.dumps(body).encode())
        name = re.fullmatch(rf"/resolve/{COMMIT}/(.+)|/store/(.+)", rest)
        name = name.group(1) or name.group(2)
        if "/store/" in path and "Authorization" in self.headers:
            return self.answer(400, b"one kind of authentication only")
        data, about = FILES[name], {"X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if self.lfs(name) and rest.startswith("/resolve/"):
            about |= {"X-Linked-Size": str(len(data)), "X-Linked-Etag": f'"{SHA[name]}"'}
            # The real hub redirects to another host, which must not get the token.
            other = f"http://localhost:{server.server_port}/someone/translator/store/{name}"
            return self.answer(302, b"", about | {"Location": other})
        about["ETag"] = f'"{SHA[name]}"'
        begin = int(re.findall(r"\d+", self.headers.get("Range", "0"))[0])
        if begin:
            about["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        return self.answer(206 if begin else 200, data[begin:], about)

    do_HEAD = do_GET

    def lfs(self, name):
        large = name.endswith((".safetensors", ".pth"))
        size = len(FILES[name])
        return {"sha256": SHA[name], "size": size, "pointerSize": 130} if large else None

    def entry(self, name):
        size, lfs = len(FILES[name]), self.lfs(name)
        found = {"type": "file", "path": name, "size": size, "oid": "0" * 40}
        return found | ({"lfs": {"oid": lfs["sha256"], **lfs}} if lfs else {})

    def answer(self, status, body, headers=()):
        self.send_response(status)
        headers = {"Content-Length": str(len(body)), **dict(headers)}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.damaged:
            body = body.replace(WEIGHTS[-9:], b"corrupted")
        try:
            self.wfile.write(body[:FIRST])
            if self.server.slow and body[FIRST:]:
                self.server.slow.wait(20)
            self.wfile.write(body[FIRST:])
        except OSError:  # the client was killed
            self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    http = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    http.daemon_threads, http.asked = True, []
    http.gated = http.damaged = http.slow = None
    threading.Thread(target=http.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{http.server_port}"
    places = {"ENDPOINT": address, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": False}
    for name, value in places.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
    for name in ("HF_TOKEN", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield http
    http.shutdown()
    http.server_close()


def started(hub, folder):
    """Start `alignatt fetch` as a process of its own, and wait for most of the large file."""
    hub.slow = threading.Event()
    environment = {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(folder),
        "HF_HUB_OFFLINE": "0",
    }
    command = [sys.executable, "-m", "alignatt_agent.cli", "fetch", NAME]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 30
    while not any(file.stat().st_size > 1_000_000 for file in folder.rglob("*.incomplete")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def downloads(hub):
    """Return the names of the files that clients downloaded, in order."""
    paths = [path for kind, path, _ in hub.asked if kind == "GET"]
    return [re.split("/store/|/resolve/[0-9a-z]+/", path)[1] for path in paths if is_file(path)]


def is_file(path):
    return "/store/" in path or path.endswith("config.json")


def test_sizes_come_first_then_the_files(hub, capsys, tmp_path):
    assert cli.main([NAME, "--dry-run"]) == 0
    assert not (tmp_path / "hub").exists()
    shown = capsys.readouterr()
    assert f"{NAME}: 0.01 GB, 0.01 GB missing\n0.01 GB to download, " in shown.out
    assert shown.err == ""
    assert downloads(hub) == []
    assert cli.main(["someone/translator"]) == 0
    assert f"not pinned: set its `revision` to {COMMIT}" in capsys.readouterr().out
    model = ModelConfig(path="someone/translator", revision=COMMIT)
    folder = locate_one(model)
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert not (folder / "original").exists()
    found = look_up(model)
    size = sum(len(data) for name, data in FILES.items() if not name.startswith("original/"))
    assert (found.size, found.missing, found.missing_files) == (size, 0, ())


def test_a_pinned_checkpoint_that_is_complete_needs_no_network(hub, capsys):
    assert cli.main([NAME]) == 0
    hub.asked.clear()
    capsys.readouterr()
    assert cli.main([NAME]) == 0
    assert re.fullmatch(rf"{NAME}: \S+/snapshots/{COMMIT}\n", capsys.readouterr().out)
    assert hub.asked == []


def test_a_killed_download_goes_on_with_the_missing_files(hub, tmp_path):
    process = started(hub, tmp_path)
    process.kill()
    process.communicate()
    hub.slow.set()
    hub.slow = None
    assert downloads(hub) == ["config.json", "model-2.safetensors", "model.safetensors"]
    hub.asked.clear()
    found = look_up(ModelConfig(path="someone/translator", revision=COMMIT))
    assert (found.missing, found.missing_files) == (len(WEIGHTS), ("model.safetensors",))
    assert cli.main([NAME]) == 0
    assert downloads(hub) == ["model.safetensors"]
    model = ModelConfig(path="someone/translator", revision=COMMIT)
    assert (locate_one(model) / "model.safetensors").read_bytes() == WEIGHTS


def test_ctrl_c_stops_a_download_immediately_and_leaves_no_part(hub, tmp_path):
    process = started(hub, tmp_path)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=40)
    duration = time.monotonic() - begin
    assert process.returncode == 130, errors
    assert duration < 5, errors  # the server would wait 20 s
    assert "interrupted; run it again to resume or restart" in errors
    assert not list(tmp_path.rglob("*.incomplete"))


def test_refused_where_the_disk_is_short(hub, monkeypatch, tmp_path):
    usage = SimpleNamespace(free=4_000_000)
    monkeypatch.setattr("alignatt_agent.fetch.hub.shutil.disk_usage", lambda _: usage)
    with pytest.raises(CheckpointError, match=r"0.00 GB free in .*hub: free another 0.01 GB, or"):
        cli.main([NAME])
    assert not list(tmp_path.rglob("*.safetensors"))
    assert downloads(hub) == []


def test_refusals_say_what_to_do(hub, monkeypatch):
    hub.gated = True
    with pytest.raises(CheckpointError, match=r"license must be accepted first: open http.*hf aut"):
        cli.main([NAME])
    monkeypatch.setenv("HF_TOKEN", "let-me-in")
    assert cli.main([NAME]) == 0
    for name, message in {
        "nobody/nothing": "does not exist or is private",
        f"nobody/nothing@{COMMIT}": "does not exist or is private",
        "someone/translator@v9": "does not have this revision",
        f"someone/translator@{'0' * 40}": "does not have this revision",
    }.items():
        with pytest.raises(CheckpointError, match=message):
            cli.main([name])
    nothing = ModelConfig(path="someone/translator", quantize="int8", gguf="model-q8.gguf")
    with pytest.raises(CheckpointError, match=r"no file on the hub matches .*model-q8\.gguf"):
        look_up(nothing)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FetchError, match="run the command again to resume"):
        look_up(ModelConfig(path="someone/translator"))


def test_a_checkpoint_is_converted_after_the_last_download(hub, monkeypatch, tmp_path, capsys):
    """A conversion of an incomplete download would fail, so that it could never be resumed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pinned = ModelConfig(path="someone/translator", revision=COMMIT, quantize="int8")
    newest = ModelConfig(path="someone/translator", quantize="int8")
    monkeypatch.setattr(cli, "models_of", lambda names: [pinned, newest])
    process = started(hub, tmp_path)
    process.kill()
    process.communicate()
    hub.slow.set()
    hub.slow = None
    converted = []

    def quantize(original, folder, gguf):
        assert (original / "model.safetensors").read_bytes() == WEIGHTS
        converted.append(gguf)
        folder.mkdir(parents=True)

    monkeypatch.setattr("alignatt_agent.engine.quantize.quantize", quantize)
    assert cli.main(["both", "--dry-run"]) == 0
    assert converted == []
    assert cli.main(["both"]) == 0
    shown = capsys.readouterr().out
    assert converted == [None]  # both are the same files
    assert shown.rindex(": downloaded to ") < shown.index(": converting to 8 bits")
    assert cli.main(["both"]) == 0
    assert converted == [None]


@pytest.mark.parametrize("order", [(None, "int8"), ("int8", None)])
def test_files_are_fetched_once_and_converted_if_one_configuration_requests_it(
    hub, monkeypatch, tmp_path, capsys, order
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = []
    for quantize in order:
        translation = {"path": "someone/translator", "revision": COMMIT, "quantize": quantize}
        config = load_config("micro-low", {"models.translation": translation})
        file = tmp_path / f"{quantize}.yaml"
        file.write_text(config.to_yaml())
        names.append(str(file))
    converted = []

    def convert(original, folder, gguf):
        converted.append(original.name)
        folder.mkdir(parents=True)

    monkeypatch.setattr("alignatt_agent.engine.quantize.quantize", convert)
    assert cli.main([*names, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert shown.count(f"{NAME}: 0.01 GB, 0.01 GB missing\n") == 1
    assert "\n0.01 GB to download, " in shown
    assert cli.main(names) == 0
    assert converted == [COMMIT]


def test_models_are_named_once_and_local_ones_located(capsys):
    models = cli.models_of(["default-low", "gemma4-audio-low", "Qwen/Qwen3-ASR-0.6B"])
    assert [model.path.partition("/")[2] for model in models] == [
        *("Qwen3-ASR-1.7B", "Qwen3-ForcedAligner-0.6B", "gemma-4-E4B-it", "Qwen3-ASR-0.6B")
    ]
    assert cli.main(["micro-low"]) == 0
    assert capsys.readouterr().out.count("not from the hub") == 3
