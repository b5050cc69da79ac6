"""Trees to words, one module a language."""
