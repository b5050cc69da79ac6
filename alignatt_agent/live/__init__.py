"""Translation of a recording, a stream or a microphone to text and subtitles."""
