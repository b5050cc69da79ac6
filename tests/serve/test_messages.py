"""The classes of messages, and who else knows their fields: clients, pages, documents."""

import json
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from alignatt_agent.serve import messages
from alignatt_agent.serve.app import create_app
from alignatt_agent.serve.http_handlers import PAGES
from alignatt_agent.serve.wires import WIRES
from tests.serve import live, toy_wire
from tests.serve.test_wires import DOCS

CLASSES = {*messages.Message.__subclasses__(), *messages.Event.__subclasses__()} - {messages.Event}
CLASSES = {found for found in CLASSES if found.__module__ == messages.__name__}
FIELDS = {found.model_fields["type"].default: set() for found in CLASSES}
for found in CLASSES:
    FIELDS[found.model_fields["type"].default] |= found.model_fields.keys()
ALL = set().union(*FIELDS.values())


def test_messages_are_those_of_protocol_2():
    """The lines are of a server without these classes."""
    known = set()
    for line in Path(__file__).with_name("messages.jsonl").read_text("utf-8").splitlines():
        given = json.loads(line)
        name = "StepError" if given.get("code") == "step" else given["type"].title()
        message = getattr(messages, name)(**given)
        assert json.loads(message.model_dump_json()) == given
        known.add(type(message))
    assert known == CLASSES


HANDLER = re.compile(r"^  (?:on_)?(\w+)(?:\((?:m(?:, \w+)?|\{(.*?)\})?\) \{|: m =>)", re.M)
READ = re.compile(r"\b(?:m|message)\.(\w+)")


def body_of(after):
    """Return the body of a handler from the text after its parameters."""
    line, _, _ = after.partition("\n")
    if line.strip() and not line.endswith("{"):
        return line  # an arrow function with one expression
    body, _, _ = after.partition("\n  }")
    return body


def test_pages_read_fields_that_messages_have():
    """In the pages a message is called ``m`` or ``message``, and handled by its type."""
    text = "\n".join(path.read_text("utf-8") for path in sorted(PAGES.glob("*.js")))
    first, *rest = HANDLER.split(text)
    assert set(READ.findall(first)) <= ALL
    handled = set()
    for kind, taken, after in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if kind not in FIELDS:
            continue
        read = {*READ.findall(body_of(after)), *re.findall(r"\w+", taken or "")}
        assert read <= FIELDS[kind], kind
        handled.add(kind)
    assert handled == FIELDS.keys() - {"tail", "posted"}
    never = ALL - set(re.findall(r"\w+", text))
    assert never == {"stages", "start_s", "closed_s"}


@pytest.mark.parametrize("kind", sorted(FIELDS.keys() - {"tail", "posted"}))
def test_the_document_of_the_protocol_has_every_field(kind):
    row = rf"^\| (?:`\w+`, )?`{kind}`.*? \|(.*)\|$"
    (fields,) = re.findall(row, (DOCS / "serve.md").read_text("utf-8"), re.M)
    assert FIELDS[kind] - {"type", "id"} <= set(re.findall(r"`(\w+)`", fields))


def test_a_wire_is_one_file(service):
    with TestClient(create_app(service, (*WIRES, toy_wire))) as client:
        for last, expected in (({}, live.GERMAN), (b"odd", f"{live.GERMAN}refused: odd-bytes")):
            with client.websocket_connect("/toy") as socket, pytest.raises(WebSocketDisconnect):
                live.send(socket)
                (socket.send_bytes if last else socket.send_json)(last)
                said = []
                while True:
                    said.append(socket.receive_json()["text"])
            assert "".join(said).lstrip() == expected
        assert live.text_of(live.speak(client)) == live.GERMAN
