"""Offline selection of the attention heads that follow the source."""
