"""Probes and scenarios of section SA."""
