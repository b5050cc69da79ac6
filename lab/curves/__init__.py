"""Curves: quality against latency for every policy, on the same hearing and the same drafts."""
