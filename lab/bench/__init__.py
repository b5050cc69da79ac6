"""Benchmark the engine against its alternatives."""
