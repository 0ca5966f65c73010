"""Speaks the stateless revision and nothing else."""

from speaking import TOOLS, say, serve

RESULTS = {
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": TOOLS},
}


def tell(message):
    if (result := RESULTS.get(message["method"])) is None:
        data = {"supported": ["2026-07-28"], "requested": ""}
        say({"id": message["id"], "error": {"code": -32022, "message": "Unsupported protocol version", "data": data}})
    else:
        say({"id": message["id"], "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}})


serve(tell)
