"""Serve fake engines until a signal, in a process of its own: ``fake_server.py FOLDER``."""

import os
import sys
from pathlib import Path

from alignatt_agent.serve.server import Server, listen
from tests.serve.live import make_service

if __name__ == "__main__":
    taken = listen("127.0.0.1", 0)
    service = make_service(Path(sys.argv[1]), token=os.environ["ALIGNATT_TOKEN"])
    address = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    Server(service, lambda: print(address, flush=True)).run(sockets=[taken])
