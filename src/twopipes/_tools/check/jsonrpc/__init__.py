"""Probes and scenarios of section JR."""
