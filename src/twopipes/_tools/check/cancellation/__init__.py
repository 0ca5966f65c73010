"""Probes and scenarios of section CA."""
