"""Scripts for two cores: hours of sound, crowds, replicas, starts of engines."""
