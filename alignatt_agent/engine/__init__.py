"""vLLM engines: their lifecycle, and exact attention rows."""
