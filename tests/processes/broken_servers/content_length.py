"""Uses the framing of language servers: headers before each message, in both directions."""

import json
import sys

from stdio_server import respond


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


while header := sys.stdin.buffer.readline():
    if header.lower().startswith(b"content-length:"):
        sys.stdin.buffer.readline()
        respond(json.loads(sys.stdin.buffer.read(int(header.split(b":")[1]))), send)
