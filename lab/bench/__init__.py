"""Benchmark of the engine and its alternatives."""
