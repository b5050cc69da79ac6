"""Translate a recording, a stream, or microphone input to text and subtitles."""
