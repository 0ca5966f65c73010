"""Writes a byte order mark and CR LF, as on Windows."""

import sys

from stdio_server import serve

sys.stdout.reconfigure(encoding="utf-8-sig", newline="\r\n")
serve()
