"""Probes and scenarios of section TO."""
