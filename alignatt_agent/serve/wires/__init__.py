"""What clients speak: our own messages, Simulstream's, OpenAI's and WhisperLiveKit's."""
