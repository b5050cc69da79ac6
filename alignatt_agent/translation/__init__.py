"""Translation: prompts, drafts, stability units."""
