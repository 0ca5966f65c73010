"""Clients that break the rules of completion, one each."""

from check.mutation import message_mutant


@message_mutant("CM-01")
def does_not_say_what_to_complete(message):
    if message.get("method") == "completion/complete":
        del message["params"]["ref"]
    return message


@message_mutant("CM-01", revision="2025-06-18")
def does_not_say_what_is_typed(message):
    if message.get("method") == "completion/complete":
        del message["params"]["argument"]["value"]
    return message
