"""Probes and scenarios of section PI."""
