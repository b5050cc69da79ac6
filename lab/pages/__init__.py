"""Record the live page for the documents: a film, and screenshots in several sizes."""
