"""Probes and scenarios of section TK."""
