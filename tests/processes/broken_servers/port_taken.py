"""Wants a port that somebody has."""

import socket
import sys

from speaking import serve

taken = socket.create_server(("127.0.0.1", 0))
socket.socket().bind(taken.getsockname())
sys.exit(serve())
