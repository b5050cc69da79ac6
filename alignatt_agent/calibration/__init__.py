"""Select the attention heads that follow the source, off-line."""
