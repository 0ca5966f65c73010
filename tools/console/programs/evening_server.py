"""A server written in an evening: it works with one host."""

import json
import sys

print("Starting up...")
TOOL = {
    "name": "greet",
    "description": "Greets somebody.",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "annotations": {"readOnlyHint": True},
}
for line in sys.stdin:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request.get("id")}
    match request.get("method"):
        case "initialize":
            info = {"name": "evening", "version": "0.1"}
            answer["result"] = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "ping":
            answer["result"] = {}
        case "tools/list":
            answer["result"] = {"tools": [TOOL]}
        case "tools/call" if request["params"]["name"] == "greet":
            name = request["params"]["arguments"]["name"]
            answer["result"] = {"content": [{"type": "text", "text": f"Hello, {name}!"}]}
        case _:
            answer["error"] = {"code": -32601, "message": "Method not found"}
    if "id" in request:
        print(json.dumps(answer), flush=True)
