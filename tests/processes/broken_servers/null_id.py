"""Forgets the id."""

from speaking import answer, say, serve

serve(lambda message: answer(message, lambda reply: say({**reply, "id": None})))
