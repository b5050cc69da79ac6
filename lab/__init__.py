"""Experiments and measurements: embedded models, parity, benchmarks, curves, results."""
