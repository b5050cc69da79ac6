"""A chat endpoint on the loopback interface that answers as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def answer(content: Any, usage: tuple[int, int] = (100, 20)) -> dict[str, Any]:
    """A completion whose message is ``content``, as JSON unless it is text."""
    text = content if isinstance(content, str) else json.dumps(content)
    return {
        "choices": [{"message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1]},
    }


@contextmanager
def chat_endpoint(reply: Callable[[str, int], Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve ``reply(question, attempt)``, a body, status or bytes; yield address and requests."""
    seen: list[dict[str, Any]] = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            question = body["messages"][1]["content"]
            with lock:
                attempt = sum(item["question"] == question for item in seen)
                request = {"question": question, "path": self.path, "body": body}
                seen.append(request | {"headers": self.headers})
            made = reply(question, attempt)
            data = made if isinstance(made, bytes) else json.dumps(made).encode()
            with suppress(ConnectionError):  # whoever asked may have given up
                self.send_response(made if isinstance(made, int) else 200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/v1", seen
    finally:
        http.shutdown()
        http.server_close()
