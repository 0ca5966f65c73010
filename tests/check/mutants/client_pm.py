"""Clients that break the rules of prompts, one each."""

from check.mutation import message_mutant


@message_mutant("PM-02")
def gives_a_number(message):
    if message.get("method") == "prompts/get":
        message["params"]["arguments"] = {"count": 1}
    return message


@message_mutant("PM-02", revision="2025-11-25")
def asks_for_no_prompt_in_particular(message):
    if message.get("method") == "prompts/get":
        message["params"]["prompt"] = message["params"].pop("name")
    return message


@message_mutant("PM-02")
def sends_numbers_as_they_are(message):
    arguments = message.get("params", {}).get("arguments", {})
    if message.get("method") == "prompts/get" and "lines" in arguments:
        arguments["lines"] = 3
    return message
