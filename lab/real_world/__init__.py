"""Real models on real text and its speech: dev sets, calibration pairs, heads and curves."""

from pathlib import Path

OUTPUT = Path("~/.cache/alignatt/real").expanduser()  # default folder of all outputs
