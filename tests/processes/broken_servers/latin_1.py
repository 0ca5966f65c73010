"""Writes Latin-1 instead of UTF-8."""

import json
import sys

from stdio_server import respond, serve


def send(message):
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
    sys.stdout.buffer.write(text.replace("broken", "gebrochen, für immer").encode("latin-1") + b"\n")
    sys.stdout.buffer.flush()


serve(lambda message: respond(message, send))
