"""Evaluation: the official harness run on a dev set, scored, signed and printed."""
