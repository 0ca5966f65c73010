"""MCP without I/O: tables of the five revisions, the message types, and one dialect per revision."""
