"""Probes and scenarios of section HT."""
