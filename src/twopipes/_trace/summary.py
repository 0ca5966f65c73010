"""Summaries of messages: the called tool, the number of items in a list, the text of an error."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, json

from twopipes._protocol.revisions import META_SERVER_INFO
from twopipes._trace.message import Message

# The longest summary. The whole message is available elsewhere.
LONGEST = 160

# The most important member of the params, by method.
_FIRST = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "notifications/resources/updated": "uri",
    "logging/setLevel": "level",
    "elicitation/create": "message",
}
# The lists in results, and the word for one item.
_LISTS = {
    "tools": "tool",
    "resources": "resource",
    "resourceTemplates": "template",
    "prompts": "prompt",
    "roots": "root",
    "tasks": "task",
}


def summary_of(message: Message) -> str:
    """Return a summary of bounded length; empty if there is nothing to show. It may contain any characters of the wire."""
    return _cut(_summary(message))


def is_failure(message: Message) -> bool:
    """Whether a result reports the failure of a tool, with ``isError``."""
    result = message.result
    return isinstance(result, dict) and result.get("isError") is True


def _summary(message: Message) -> str:
    match message.shape:
        case "request" | "notification":
            return _params(message.method, message.params)
        case "result":
            return _result(message.result)
        case "error":
            return _error(message.error)
        case "blank":
            return "a blank line"
        case "batch":
            return "an empty batch" if not message.members else f"a batch of {len(message.members)}"
        case "noise":
            return ""  # the line itself is shown


def _params(method: str | None, params: Any) -> str:
    if not isinstance(params, dict):
        return "" if params is UNSET else _brief(params)
    match method:
        case "initialize":
            return _join(params.get("protocolVersion"), _named(params.get("clientInfo")))
        case "notifications/progress":
            total = params.get("total")
            amount = _join(params.get("progress"), "" if total is None else f"of {_text(total)}")
            return _join(amount, params.get("message"))
        case "notifications/message":
            return _join(params.get("level"), params.get("data"))
        case "tools/call" | "prompts/get":
            return _join(params.get("name"), _arguments(params.get("arguments")), _answers(params.get("inputResponses")))
        case "completion/complete":
            reference, argument = params.get("ref"), params.get("argument")
            words = [_get(reference, "name") or _get(reference, "uri"), _get(argument, "name"), _get(argument, "value")]
            return _join(*words)
        case "sampling/createMessage":
            messages = params.get("messages")
            return _content(_get(messages[-1], "content")) if isinstance(messages, list) and messages else ""
    if "cursor" in params and (method or "").endswith("/list"):
        return "the next page"
    first = _FIRST.get(method or "")
    if method == "notifications/cancelled":
        return _text(params.get("reason") or "")
    if first is not None and params.get(first) is not None:
        return _join(params[first], _answers(params.get("inputResponses")))
    rest = {name: value for name, value in params.items() if name != "_meta"}
    return _brief(rest) if rest else ""


def _result(result: Any) -> str:
    if not isinstance(result, dict):
        return _brief(result)
    if result.get("resultType") == "input_required":
        return _asks(result.get("inputRequests"))
    if isinstance(versions := result.get("supportedVersions"), list):
        supported = ", ".join(_text(version) for version in versions[:8])
        return _join(_named(_get(result.get("_meta"), META_SERVER_INFO)), "supports", supported)
    if "protocolVersion" in result:
        return _join(result["protocolVersion"], _named(result.get("serverInfo")))
    for name, word in _LISTS.items():
        if isinstance(items := result.get(name), list):
            more = " and more" if result.get("nextCursor") else ""
            return f"{len(items)} {word}{'s' * (len(items) != 1)}{more}"
    if "action" in result:
        return _join(result["action"], _arguments(result.get("content")))
    for name in ("content", "contents", "messages"):
        if name in result:
            return _content(result[name])
    if isinstance(completion := result.get("completion"), dict) and isinstance(values := completion.get("values"), list):
        return f"{len(values)} completion{'s' * (len(values) != 1)}"
    rest = {name: value for name, value in result.items() if name not in {"_meta", "resultType", "ttlMs", "cacheScope"}}
    return _brief(rest) if rest else "empty"


def _error(error: Any) -> str:
    return _join(error.get("code"), error.get("message")) if isinstance(error, dict) else _brief(error)


def _asks(requests: Any) -> str:
    if not isinstance(requests, dict):
        return "asks for input"
    asked = [_get(_get(request, "params"), "message") or _get(request, "method") for request in requests.values()]
    return "asks: " + "; ".join(_text(each) for each in asked if each) if any(asked) else "asks for input"


def _answers(responses: Any) -> str:
    if not isinstance(responses, dict):
        return ""
    said = [_get(response, "action") or "answered" for response in responses.values()]
    return f"(input: {', '.join(_text(each) for each in said)})"


def _content(content: Any) -> str:
    """Return the first text of the blocks, and the number of other blocks."""
    blocks = content if isinstance(content, list) else [content]
    # The messages of a prompt contain the blocks.
    blocks = [inner if isinstance(inner := _get(block, "content"), dict) else block for block in blocks]
    texts = [text for block in blocks if isinstance(text := _get(block, "text"), str)]
    if not texts:
        kinds = dict.fromkeys(_text(_get(block, "type") or _get(block, "mimeType") or "block") for block in blocks)
        return ", ".join(kinds) if blocks else "no content"
    rest = len(blocks) - 1
    return texts[0] if not rest else f"{_cut(texts[0])} (and {rest} more)"


def _arguments(arguments: Any) -> str:
    if not isinstance(arguments, dict):
        return ""
    return " ".join(f"{_cut(name)}={_brief(value)}" for name, value in list(arguments.items())[:12])


def _named(info: Any) -> str:
    return _join(_get(info, "name"), _get(info, "version"))


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _join(*words: Any) -> str:
    return " ".join(text for word in words if word is not None and (text := _text(word)))


def _text(value: Any) -> str:
    return _cut(value) if isinstance(value, str) else _brief(value)


def _brief(value: Any) -> str:
    return _cut(json.encode(value).decode())


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
