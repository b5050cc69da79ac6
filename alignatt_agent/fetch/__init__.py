"""Checkpoints from the Hugging Face hub, and their conversion to 8 bits."""
