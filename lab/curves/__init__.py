"""Compute curves of quality against latency for every policy, on equal transcripts and drafts."""
