"""Defines a server and does not run it."""

from stdio_server import serve

if __name__ == "__mian__":
    serve()
