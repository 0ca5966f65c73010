"""Clients that break the rules of resources, one each."""

from check.mutation import message_mutant


@message_mutant("RS-05")
def subscribes_as_before(message):
    if message.get("method") == "subscriptions/listen":
        message["method"] = "resources/subscribe"
        message["params"] = {"uri": "fake://note", "_meta": message["params"]["_meta"]}
    return message
