"""Pictures of the live page for the documents: a film, and screenshots of every size."""
