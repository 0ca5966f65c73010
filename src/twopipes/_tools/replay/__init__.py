"""Sending a recorded client's messages to a live server."""
