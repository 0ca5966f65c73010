"""Recordings for people: in the terminal, and as an HTML page."""
