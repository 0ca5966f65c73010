"""A server with a few mistakes, for the page that shows recordings."""

import json
import sys
import time


def say(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request, result):
    say({"id": request["id"], "result": result})


def forecast(request):
    city = request["params"]["arguments"]["city"]
    if city == "Atlantis":
        print("no station near Atlantis", file=sys.stderr, flush=True)
        return  # without a response
    token = request["params"].get("_meta", {}).get("progressToken")
    for step in (1, 2, 2):
        time.sleep(0.1)
        if token is not None:
            params = {"progressToken": token, "progress": step, "total": 3, "message": f"station {step}"}
            say({"method": "notifications/progress", "params": params})
    if city == "Oz":
        say({"id": request["id"], "error": {"code": -32602, "message": "unknown city Oz"}})
    else:
        answer(request, {"content": [{"type": "text", "text": "Rain, 12 degrees"}]})


TOOL = {
    "name": "forecast",
    "description": "Tells the weather.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
for line in sys.stdin:
    received = json.loads(line)
    match received.get("method"):
        case "initialize":
            print("loading stations", file=sys.stderr, flush=True)
            time.sleep(0.1)
            print("weather server ready", flush=True)
            info = {"name": "weather", "version": "0.3"}
            answer(received, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        case "tools/list":
            answer(received, {"tools": [TOOL]})
        case "tools/call":
            forecast(received)
        case _:
            pass
