"""What a host needs to use servers: one connection, typed calls, and what is remembered between them. Nothing is imported here."""
