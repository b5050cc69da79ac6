"""Checks of the machine and its engines: versions, memory, exactness, speed."""
