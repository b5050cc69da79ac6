"""Build and check submissions to the IWSLT simultaneous task: the bundle and its image."""
