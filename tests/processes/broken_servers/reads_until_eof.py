"""Reads all of its input before it responds."""

import json
import sys

from stdio_server import respond

for line in sys.stdin.read().splitlines():
    message = json.loads(line)
    if "id" in message:
        respond(message)
