"""A server without faults."""

from stdio_server import serve

serve()
