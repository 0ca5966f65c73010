"""Does not flush its stdout."""
# ruff: noqa: T201 - that is the point

import json

from stdio_server import respond, serve


def mumble(message):
    print(json.dumps({"jsonrpc": "2.0", **message}))


serve(lambda message: respond(message, mumble))
