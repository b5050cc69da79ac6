"""Who may come to the live server."""

import contextlib
import io
import re
import socket
import time

import pytest
from cachetools import TTLCache
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import HTTPConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve import cli
from alignatt_agent.serve.access import LOCAL_HOSTS, MOST_GUESSES, Limits, RefusedError, is_loopback
from alignatt_agent.serve.cli import build_parser
from alignatt_agent.serve.cli import main as serve_main
from alignatt_agent.serve.metrics import Metrics
from alignatt_agent.serve.options import read_limits
from alignatt_agent.serve.server import MOST_OF_ADDRESS
from tests.serve import live

LONG = "sixteen_or_more_"
VIEWING = {"host": "h:1"}


def connection(query="", address="10.0.0.1", **headers):
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "query_string": query.encode(), "headers": raw}
    return HTTPConnection(scope | {"client": (address, 1)})


@pytest.mark.parametrize(
    ("limits", "query", "headers", "code"),
    [
        ({}, "", {}, None),
        ({}, "", {"origin": "http://h:1", "host": "h:1"}, None),
        ({}, "", {"origin": "http://evil.example", "host": "h:1"}, "origin"),
        ({}, "", {"origin": "null", "host": "h:1"}, "origin"),
        ({"origins": ["https://t.org"]}, "", {"origin": "https://t.org", "host": "h:1"}, None),
        ({"hosts": LOCAL_HOSTS}, "", {"host": "localhost:8080"}, None),
        ({"hosts": LOCAL_HOSTS}, "", {"host": "[::1]:8080"}, None),
        ({"hosts": LOCAL_HOSTS}, "", {"host": "evil.example:8080"}, "host"),
        ({"hosts": LOCAL_HOSTS}, "", {"host": "["}, "host"),
        ({"hosts": LOCAL_HOSTS, "origins": ["https://t.org"]}, "", {"host": "t.org"}, None),
        ({"embed": ["https://t.org"]}, "", {"origin": "https://t.org", "host": "h:1"}, "origin"),
        ({"token": "s3"}, "", {}, "token"),
        ({"token": "s3"}, "token=%C3%A4", {}, "token"),
        ({"token": "s3"}, "token=s3", {}, None),
        ({"token": "s3"}, "", {"authorization": "Bearer s3"}, None),
        ({"token": "s3"}, "", {"authorization": "Basic s3"}, "token"),
        ({"token": "s3", "viewer_token": "v"}, "token=v", {}, "token"),
        ({"token": "s3", "viewer_token": "v"}, "token=v", VIEWING, None),
        ({"token": "s3", "viewer_token": "v"}, "token=s3", VIEWING, None),
        ({"token": "s3", "viewer_token": "v"}, "token=x", VIEWING, "token"),
        ({"token": "s3"}, "", VIEWING, "token"),
    ],
)
def test_who_may_come(limits, query, headers, code):
    expected = pytest.raises(RefusedError) if code else contextlib.nullcontext()
    with expected as refused:
        Limits(**limits).check(connection(query, **headers), viewing=headers is VIEWING)
    assert refused is None or refused.value.code == code


@pytest.mark.parametrize(
    ("token", "host", "code"),
    [
        ("s3", "10.0.0.1", "guesses"),
        ("s3", "10.0.0.2", None),
        ("s3", "2001:db8:1:2:9::9", "guesses"),
        ("s3", "2001:db8:1:3:9::9", None),
        (LONG, "10.0.0.1", None),  # nobody guesses it, and nobody keeps those out who have it
        ("wrong", "10.0.0.1", "guesses"),
    ],
)
def test_guesses_are_counted_slowed_and_logged(token, host, code, caplog):
    now = [0.0]
    limits = Limits(token=f"s3\n{LONG}", guesses=TTLCache(10, 60, timer=lambda: now[0]))

    def answer(token, host):
        try:
            limits.check(connection(f"token={token}", host))
        except RefusedError as error:
            return error.code

    for guess in range(MOST_GUESSES):
        for address in ("10.0.0.1", f"2001:db8:1:2::{guess}"):
            assert answer("guess0", address) == answer(f"guess{guess}", address) == "token"
    assert answer(token, host) == code
    now[0] = 61
    assert answer("s3", host) is None
    assert len(caplog.records) == 2 * MOST_GUESSES
    assert "wrong token from 10.0.0.1 (20 within a minute)" in caplog.text
    assert "guess" not in caplog.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("asr model /home/me/models/asr-1: died", "asr model asr-1: died"),
        ("('/srv/a b/x.py', 3)", "('a b/x.py', 3)"),
        ("add --origin https://a.example/b/c or 1/2/3", None),
        ("unknown ?token=/x", None),
        ("x" * 9999, "x" * 1500),
    ],
)
def test_clients_get_no_paths(text, shown):
    assert str(RefusedError("any", text)) == (shown or text)


def test_a_code_to_scan(tmp_path):
    segno = pytest.importorskip("segno")
    given = {"token": "s3", "viewer_token": "v", "address": "http://a.example"}
    with live.client_of(tmp_path, **given) as client:
        assert client.get("/qr?room=talk").status_code == 401
        answer = client.get("/qr?room=talk&token=v&path=/live/")
    link = "http://a.example/live/captions?room=talk&token=v"
    assert answer.headers["content-type"] == "image/svg+xml"
    segno.make(link).save(expected := io.BytesIO(), kind="svg", scale=8, light="white")
    assert answer.content == expected.getvalue()


def test_other_pages_may_show_captions(tmp_path):
    page = {"origin": "https://event.example"}
    with live.client_of(tmp_path, embed=[page["origin"]]) as client:
        for path in ("/health", "/captions.json?room=talk&target=de", "/events?room=a+b"):
            answer = client.get(path, headers=page)
            assert answer.headers["access-control-allow-origin"] == page["origin"]
            assert "origin" not in answer.text
            others = client.get(path, headers={"origin": "https://evil.example"})
            assert others.headers.get("access-control-allow-origin") is None
        for query, inline in (("", False), ("&lines=all", False), ("&lines=3", True)):
            answer = client.get(f"/captions?room=talk&target=de{query}" if query else "/captions")
            policy = answer.headers["content-security-policy"]
            assert "frame-ancestors 'self' https://event.example" in policy
            assert ("style-src 'self' 'unsafe-inline';" in policy) == inline  # OBS's custom CSS


def test_the_links_that_the_server_prints(tmp_path, capsys):
    limits = Limits(token="s3", viewer_token="v", address="https://a.example")
    cli._announce(live.resolved(tmp_path), limits, "127.0.0.1", 80)
    first, link = capsys.readouterr().out.splitlines()
    assert first.startswith("http://127.0.0.1:80/ translates en into de")
    assert link.endswith(" https://a.example/captions?room=talk&token=v")


def arguments(*given):
    return build_parser().parse_args(["--config", "micro-low", *given])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines connect"),
        (["--origin", "talks.example.org"], "must be an address such as https://"),
        (["--embed", "https://talks.example.org", "*"], "--embed must be .*https://.*'[*]'"),
        (["--max-speakers", "0"], "--max-speakers must be greater than 0"),
        (["--keep", "nan"], "--keep must be greater than 0"),
        (["--port", "99999"], "--port must be between 0 and 65535"),
        (["--port", "0", "--ray", "local"], "--port 0 does not work with --ray"),
    ],
)
def test_command_lines_that_let_strangers_in_or_nobody(given, problem, monkeypatch):
    monkeypatch.delenv("ALIGNATT_TOKEN", raising=False)
    with pytest.raises(ConfigError, match=problem):
        read_limits(arguments(*given))


def test_on_this_machine_only_its_own_names_are_answered():
    assert read_limits(arguments()).hosts == LOCAL_HOSTS
    assert read_limits(arguments("--host", "0.0.0.0", "--token", "t")).hosts == ()
    assert [is_loopback(host) for host in ("127.0.0.2", "::1", "localhost")] == [True] * 3
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "example.org")] == [False] * 3


@pytest.mark.parametrize(
    ("given", "link"),
    [
        (["--host", "10.0.0.1"], "http://10.0.0.1:80/captions?room=talk&token="),
        (["--host", "fd00::1"], "http://[fd00::1]:80/captions?room=talk&token="),
        (["--origin", "https://t.org/"], "https://t.org/captions?room=talk&token="),
        (["--origin", "https://t.org/a/"], "https://t.org/a/captions?room=talk&token="),
        (["--embed", "https://t.org/"], "http://here/captions?room=talk&token="),
        (["--host", "0.0.0.0"], ":80/captions?room=talk&token="),
    ],
)
def test_links_for_viewers_hold_their_token_alone(given, link):
    limits = read_limits(arguments(*given, "--token", "secret", "--port", "80"))
    found = limits.viewers("http://here/", room="talk")
    assert link in found
    assert not {"secret", "0.0.0.0"} & set(re.split("[/:=]", found))
    assert limits.check(connection(found.partition("?")[2], **VIEWING), viewing=True)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_links_for_viewers_have_the_port_that_the_system_chose(host, monkeypatch, capsys):
    ports = []

    class Engines:
        def __init__(self, *_):
            self.load = lambda: None

    class Server:
        def __init__(self, service, ready):
            self.service, self.ready = service, ready

        def run(self, sockets):
            ports.append(sockets[0].getsockname()[1])
            self.ready()

    monkeypatch.setattr("alignatt_agent.serve.engines.SharedEngines", Engines)
    monkeypatch.setattr("alignatt_agent.serve.server.Server", Server)
    monkeypatch.setattr("alignatt_agent.serve.service.Service", lambda engines, limits: limits)
    given = ["--config", "micro-low", "--host", host, "--token", "secret", "--port", "0"]
    assert serve_main(given) == 0
    (port,) = ports
    printed = capsys.readouterr().out
    links = re.findall(r"http://[^/ ]+:(\d+)/", printed)
    assert len(links) == (1 if host == "127.0.0.1" else 2)
    assert set(links) == {str(port)}


def test_restarts_are_a_counter():
    zero = dict.fromkeys(("speakers", "viewers"), lambda: 0.0)
    metrics = Metrics(**zero, restarts=lambda: 3)
    text = generate_latest(metrics.registry).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert found["alignatt_engine_restarts"].type == "counter"
    assert found["alignatt_speakers"].type == "gauge"
    assert "\nalignatt_engine_restarts_total 3.0\n" in text
    for family in found.values():
        totals = [sample for sample in family.samples if sample.name.endswith("_total")]
        assert not totals or family.type == "counter"


def test_a_flood_of_pings_ends_its_own_connection_alone(server):
    with live.RemoteSocket(server.port, ping_interval=None) as speaker:
        live.start(speaker)
        for path in ("/ws", "/mt", "/v1/realtime/translations"):
            flood = connect(f"ws://127.0.0.1:{server.port}{path}", proxy=None)
            with contextlib.suppress(OSError):  # nobody reads all of it
                flood.socket.sendall(Frame(Opcode.PING, b"").serialize(mask=True) * 100_000)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    flood.recv(timeout=live.WAIT_S)
            assert closed.value.rcvd is None or closed.value.rcvd.code == 1008
        begin = time.monotonic()
        assert live.get(server.port, "/health")[0] == 200
        assert time.monotonic() - begin < 1
        live.send(speaker, stop=True)
        assert live.text_of(live.until(speaker, "end")) == live.GERMAN


def test_connections_without_a_request_are_closed(server, monkeypatch):
    def silent(count):
        return [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(count)]

    viewer = live.Viewer(server.port)
    first = silent(MOST_OF_ADDRESS)
    time.sleep(0.3)
    slow, *_ = kept = silent(MOST_OF_ADDRESS)
    assert [one.recv(1) for one in first] == [b""] * MOST_OF_ADDRESS  # the older ones
    with live.RemoteSocket(server.port) as speaker:
        live.start(speaker)
        monkeypatch.setattr("alignatt_agent.serve.server.REQUEST_S", 0.1)
        slow.send(b"GET / HTTP/1.1\r\n")
        assert [one.recv(1) for one in kept] == [b""] * MOST_OF_ADDRESS
        live.send(speaker, stop=True)
        assert live.text_of(live.until(speaker, "end")) == live.GERMAN
    assert not viewer.saw("end")
    assert viewer.is_alive()
