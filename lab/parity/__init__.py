"""Comparison of the engine's attention rows with those of Transformers, in every mode of vLLM."""
