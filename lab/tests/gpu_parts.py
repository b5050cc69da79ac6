"""Parts that succeed, fail, hang and die."""

import os
import subprocess
import sys
import time


def good(context, value):
    with (context.output / "calls").open("a") as calls:
        calls.write("good ")
    return {"value": value, "summary": f"found {value}"}


def fails(context):
    raise RuntimeError("no such kernel")


def hangs(context):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    (context.output / "child").write_text(str(child.pid))
    time.sleep(60)


def dies(context):
    os.kill(os.getpid(), 9)
