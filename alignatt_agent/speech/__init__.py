"""Speech side: live tail, recognizer, forced aligner."""
