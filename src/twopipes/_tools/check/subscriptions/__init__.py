"""Probes and scenarios of section SU."""
