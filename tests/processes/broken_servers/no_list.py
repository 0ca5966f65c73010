"""Declares tools and has no list of them."""

from stdio_server import respond, send, serve


def handle(message):
    if message["method"] == "tools/list":
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        respond(message)


serve(handle)
