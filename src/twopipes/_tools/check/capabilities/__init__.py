"""Probes and scenarios of section CP."""
