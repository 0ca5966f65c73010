"""The rules of the protocol: one module for each section, each with a tuple ``RULES`` of rows."""
