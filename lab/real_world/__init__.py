"""Real models on real text and its speech: dev sets, calibration pairs, heads and curves."""
