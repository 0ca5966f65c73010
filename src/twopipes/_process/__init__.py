"""Processes: the one that launched us, and those that we launch. Nothing is imported here."""
