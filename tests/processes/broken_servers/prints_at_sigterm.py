"""Prints to stdout when it gets SIGTERM."""

import signal
import sys

from stdio_server import serve

# Not in the handler itself: the signal may come while a response is being flushed, and Python refuses to print then.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
try:
    serve()
except SystemExit:
    print("shutting down", flush=True)  # noqa: T201 - which is the fault
