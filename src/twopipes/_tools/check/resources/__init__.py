"""Probes and scenarios of section RS."""
