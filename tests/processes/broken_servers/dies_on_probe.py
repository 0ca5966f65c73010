"""Takes an unknown first message for a fatal error."""

import sys

from speaking import requests, result_of, say

for message in requests():
    if (result := result_of(message)) is None:
        sys.exit(f"fatal: unknown method {message['method']}")
    say({"id": message["id"], "result": result})
