"""Probes and scenarios of section MR."""
