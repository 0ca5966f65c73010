"""Servers that break the rules about schemas, one each."""

from check.mutation import message_mutant


def changed(message, change):
    for tool in message.get("result", {}).get("tools", []):
        if tool["name"] == "echo":
            change(tool["inputSchema"])
    return message


@message_mutant("JS-01")
def writes_an_old_draft_without_saying_so(message):
    old = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    return changed(message, lambda schema: schema["properties"].update(pair=old))


@message_mutant("JS-01", revision="2025-11-25")
def excludes_as_of_old(message):
    old = {"anyOf": [{"type": "integer", "minimum": 0, "exclusiveMinimum": True}]}
    return changed(message, lambda schema: schema["properties"].update(count=old))


@message_mutant("JS-03")
def has_types_of_its_own(message):
    return changed(message, lambda schema: schema["properties"].update(text={"type": "text"}))


@message_mutant("JS-03", revision="2025-11-25")
def asks_with_an_invalid_schema(message):
    if message.get("method") == "elicitation/create" and "requestedSchema" in message["params"]:
        message["params"]["requestedSchema"]["required"] = "name"
    return message


@message_mutant("JS-07")
def leaves_out_that_arguments_are_an_object(message):
    return changed(message, lambda schema: schema.pop("type"))
