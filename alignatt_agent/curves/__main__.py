"""``python -m alignatt_agent.curves``."""

import sys

from alignatt_agent.curves.cli import main

if __name__ == "__main__":
    sys.exit(main())
