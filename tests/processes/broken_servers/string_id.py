"""Converts every id to a string."""

from stdio_server import respond, send, serve

serve(lambda message: respond(message, lambda reply: send({**reply, "id": str(reply["id"])})))
