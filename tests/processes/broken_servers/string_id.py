"""Turns every id into a string."""

from speaking import answer, say, serve

serve(lambda message: answer(message, lambda reply: say({**reply, "id": str(reply["id"])})))
