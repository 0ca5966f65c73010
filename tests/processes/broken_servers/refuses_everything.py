"""Refuses every revision."""

from stdio_server import send, serve

serve(lambda message: send({"id": message["id"], "error": {"code": -32602, "message": "Unsupported protocol version"}}))
