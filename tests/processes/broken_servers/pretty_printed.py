"""Writes indented JSON."""

import json

from stdio_server import respond, serve, write


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}, indent=2))


serve(lambda message: respond(message, send))
