"""The server side: the API for authors, and the handling of requests."""
