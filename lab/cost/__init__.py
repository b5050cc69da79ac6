"""What a chunk costs on a device: computed, and confirmed by no GPU."""
