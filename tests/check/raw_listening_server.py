"""A server written by hand that ends its subscriptions when it is terminated: ``python raw_listening_server.py [FAULT]``."""

import json
import os
import signal
import sys

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
TAG = "io.modelcontextprotocol/subscriptionId"
listens: list[object] = []


def send(**message: object) -> None:
    os.write(1, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def cancel(listen: object) -> None:
    send(method="notifications/cancelled", params={"requestId": listen, "_meta": {TAG: listen}})


def end(_number: int, _frame: object) -> None:
    for listen in listens:
        if FAULT not in {"cancels-late", "result-alone"}:
            cancel(None if FAULT == "cancels-nothing" else listen)
        if FAULT != "says-nothing":
            send(id=listen, result={"resultType": "complete", "_meta": {TAG: listen}})
        if FAULT == "cancels-late":
            cancel(listen)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
for line in sys.stdin.buffer:
    asked = json.loads(line)
    if asked["method"] == "server/discover":
        more = {"capabilities": {}, "ttlMs": 0, "cacheScope": "private"}
        send(id=asked["id"], result={"resultType": "complete", "supportedVersions": ["2026-07-28"], **more})
    elif asked["method"] == "subscriptions/listen":
        listens.append(asked["id"])
        content = {"notifications": {}, "_meta": {TAG: asked["id"]}}
        send(method="notifications/subscriptions/acknowledged", params=content)
    elif "id" in asked:
        send(id=asked["id"], error={"code": -32601, "message": "no"})
