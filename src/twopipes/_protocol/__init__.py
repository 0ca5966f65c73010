"""MCP itself, without I/O: what the five revisions know, the types of their messages, and one dialect for each."""
