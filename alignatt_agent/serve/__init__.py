"""``alignatt serve``: one speaker, many languages, many viewers, on one port."""
