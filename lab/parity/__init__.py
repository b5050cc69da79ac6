"""Attention rows of the engine against Transformers, in every mode that vLLM runs in."""
