"""Probes and scenarios of section ER."""
