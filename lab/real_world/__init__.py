"""Measure real models on real text: dev sets, calibration pairs, heads and curves."""
