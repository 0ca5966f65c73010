"""Describes its tools by hand, and not well."""

import speaking

speaking.TOOLS[:] = [
    {"name": "no schema"},
    {"name": "a_list", "inputSchema": {"type": "array"}},
    {"name": "twice", "inputSchema": {"type": "object"}},
    {"name": "twice", "inputSchema": {"type": "object"}},
]
speaking.serve()
