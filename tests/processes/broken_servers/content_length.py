"""Speaks as a language server does: headers before each message, in both directions."""

import json
import sys

from speaking import answer


def say(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


while header := sys.stdin.buffer.readline():
    if header.lower().startswith(b"content-length:"):
        sys.stdin.buffer.readline()
        answer(json.loads(sys.stdin.buffer.read(int(header.split(b":")[1]))), say)
