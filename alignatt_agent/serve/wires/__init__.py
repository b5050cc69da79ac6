"""Wires: protocols of clients, ours, Simulstream's, OpenAI's and WhisperLiveKit's, one per file."""
