"""Compare attention rows of the engine with those of Transformers, in every mode of vLLM."""
