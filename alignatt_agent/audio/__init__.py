"""Recordings, streams and pipes as 16 kHz mono samples; the only room that imports PyAV."""
