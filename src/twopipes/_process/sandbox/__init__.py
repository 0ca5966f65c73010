"""Run a server with a policy: what it may read, write and connect to."""
