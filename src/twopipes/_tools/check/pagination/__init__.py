"""Probes and scenarios of section PG."""
