"""Probes and scenarios of section ST."""
