"""Starts slowly."""

import time

from stdio_server import serve

time.sleep(0.6)
serve()
