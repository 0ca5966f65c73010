"""Probes and scenarios of section CH."""
