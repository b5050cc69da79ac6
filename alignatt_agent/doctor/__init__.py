"""Checks of the engine on the machine at hand: parity, speed, and a doctor."""
