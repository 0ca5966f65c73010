"""Probes and scenarios of section RT."""
