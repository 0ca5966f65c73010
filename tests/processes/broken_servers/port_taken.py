"""Needs a port that is in use."""

import socket
import sys

from stdio_server import serve

taken = socket.create_server(("127.0.0.1", 0))
socket.socket().bind(taken.getsockname())
sys.exit(serve())
