"""Pictures of the live page for the documentation: a film, and screenshots of all sizes."""
