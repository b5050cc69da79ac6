"""A chat endpoint that answers as a test wants, in place of the client's connections."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest


def answer(content: Any) -> dict[str, Any]:
    """A completion whose message is ``content``, as JSON unless it is text."""
    text = content if isinstance(content, str) else json.dumps(content)
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


@contextmanager
def chat_endpoint(reply: Callable[[str, int], Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Answer ``reply(question, attempt)``, a body, status or bytes; yield address and requests."""
    seen: list[dict[str, Any]] = []

    def handle(_: httpx2.HTTPTransport, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        question = body["messages"][1]["content"]
        attempt = sum(item["question"] == question for item in seen)
        seen.append({"question": question, "body": body, "request": request})
        made = reply(question, attempt)
        if isinstance(made, int):
            return httpx2.Response(made)
        return httpx2.Response(200, content=made if isinstance(made, bytes) else json.dumps(made))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpx2.HTTPTransport, "handle_request", handle)
        yield "http://chat.test/v1", seen
