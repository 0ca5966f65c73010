"""Writes JSON for people."""

import json

from speaking import answer, serve, write


def say(message):
    write(json.dumps({"jsonrpc": "2.0", **message}, indent=2))


serve(lambda message: answer(message, say))
