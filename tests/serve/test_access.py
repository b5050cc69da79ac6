"""Who may come to the live server."""

from __future__ import annotations

import contextlib

import pytest
from starlette.requests import HTTPConnection

from alignatt_agent.config.errors import ConfigError
from alignatt_agent.serve.access import LOCAL_HOSTS, Limits, RefusedError, is_loopback
from alignatt_agent.serve.cli import build_parser, read_limits

VIEWING = {"host": "h:1"}


def connection(query="", **headers):
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return HTTPConnection({"type": "http", "query_string": query.encode(), "headers": raw})


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
        ({"token": "s3"}, "", {}, "token"),
        ({"token": "s3"}, "token=S3", {}, "token"),
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


def arguments(*given):
    return build_parser().parse_args(["--config", "micro-low", *given])


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 lets others in"),
        (["--viewer-token", "v"], "has no meaning without --token"),
        (["--origin", "talks.example.org"], "has to be like https://"),
        (["--origin", "https://talks.example.org/page"], "has to be like https://"),
        (["--max-speakers", "0"], "--max-speakers has to be more than 0"),
        (["--idle", "nan"], "--idle has to be more than 0"),
        (["--port", "99999"], "--port has to be 0 to 65535"),
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
