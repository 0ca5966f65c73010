"""Probes and scenarios of section TX."""
