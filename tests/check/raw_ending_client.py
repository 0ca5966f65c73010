"""A client written by hand that ends its server in its own way: ``python raw_ending_client.py HOW CMD...``. It speaks both eras."""

import json
import os
import subprocess
import sys
import time

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
LEGACY = "2025-11-25"
# Seconds. Enough time for a process to react.
A_WHILE = 0.2
# Seconds. Too little time.
A_MOMENT = 0.002


def wait(server: subprocess.Popen[bytes], seconds: float = A_WHILE) -> bool:
    try:
        server.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def open_session(server: subprocess.Popen[bytes]) -> None:
    def send(message: dict[str, object]) -> None:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()

    params: dict[str, object] = {"_meta": META}
    send({"id": 1, "method": "server/discover", "params": params})
    if "error" in json.loads(server.stdout.readline()):
        info = {"name": "raw", "version": "1"}
        send({"id": 2, "method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}})
        server.stdout.readline()
        send({"method": "notifications/initialized"})
        params = {}
    send({"id": 3, "method": "tools/list", "params": params})
    server.stdout.readline()


def main(how: str, command: list[str]) -> None:
    nothing = subprocess.DEVNULL
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=nothing)
    open_session(server)
    if how == "kills-at-once":
        server.kill()
        server.wait()
        return
    server.stdin.close()
    if how == "leaves-it-running":
        time.sleep(A_WHILE)
        os._exit(0)
    if how == "waits-for-ever":
        server.wait()
    if how == "knows-no-signal-but-one" and not wait(server):
        server.kill()
    if how == "asks-and-goes" and not wait(server):
        server.terminate()
        time.sleep(A_WHILE)
        os._exit(0)
    if how == "gives-no-time":
        server.terminate()
        if not wait(server):
            server.kill()
    if how == "kills-a-moment-later" and not wait(server, A_MOMENT):
        server.kill()
    if how == "loses-its-patience" and not wait(server):
        server.terminate()
        if not wait(server, A_MOMENT):
            server.kill()
    if how == "properly" and not wait(server):
        server.terminate()
        if not wait(server):
            server.kill()
    server.wait()


main(sys.argv[1], sys.argv[2:])
