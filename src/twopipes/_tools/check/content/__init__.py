"""Probes and scenarios of section CT."""
