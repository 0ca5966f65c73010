"""A client of the handshake era written by hand, for faults that no library has: ``python raw_session.py FAULT CMD...``."""

import json
import signal
import subprocess
import sys


def main(fault: str, command: list[str]) -> None:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def send(message: dict[str, object]) -> None:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()

    info = {"name": "raw", "version": "1"}
    send({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}})
    answer = json.loads(server.stdout.readline())
    if "error" in answer and fault == "dies-of-an-error":
        signal.raise_signal(signal.SIGTERM)  # as a crash does, but without a core file
    if "result" in answer:
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "tools/list"})
        server.stdout.readline()
    server.stdin.close()
    server.wait()


main(sys.argv[1], sys.argv[2:])
