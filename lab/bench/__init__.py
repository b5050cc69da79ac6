"""The engine against its alternatives, stream by stream and draft by draft."""
