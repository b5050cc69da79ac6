"""Submission to the IWSLT simultaneous task: the bundle, its image and its validator."""
