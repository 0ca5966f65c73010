"""Supports only the stateless revision."""

from stdio_server import TOOLS, send, serve

RESULTS = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": TOOLS},
}


def handle(message):
    if (result := RESULTS.get(message["method"])) is None:
        data = {"supported": ["2026-07-28"], "requested": ""}
        send({"id": message["id"], "error": {"code": -32022, "message": "Unsupported protocol version", "data": data}})
    else:
        send({"id": message["id"], "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}})


serve(handle)
