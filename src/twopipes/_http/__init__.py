"""The HTTP binding of a session, without a server and without a client."""
