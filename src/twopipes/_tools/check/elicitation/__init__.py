"""Probes and scenarios of section EL."""
