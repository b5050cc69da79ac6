"""Run the measurements that need a GPU, in parts of at most nine minutes."""
