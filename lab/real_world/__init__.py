"""Real models, real text and speech of it: dev sets, calibration pairs, heads and curves."""
