from __future__ import annotations

import os
import sys

# Images often forbid byte code; then each of the processes that tests start, engines among them,
# compiles vLLM, torch's friends and the scorers again: 8 s for an engine, 0.2 s for a score.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
