"""Curves: quality against latency for every policy, on the same transcripts and drafts."""
