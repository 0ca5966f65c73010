"""Probes and scenarios of section LG."""
