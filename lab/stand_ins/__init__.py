"""Random checkpoints in the published layouts, and the rehearsal of real configurations on them."""
