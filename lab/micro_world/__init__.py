"""The micro world: a generated language, its speech, and tiny models of the real architectures."""
