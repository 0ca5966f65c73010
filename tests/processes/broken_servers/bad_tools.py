"""Defines its tools by hand, with faults."""

import stdio_server

stdio_server.TOOLS[:] = [
    {"name": "no schema"},
    {"name": "a_list", "inputSchema": {"type": "array"}},
    {"name": "twice", "inputSchema": {"type": "object"}},
    {"name": "twice", "inputSchema": {"type": "object"}},
]
stdio_server.serve()
