"""The configuration: languages, head sets, checkpoints and how they run."""
