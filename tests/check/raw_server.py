"""A server written by hand, for faults of processes that no library has: ``python raw_server.py FAULT``. It has one tool."""

import json
import os
import queue
import subprocess
import sys
import threading
import time

HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
CAPABILITIES = {"tools": {}, "logging": {}}
INFO = {"name": "raw", "version": "0"}
TOOL = {"name": "log", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
REVISIONS = ["2026-07-28", "2025-11-25"]


def send(message: dict[str, object], *, is_unread: bool = False) -> None:
    try:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        if not is_unread:
            raise


def answer(message: dict[str, object], fault: str) -> dict[str, object]:
    match message["method"]:
        case "initialize":
            return {"result": {"protocolVersion": REVISIONS[1], "capabilities": CAPABILITIES, "serverInfo": INFO}}
        case "server/discover":
            meta = {"io.modelcontextprotocol/serverInfo": INFO}
            return {"result": {**HINTS, "supportedVersions": REVISIONS, "capabilities": CAPABILITIES, "_meta": meta}}
        case "ping" | "logging/setLevel":
            return {"result": {}}
        case "tools/list":
            return {"result": {**HINTS, "tools": [TOOL]}}
        case "tools/call":
            data = dict(os.environ) if fault == "logs-its-environment" else "called"
            send({"method": "notifications/message", "params": {"level": "info", "data": data}})
            return {"result": {"resultType": "complete", "content": [{"type": "text", "text": "logged"}]}}
    return {"error": {"code": -32601, "message": "no such method"}}


def lines(fault: str):
    """What comes from stdin."""
    if fault != "forgets-what-it-was-asked":
        yield from sys.stdin
        return
    read: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            read.put(line)
        os._exit(0)  # whatever is still to be done

    threading.Thread(target=listen, daemon=True).start()
    while True:
        line = read.get()
        time.sleep(0.03)  # it takes its time
        yield line


def main(fault: str) -> None:
    nothing = subprocess.DEVNULL
    if fault == "leaves-a-child":
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing)
    for line in lines(fault):
        if fault == "wants-a-newline" and not line.endswith("\n"):
            break
        message = json.loads(line)
        if "id" in message and "method" in message:
            send({"id": message["id"], **answer(message, fault)}, is_unread=fault == "ignores-a-closed-pipe")
    if fault == "stays-after-the-end":
        time.sleep(60)


main(sys.argv[1])
