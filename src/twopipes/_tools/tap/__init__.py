"""``twopipes tap`` for HTTP: a reverse proxy on loopback that records the messages."""
