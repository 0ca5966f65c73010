"""Probes and scenarios of section LC."""
