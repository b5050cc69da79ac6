"""The one configuration: what runs, in which language, with which heads and checkpoints."""
