"""A client written by hand, for faults that no library has: ``python raw_client.py FAULT CMD...``. It speaks the stateless wire."""

import json
import os
import select
import signal
import subprocess
import sys

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def main(fault: str, command: list[str]) -> None:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(number: int, method: str, **params: object) -> None:
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": META}}
        server.stdin.write(json.dumps(line).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()

    ask(1, "server/discover")
    ask(2, "tools/list")
    hangs = False
    if fault in {"gives-up-at-an-error", "hangs-at-an-error"}:
        while select.select([server.stderr], [], [], 0)[0]:
            said = os.read(server.stderr.fileno(), 65536)
            if not said:
                break
            if b"ERROR" in said and fault == "hangs-at-an-error":
                hangs = True
            elif b"ERROR" in said:
                server.stdin.close()
                server.wait()
                sys.exit("the server failed")
    # "never-reads-stderr" needs no code: stderr is simply not read.
    ask(3, "tools/call", name="greet", arguments={})
    if hangs:
        signal.pause()
    server.stdin.close()
    server.wait()


main(sys.argv[1], sys.argv[2:])
