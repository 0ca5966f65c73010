"""Prints a banner before it imports anything."""
# ruff: noqa: T201, E402 - that is the point

print("*** Weather server 1.2 is starting ***", flush=True)

from stdio_server import serve

serve()
