"""Bench of acceptance policies on transcripts, word by word, with shared drafts."""
