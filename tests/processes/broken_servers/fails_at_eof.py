"""Treats the end of its input as an error."""

import sys

from stdio_server import serve

serve()
sys.exit("connection lost")
