"""Does not write a newline after a message."""

import json
import sys

from stdio_server import respond, serve


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}))
    sys.stdout.flush()


serve(lambda message: respond(message, send))
