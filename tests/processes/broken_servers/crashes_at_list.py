"""Declares tools and crashes when they are listed, with a stack after the error, as Node writes it."""

import sys

from stdio_server import respond, serve

STACK = "".join(f"    at handler{number} (file:///srv/server.js:{number}:7)\n" for number in range(1, 30))


def handle(message):
    if message["method"] == "tools/list":
        sys.exit(f"FATAL: cannot reach the database at db.example:5432\n{STACK}\nNode.js v20.20.2")
    respond(message)


serve(handle)
