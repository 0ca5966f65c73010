"""A server of the handshake era with good manners. Each broken one imports it, and breaks one of them."""

import json
import sys

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
TOOLS = [{"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}}]


def write(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def result_of(message):
    """The result of a request; ``None`` for a method that there is not."""
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


def answer(message, say=say):
    result = result_of(message)
    if result is None:
        say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        say({"id": message["id"], "result": result})


def requests():
    """What is asked, until the end of the input."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            yield message


def serve(answer=answer):
    for message in requests():
        answer(message)
