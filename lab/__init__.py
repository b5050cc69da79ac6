"""Experiments and checks: embedded models, stand-ins, parity, benchmarks, curves, results."""
