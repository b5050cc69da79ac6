"""Write random checkpoints in published layouts, and run real configurations on them."""
