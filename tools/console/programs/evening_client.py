"""A client written in an evening: ``python evening_client.py COMMAND...``."""

import json
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(number, method, params):
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    print(json.dumps(request), file=server.stdin, flush=True)
    for line in server.stdout:
        answer = json.loads(line)
        if answer.get("id") == number and "method" not in answer:
            return answer.get("result", {})
    sys.exit("the server is gone")


info = {"name": "evening", "version": "0.1"}
ask(1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
for number, tool in enumerate(ask(2, "tools/list", {}).get("tools", []), start=3):
    ask(number, "tools/call", {"name": tool["name"], "arguments": {}})
server.kill()
