"""Speech side: live tail, recogniser, forced aligner."""
