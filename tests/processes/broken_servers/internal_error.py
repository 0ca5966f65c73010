"""Declares tools and fails to list them."""

from stdio_server import respond, send, serve


def handle(message):
    if message["method"] == "tools/list":
        send({"id": message["id"], "error": {"code": -32603, "message": "Internal error"}})
    else:
        respond(message)


serve(handle)
