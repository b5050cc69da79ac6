"""Benchmark of the engine against its alternatives."""
