"""The limit for any Python program: bytes in, the same bytes out. A request comes back as its own response."""

import os

while data := os.read(0, 64 * 1024):
    while data:
        data = data[os.write(1, data) :]
