"""Probes and scenarios of section PR."""
