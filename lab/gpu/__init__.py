"""Measurements that need a GPU, in parts of less than nine minutes."""
