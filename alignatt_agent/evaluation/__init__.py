"""Evaluation: runs of the official harness on a dev set, their scores and signatures."""
