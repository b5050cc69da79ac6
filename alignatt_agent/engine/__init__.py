"""vLLM engines: their life, and exact attention rows out of them."""
