"""Prompts, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer, scenario

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
    """A prompt wants one argument, and takes another that means a number."""
    fake.healthy.prompts.append(_LETTER)
    await fake.wait_for("prompts/get")
    await fake.client_exited()
    asked = [message for message in fake.requests("prompts/get") if message.params.get("arguments")]
    if not asked:
        fake.give_up("the client gives no arguments to prompts")
    for message in asked:
        arguments = message.params["arguments"]
        fake.expect(
            "PM-02",
            isinstance(arguments, dict) and all(isinstance(value, str) for value in arguments.values()),
            "an argument of a prompt is no string",
            fix="Send every argument of a prompt as a string, also one that means a number.",
            about=message,
        )
