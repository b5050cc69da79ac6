"""Translation side: prompts, drafts, stability units."""
