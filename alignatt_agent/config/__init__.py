"""The configuration: languages, head sets, checkpoints and engine arguments."""
