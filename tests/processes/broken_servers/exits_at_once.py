"""Defines a server and does not run it."""

from speaking import serve

if __name__ == "__mian__":
    serve()
