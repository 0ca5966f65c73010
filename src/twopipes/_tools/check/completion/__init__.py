"""Probes and scenarios of section CM."""
