"""Probes and scenarios of section AP."""
