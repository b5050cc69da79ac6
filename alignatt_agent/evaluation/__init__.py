"""Evaluation: run the official harness on a dev set, score the output, and sign the scores."""
