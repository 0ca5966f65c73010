"""A correct server with a handshake. Each broken server imports it and breaks one thing."""

import json
import sys

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
TOOLS = [{"name": "echo", "description": "Repeats its input.", "inputSchema": {"type": "object"}}]

sys.stdout.reconfigure(newline="\n")  # on Windows, too


def write(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def result_of(message):
    """Return the result of a request; ``None`` for an unknown method."""
    params = message.get("params") or {}
    match message["method"]:
        case "initialize":
            asked = params["protocolVersion"]
            return {
                "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "broken", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": TOOLS}
    return None


def respond(message, send=send):
    result = result_of(message)
    if result is None:
        send({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        send({"id": message["id"], "result": result})


def requests():
    """Yield the requests, until the end of the input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            yield message


def serve(respond=respond):
    for message in requests():
        respond(message)
