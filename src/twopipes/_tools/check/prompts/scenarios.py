"""Prompts, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer, scenario

_LETTER = {
    "name": "letter",
    "description": "Begins a letter.",
    "arguments": [
        {"name": "addressee", "description": "The name of whoever gets it.", "required": True},
        {"name": "lines", "description": "How many lines it has: a number, 3 unless given.", "required": False},
    ],
}


@scenario("PM-02")
async def has_a_prompt_with_arguments(fake: FakeServer) -> None:
    """A prompt wants one argument, and takes another that means a number."""
    fake.healthy.prompts.append(_LETTER)
    await fake.heard("prompts/get")
    await fake.left()
    asked = [said for said in fake.requests("prompts/get") if said.params.get("arguments")]
    if not asked:
        fake.give_up("the client gives no arguments to prompts")
    for said in asked:
        arguments = said.params["arguments"]
        fake.expect(
            "PM-02",
            isinstance(arguments, dict) and all(isinstance(value, str) for value in arguments.values()),
            "an argument of a prompt is no string",
            mend="Send every argument of a prompt as a string, also one that means a number.",
            about=said,
        )
