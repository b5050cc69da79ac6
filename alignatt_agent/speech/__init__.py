"""Speech recognition: live tail, recognizer, forced aligner."""
