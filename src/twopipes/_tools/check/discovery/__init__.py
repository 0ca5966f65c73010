"""Probes and scenarios of section VN."""
