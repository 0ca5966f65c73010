"""Probes and scenarios of section PM."""
