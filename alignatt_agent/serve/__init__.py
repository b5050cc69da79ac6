"""``alignatt serve``: the live server for speakers and viewers, on one port."""
