"""Probes and scenarios of section FR."""
