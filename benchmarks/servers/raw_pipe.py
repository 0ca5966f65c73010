"""The limit for anything in Python: bytes in, the same bytes out. Who asks finds the question where the answer should be."""

import os

while data := os.read(0, 64 * 1024):
    while data:
        data = data[os.write(1, data) :]
