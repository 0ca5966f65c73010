"""Probes and scenarios of section SD."""
