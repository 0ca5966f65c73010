"""Writes in the encoding of another time."""

import json
import sys

from speaking import answer, serve


def say(message):
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False)
    sys.stdout.buffer.write(text.replace("broken", "gebrochen, für immer").encode("latin-1") + b"\n")
    sys.stdout.buffer.flush()


serve(lambda message: answer(message, say))
