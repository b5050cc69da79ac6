"""Rules of written text, pure functions on strings: words, marks, sentences, units and loops."""
