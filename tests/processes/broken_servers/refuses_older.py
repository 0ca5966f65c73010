"""Responds to an older revision with an error instead of naming a newer one."""

from stdio_server import REVISIONS, respond, send, serve


def handle(message):
    if message["method"] == "initialize" and message["params"]["protocolVersion"] != REVISIONS[-1]:
        send({"id": message["id"], "error": {"code": -32602, "message": "Unsupported protocol version"}})
    else:
        respond(message)


serve(handle)
