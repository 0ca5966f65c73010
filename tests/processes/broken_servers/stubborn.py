"""Neither the end of its input nor SIGTERM makes it leave."""

import signal

from speaking import serve

signal.signal(signal.SIGTERM, signal.SIG_IGN)
serve()
while True:
    signal.pause()
