"""Probes and scenarios of section MT."""
