"""Probes and scenarios of section TL."""
