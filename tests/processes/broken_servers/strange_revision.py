"""Responds with its own version as the protocol version."""

from stdio_server import respond, result_of, send, serve


def handle(message):
    if message["method"] == "initialize":
        send({"id": message["id"], "result": {**result_of(message), "protocolVersion": "1.0"}})
    else:
        respond(message)


serve(handle)
