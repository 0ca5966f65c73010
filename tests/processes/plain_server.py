"""A small legacy server by hand: no logging, no list_changed, and pages of one tool. TOOLS: the names of its tools."""

import json
import os
import sys

NAMES = os.environ["TOOLS"].split()


def serve(method, params):
    match method:
        case "initialize":
            info = {"name": "plain", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "x-plain": {}}, "serverInfo": info}
        case "tools/list":
            place = int(params.get("cursor", 0))
            page = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES[place : place + 1]]
            return {"tools": page, **({"nextCursor": str(place + 1)} if place + 1 < len(NAMES) else {})}
        case "tools/call":
            if params["name"] == "crash":
                os._exit(3)
            return {"content": [{"type": "text", "text": params["name"]}]}
        case _:
            return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = serve(message["method"], message.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()
