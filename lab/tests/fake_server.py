"""Serve fake engines until a signal, in a process of its own: ``fake_server.py FOLDER [PORT]``."""

import os
import sys
from pathlib import Path

from alignatt_agent.serve.server import Server, listen
from tests.serve.live import make_service

if __name__ == "__main__":
    folder, *port = sys.argv[1:]
    taken = listen("127.0.0.1", int(*port))
    journal = Path(folder, "journal") if port else None
    token = os.environ.get("ALIGNATT_TOKEN")
    service = make_service(Path(folder), token=token, journal=journal)
    address = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    Server(service, lambda: print(address, flush=True)).run(sockets=[taken])
