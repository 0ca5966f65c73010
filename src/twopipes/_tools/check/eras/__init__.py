"""Probes and scenarios of section DE."""
