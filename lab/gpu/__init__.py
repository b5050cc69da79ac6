"""The measurements that need a GPU, in parts of nine minutes."""
