"""Reads all of its input before it answers any of it."""

import json
import sys

from speaking import answer

for line in sys.stdin.read().splitlines():
    message = json.loads(line)
    if "id" in message:
        answer(message)
