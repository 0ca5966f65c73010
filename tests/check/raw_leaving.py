"""A client written by hand that ends its server in its own way: ``python raw_leaving.py HOW CMD...``. Stateless wire alone."""

import json
import os
import subprocess
import sys
import time

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
# Seconds. Time enough for a process to see what happened to it.
A_WHILE = 0.2


def wait(server: subprocess.Popen[bytes], seconds: float = A_WHILE) -> bool:
    try:
        server.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def main(how: str, command: list[str]) -> None:
    nothing = subprocess.DEVNULL
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=nothing)
    for number, method in enumerate(("server/discover", "tools/list"), start=1):
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": {"_meta": META}}
        server.stdin.write(json.dumps(line).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
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
    if how == "properly" and not wait(server):
        server.terminate()
        if not wait(server):
            server.kill()
    server.wait()


main(sys.argv[1], sys.argv[2:])
