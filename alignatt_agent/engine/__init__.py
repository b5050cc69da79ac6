"""Run vLLM engines, and read exact attention rows."""
