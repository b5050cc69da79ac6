"""Convert trees to words, with one module per language."""
