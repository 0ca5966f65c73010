"""A server that responds from a recording."""
