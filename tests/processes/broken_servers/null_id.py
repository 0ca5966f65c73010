"""Responds with a null id."""

from stdio_server import respond, send, serve

serve(lambda message: respond(message, lambda reply: send({**reply, "id": None})))
