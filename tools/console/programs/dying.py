"""A server that exits during its first call."""

import os
import sys

from twopipes import Server

server = Server("hello")


@server.tool
def greet(name: str) -> str:
    print("cannot reach the database", file=sys.stderr, flush=True)
    os._exit(3)


server.run()
