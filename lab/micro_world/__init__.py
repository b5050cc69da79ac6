"""The micro world: a generated language, its speech, and tiny models of real architectures."""
