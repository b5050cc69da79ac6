"""This machine: its GPUs, its processor, its package versions and its environment variables."""
