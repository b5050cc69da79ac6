"""The engine against its alternatives, streams at once, and the live server for hours."""
