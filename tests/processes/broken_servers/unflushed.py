"""Its answers stay in the buffer of its stdout."""
# ruff: noqa: T201 - that is the point

import json

from speaking import answer, serve


def mumble(message):
    print(json.dumps({"jsonrpc": "2.0", **message}))


serve(lambda message: answer(message, mumble))
