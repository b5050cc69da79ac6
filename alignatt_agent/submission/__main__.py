"""``python -m alignatt_agent.submission``: the same as ``alignatt-submission``."""

from __future__ import annotations

import sys

from alignatt_agent.submission.cli import main

if __name__ == "__main__":
    sys.exit(main())
