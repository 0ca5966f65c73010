"""The differences that a server may have on the wire after its migration. Each tolerance is a row of a page, with the reason."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple


class Exchange(NamedTuple):
    """A message before the migration, and its counterpart after it.

    Attributes:
        what: A name for people.
        method: Of the request or the notification.
        params: Of the request.
        before: A response as ``{"result": ...}`` or ``{"error": ...}``, with the ``progress`` before it; the params of a question;
            or the notifications that belong to no request.
        after: The same, after the migration.
        is_modern: Whether it was sent on the stateless wire.
    """

    what: str
    method: str
    params: dict[str, Any]
    before: Any
    after: Any
    is_modern: bool

    def both(self, change: Callable[[Any], None]) -> "Exchange":
        """Return an exchange with a change made to copies of both sides."""
        before, after = deepcopy((self.before, self.after))
        change(before)
        change(after)
        return self._replace(before=before, after=after)

    def settled(self) -> "Exchange":
        """Return an exchange that has no differences left."""
        return self._replace(before=None, after=None)


Tolerance = Callable[[Exchange], Exchange]


def compared(exchange: Exchange, tolerances: dict[str, Tolerance]) -> tuple[Exchange, list[str]]:
    """Return the rest of an exchange after all tolerances, and the tolerances that changed something."""
    used = []
    for name, tolerate in tolerances.items():
        if exchange.before == exchange.after:
            break
        tolerated = tolerate(exchange)
        if (tolerated.before, tolerated.after) != (exchange.before, exchange.after):
            used.append(name)
        exchange = tolerated
    return exchange, used


# Identity and descriptions


def capabilities(exchange: Exchange) -> Exchange:
    """Capabilities may be added; only extensions without content may be removed."""
    if exchange.method not in {"initialize", "server/discover"}:
        return exchange
    could, can = (side["result"]["capabilities"] for side in (exchange.before, exchange.after))
    for feature, details in could.items():
        if feature in {"experimental", "extensions"}:
            assert not any(details.values()), details
        else:
            assert {name for name, value in details.items() if value} <= {name for name, value in can[feature].items() if value}
    if exchange.method == "server/discover":
        assert set(exchange.before["result"]["supportedVersions"]) <= set(exchange.after["result"]["supportedVersions"])

    def forget(side: Any) -> None:
        for name in ("capabilities", "supportedVersions"):
            side["result"].pop(name, None)

    return exchange.both(forget)


def version(exchange: Exchange) -> Exchange:
    """The version of a library was used as that of the server."""
    if exchange.method != "initialize":
        return exchange
    return exchange.both(lambda side: side["result"]["serverInfo"].pop("version"))


def fastmcp_meta(exchange: Exchange) -> Exchange:
    """Tags, and a mark on results that were wrapped."""

    def forget(value: Any) -> None:
        if isinstance(value, dict):
            meta = value.get("_meta")
            if isinstance(meta, dict) and meta.pop("fastmcp", None) is not None and not meta:
                del value["_meta"]
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            forget(each)

    return exchange.both(forget)


def titles(exchange: Exchange) -> Exchange:
    """``find_notes`` had the title Find Notes, which adds nothing to the name."""
    if exchange.method != "tools/list":
        return exchange
    before, after = deepcopy((exchange.before, exchange.after))
    for tool in before["result"]["tools"]:
        if tool["title"] == tool["name"].replace("_", " ").title():
            del tool["title"]
    return exchange._replace(before=before, after=after)


def schemas(exchange: Exchange) -> Exchange:
    """Equivalent schemas: titles made of names, and definitions written in place or referred to."""

    def reword(side: Any) -> None:
        for holder in holders(side):
            for name in ("inputSchema", "outputSchema", "requestedSchema"):
                if name in holder:
                    holder[name] = meaning(holder[name], holder[name].get("$defs", {}))

    return exchange.both(reword)


def holders(side: Any) -> Iterator[Any]:
    """Yield all objects that may have a schema: tools, and questions, in requests or results."""
    if isinstance(side, dict):
        result = side.get("result", {})
        yield side
        yield from result.get("tools", ())
        yield from (question["params"] for question in result.get("inputRequests", ()))


def meaning(schema: Any, definitions: dict[str, Any]) -> Any:
    """Return a JSON Schema without the keywords that do not constrain values."""
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
        schema = {**definitions[schema["$ref"].removeprefix("#/$defs/")], **beside}
    found = {}
    for keyword, value in schema.items():
        if keyword in {"title", "$defs", "x-fastmcp-wrap-result"} or (keyword == "properties" and not value):
            continue
        if keyword == "properties":
            found[keyword] = {name: meaning(each, definitions) for name, each in value.items()}
        elif keyword in {"anyOf", "oneOf", "allOf"}:
            found[keyword] = [meaning(each, definitions) for each in value]
        else:
            found[keyword] = meaning(value, definitions)
    return found


def nothing_said(exchange: Exchange) -> Exchange:
    """``isError: false`` and an empty list of arguments mean the same as no member."""

    def forget(side: Any) -> None:
        result = side.get("result", {})
        if result.get("isError") is False:
            del result["isError"]
        for prompt in result.get("prompts", ()):
            if prompt.get("arguments") == []:
                del prompt["arguments"]

    return exchange.both(forget) if exchange.method in {"tools/call", "prompts/list"} else exchange


def prompt_hints(exchange: Exchange) -> Exchange:
    """The schema of an argument was appended to the author's description."""

    def forget(side: Any) -> None:
        for prompt in side["result"]["prompts"]:
            for argument in prompt.get("arguments", ()):
                if "description" in argument:
                    argument["description"] = argument["description"].partition("\n\nProvide a value matching")[0]

    return exchange.both(forget) if exchange.method == "prompts/list" else exchange


def completions(exchange: Exchange) -> Exchange:
    """The total number is now included."""

    def forget(side: Any) -> None:
        completion = side["result"]["completion"]
        assert completion.pop("total", len(completion["values"])) == len(completion["values"])
        assert not completion.pop("hasMore", False)

    return exchange.both(forget) if exchange.method == "completion/complete" else exchange


# Results


def text_of_structured(exchange: Exchange) -> Exchange:
    """The text beside a structured result is that result as JSON, or its only member, whole or item by item."""

    def forget(side: Any) -> None:
        result = side.get("result", {})
        if "structuredContent" not in result or any(block["type"] != "text" for block in result["content"]):
            return
        structured = result["structuredContent"]
        value = structured["result"] if list(structured) == ["result"] else structured
        texts = [read(block["text"]) for block in result["content"]]
        if texts in ([structured], [value], value):
            result["content"] = "the structured content"

    return exchange.both(forget) if exchange.method == "tools/call" else exchange


def read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def log_messages(exchange: Exchange) -> Exchange:
    """The author's message was a member of an object, next to an empty ``extra``."""

    def unpack(notifications: Any) -> None:
        for method, params in notifications:
            if method == "notifications/message" and isinstance(params["data"], dict):
                assert params["data"]["extra"] is None
                params["data"] = params["data"]["msg"]

    return exchange.both(unpack) if exchange.method == "notifications" else exchange


def questions_on_the_stateless_wire(exchange: Exchange) -> Exchange:
    """They were an error, and now they are asked."""
    if exchange.is_modern and text_of_failure(exchange.before) and exchange.after["result"].get("resultType") == "input_required":
        return exchange.settled()
    return exchange


def state_on_the_stateless_wire(exchange: Exchange) -> Exchange:
    """State was lost with the request; now it lives as long as the process."""
    if exchange.is_modern and exchange.params.get("name") == "finish" and not exchange.params["arguments"]:
        assert text_of_failure(exchange.before)
        assert exchange.after["result"]["structuredContent"]["number"] == 2
        return exchange.settled()
    return exchange


# Errors


def text_of_failure(side: Any) -> str:
    """Return the text of a failed call, or an empty string."""
    result = side.get("result", {}) if isinstance(side, dict) else {}
    return result["content"][0]["text"] if result.get("isError") else ""


def code_of(side: Any) -> int | None:
    """Return the code of an error response, or None."""
    return side["error"]["code"] if isinstance(side, dict) and "error" in side else None


def with_the_error_after(exchange: Exchange, *members: str) -> Exchange:
    """Replace some members of the old error by those of the new one."""
    taken = {name: exchange.after["error"][name] for name in members}
    return exchange._replace(before={**exchange.before, "error": {**exchange.before["error"], **taken}})


def unknown_tool(exchange: Exchange) -> Exchange:
    """A protocol error, not a result."""
    if "Unknown tool" in text_of_failure(exchange.before):
        assert code_of(exchange.after) == -32602
        return exchange.settled()
    return exchange


def unknown_resource(exchange: Exchange) -> Exchange:
    """-32002 in a session and -32602 on the stateless wire, with the URI."""
    if exchange.method == "resources/read" and code_of(exchange.after) == (-32602 if exchange.is_modern else -32002):
        assert code_of(exchange.before) in {0, -32602, -32603}
        assert exchange.after["error"]["data"] == {"uri": exchange.params["uri"]}
        return with_the_error_after(exchange, "code", "data")
    return exchange


def prompt_that_cannot_be(exchange: Exchange) -> Exchange:
    """-32602 for a prompt that does not exist and for an argument that is missing."""
    if exchange.method == "prompts/get" and code_of(exchange.after) == -32602 and code_of(exchange.before) in {0, -32603}:
        return with_the_error_after(exchange, "code")
    return exchange


def code_zero(exchange: Exchange) -> Exchange:
    """-32603 for a function that failed; 0 is not an error code."""
    if code_of(exchange.before) == 0 and code_of(exchange.after) == -32603:
        return with_the_error_after(exchange, "code")
    return exchange


def name_of_the_tool(exchange: Exchange) -> Exchange:
    """It came before the author's message."""
    said = text_of_failure(exchange.after)
    if said and text_of_failure(exchange.before) == f"Error executing tool {exchange.params['name']}: {said}":
        return exchange.both(lambda side: side["result"].pop("content"))
    return exchange


def arguments_of_another_type(exchange: Exchange) -> Exchange:
    """A number sent as a string was accepted."""
    if "Expected `integer`, got `string`" in text_of_failure(exchange.after) and not text_of_failure(exchange.before):
        assert "1" in exchange.params["arguments"].values()
        return exchange.settled()
    return exchange


def unknown_arguments(exchange: Exchange) -> Exchange:
    """They were ignored, and are now refused."""
    if "Unknown argument" in text_of_failure(exchange.after) and not text_of_failure(exchange.before):
        return exchange.settled()
    if exchange.method == "tools/list":
        before, after = deepcopy((exchange.before, exchange.after))
        for was, tool in zip(before["result"]["tools"], after["result"]["tools"], strict=True):
            if "additionalProperties" not in was["inputSchema"] and tool["inputSchema"].get("additionalProperties") is False:
                del tool["inputSchema"]["additionalProperties"]
        return exchange._replace(before=before, after=after)
    return exchange


# The beginnings of our own messages. The author's messages are compared in full.
_OURS = ("Invalid arguments for {name}: ", "Invalid arguments for {name}:\n", "The tool {name} failed: ", "Prompt {name} needs ")
_OURS_TOO = ("Unknown prompt: {name}", "Unknown resource: {uri}", "Internal error")


def words(exchange: Exchange) -> Exchange:
    """Our own error messages; the author's messages are compared."""
    named = {"name": exchange.params.get("name"), "uri": exchange.params.get("uri")}
    ours = tuple(words.format(**named) for words in _OURS + _OURS_TOO)
    if text_of_failure(exchange.before) and text_of_failure(exchange.after).startswith(ours):
        return exchange.both(lambda side: side["result"].pop("content"))
    if code_of(exchange.before) == code_of(exchange.after) is not None and exchange.after["error"]["message"].startswith(ours):
        return with_the_error_after(exchange, "message")
    return exchange


_FOR_ALL: dict[str, Tolerance] = {
    "What the server can do": capabilities,
    "Schemas": schemas,
    "What says nothing": nothing_said,
    "Completions": completions,
    "Structured results as text": text_of_structured,
    "A tool that does not exist": unknown_tool,
    "A resource that does not exist": unknown_resource,
    "A prompt that cannot be made": prompt_that_cannot_be,
    "Arguments of another type": arguments_of_another_type,
}
# The messages come last: then nothing else differs.
FASTMCP: dict[str, Tolerance] = {
    **_FOR_ALL,
    "FastMCP's `_meta`": fastmcp_meta,
    "Titles made of names": titles,
    "Schemas of prompt arguments": prompt_hints,
    "Log messages": log_messages,
    "Questions on the stateless wire": questions_on_the_stateless_wire,
    "State on the stateless wire": state_on_the_stateless_wire,
    "Words": words,
}
OFFICIAL: dict[str, Tolerance] = {
    **_FOR_ALL,
    "The server's version": version,
    "Unknown arguments": unknown_arguments,
    "The tool's name before its words": name_of_the_tool,
    "The code 0": code_zero,
    "Words": words,
}
