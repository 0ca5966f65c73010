"""Reads, and never responds."""

import sys

for _ in sys.stdin:
    pass
