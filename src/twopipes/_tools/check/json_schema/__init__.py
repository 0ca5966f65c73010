"""Probes and scenarios of section JS."""
