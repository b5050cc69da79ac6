"""Pictures of the live page for the documents: a film, and photographs at every size."""
