"""Exits neither at the end of its input nor on SIGTERM."""

import signal

from stdio_server import serve

signal.signal(signal.SIGTERM, signal.SIG_IGN)
serve()
while True:
    signal.pause()
