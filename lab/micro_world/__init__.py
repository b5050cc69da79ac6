"""The micro world: a small generated language, its speech, and tiny models for it."""
