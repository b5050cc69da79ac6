"""Simulstream's HTTP route in front of the real agent on fake engines, its traps included."""

import re
import shutil
import socket
import threading
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import yaml
from simulstream.config import yaml_config
from simulstream.server.speech_processors.remote import http_speech_processor_server as server
from simulstream.server.speech_processors.remote.http_proxy_speech_processor import (
    HttpProxySpeechProcessor,
)

from alignatt_agent.cli import run
from alignatt_agent.config.agent_config import ConfigError, load_config
from alignatt_agent.submission.bundle import read_server
from alignatt_agent.submission.image import TEMPLATES
from alignatt_agent.submission.server import UnhealthyError, check_health
from tests.fakes import agent as fakes
from tests.serve.live import wait_until

DEADLINE_S = 30


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def image(tmp_path):
    """What ``serve`` finds in an image: settings of one system each for German and Chinese."""
    root = tmp_path / "image"
    (root / "systems" / "low").mkdir(parents=True)
    for target in ("de", "zh"):
        config = load_config(str(fakes.write_config(tmp_path))).for_target(target)
        (root / "systems" / "low" / f"en-{target}.yaml").write_text(config.to_yaml())
    shutil.copyfile(TEMPLATES / "server.yaml", root / "server.yaml")
    return root


@contextmanager
def serving(agent_yaml, pool_size=2, ttl=600.0):
    """Run the official server in this process; yields its manager and port."""
    manager = server.SpeechProcessorSessionManager(yaml_config(str(agent_yaml)), pool_size, ttl)
    handler = partial(server.HttpSpeechProcessorHandler, speech_processor_manager=manager)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    httpd.handle_error = lambda request, address: None  # expected here; keep the output readable
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield manager, httpd.server_port
    finally:
        httpd.shutdown()
        httpd.server_close()
        manager._cleanup_stop_event.set()


def client(port):
    return HttpProxySpeechProcessor(SimpleNamespace(hostname="127.0.0.1", port=port))


def test_contexts_of_talks_are_refused_before_anything_is_loaded(image, capsys):
    path = image / "systems" / "low" / "en-de.yaml"
    path.write_text(load_config(str(path), {"speech.context": {"a": ["vLLM"]}}).to_yaml())
    assert run("submission", ["serve", "low/en-de", "--root", str(image), "--dry-run"]) == 2
    assert "names and terms for 1 talk(s) (a), but the HTTP server" in capsys.readouterr().err


def test_health_takes_no_processor(image, capsys):
    with serving(image / "systems" / "low" / "en-de.yaml", pool_size=1) as (manager, port):
        first = client(port)
        first.set_target_language("de")
        assert manager.available.qsize() == 0
        # A second client gets no answer: the reason for spare processors in server.yaml.
        with pytest.raises(Exception, match="closed connection without response"):
            client(port).set_target_language("de")
        check_health(port)
        assert run("submission", ["health", "--port", str(port)]) == 0
        first.clear()
        assert manager.available.qsize() == 1
    with pytest.raises(UnhealthyError, match="no answer"):
        check_health(port)
    assert run("submission", ["health", "--port", str(port)]) == 1
    assert "loading the engines takes minutes" in capsys.readouterr().err


def test_session_cleared_in_mid_call_keeps_its_output_and_its_direction(image):
    """The server's ttl is checked against the start of a request: a slow chunk outlives it."""
    with serving(image / "systems" / "low" / "en-zh.yaml", ttl=0.2) as (manager, port):
        _, engines = fakes.FakeAgent.runtime._loaded
        engines.translation.entered.clear()
        engines.translation.released.clear()
        found = []
        remote = client(port)
        remote.set_target_language("zh")
        audio = fakes.talk(13)
        thread = threading.Thread(
            target=lambda: found.append(remote.process_chunk(audio[:48_000]).new_tokens)
        )
        thread.start()
        assert engines.translation.entered.wait(DEADLINE_S)
        wait_until(lambda: not manager.is_active(remote.session_id))  # cleared during the chunk
        engines.translation.released.set()
        thread.join(DEADLINE_S)
        assert "".join(found[0]).startswith("字零")
        # The next chunk goes to an empty processor; the YAML gives it the direction.
        later = remote.process_chunk(audio[48_000:]).new_tokens + remote.end_of_stream().new_tokens
        assert later
        assert not set("".join(later)) & set("Wort")
    assert fakes.FakeAgent.runtime.failures == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ttl": 60}, r"ttl: .* greater than or equal to 600 \(got 60\)"),
        ({"port": "8080"}, r"port: .*\(got '8080'\)"),
    ],
)
def test_server_settings_are_checked(tmp_path, change, message):
    path = tmp_path / "server.yaml"
    path.write_text(yaml.safe_dump(read_server(TEMPLATES / "server.yaml") | change))
    with pytest.raises(ConfigError, match=message):
        read_server(path)


def test_entry_point_refuses_before_a_model_is_loaded(image, tmp_path, capsys):
    def refusal(*arguments):
        assert run("submission", ["serve", *arguments, "--root", str(image)]) == 2
        return capsys.readouterr().err

    assert "no system was specified; " in refusal()
    assert "contains low/en-de, low/en-zh" in refusal("low/en-it")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = {"hostname": "127.0.0.1", "port": taken.getsockname()[1]}
        server_yaml = image / "server.yaml"
        server_yaml.write_text(yaml.safe_dump(read_server(server_yaml) | settings))
        assert "cannot listen on 127.0.0.1" in refusal("low/en-de")
    (tmp_path / "checkpoints" / "asr" / "model.safetensors").unlink()
    assert "relative paths in " in refusal("low/en-zh")


def test_missing_hub_weights_name_the_mount(image, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    config = load_config("iwslt26-low").for_target("de")
    (image / "systems" / "low" / "en-de.yaml").write_text(config.to_yaml())
    assert run("submission", ["serve", "low/en-de", "--root", str(image)]) == 2
    error = capsys.readouterr().err
    for model in ("Qwen3-ASR-1.7B", "Qwen3-ForcedAligner-0.6B", "gemma-4-E4B-it"):
        assert re.search(rf"alignatt fetch (Qwen|google)/{model}@[0-9a-f]{{40}}\b", error)
    assert "-v FOLDER:/weights:ro" in error
