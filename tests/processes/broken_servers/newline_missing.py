"""Forgets what ends a message."""

import json
import sys

from speaking import answer, serve


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}))
    sys.stdout.flush()


serve(lambda message: answer(message, say))
