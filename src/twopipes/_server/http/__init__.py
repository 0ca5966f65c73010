"""Serving over HTTP: an ASGI application for both eras."""
