"""Prompts that clients request."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.scenario import scenario

_LETTER = {
    "name": "letter",
    "description": "Begins a letter.",
    "arguments": [
        {"name": "addressee", "description": "The name of the recipient.", "required": True},
        {"name": "lines", "description": "How many lines it has: a number, 3 unless given.", "required": False},
    ],
}


@scenario("PM-02")
async def has_a_prompt_with_arguments(fake: FakeServer) -> None:
    """A prompt requires one argument, and has another one that means a number."""
    fake.healthy.prompts.append(_LETTER)
    await fake.exited_after("prompts/get")
    asked = [message for message in fake.requests("prompts/get") if message.params.get("arguments")]
    if not asked:
        fake.give_up("the client sends no arguments for prompts")
    for message in asked:
        given = message.params["arguments"]
        is_valid = isinstance(given, dict) and all(isinstance(value, str) for value in given.values())
        fake.expect("PM-02", is_valid, "an argument of a prompt is not a string", about=message)
