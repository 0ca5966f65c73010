"""Exits on an unknown first message."""

import sys

from stdio_server import requests, result_of, send

for message in requests():
    if (result := result_of(message)) is None:
        sys.exit(f"fatal: unknown method {message['method']}")
    send({"id": message["id"], "result": result})
