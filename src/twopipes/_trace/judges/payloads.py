"""Judges of payloads: tools, content, resources, prompts, completion, questions (sections TL, CT, RS, PM, CM, EL and others)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from twopipes._protocol.revisions import CACHEABLE, CONTENT_TYPES, LEGACY, META_CAPABILITIES, MODERN
from twopipes._rules.table import RULES
from twopipes._trace.judges.table import ConnectionState, members_of, rule, shown
from twopipes._trace.message import Message

_LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ROLES = ("user", "assistant")


def _complete(message: Message, state: ConnectionState) -> dict[str, Any]:
    """Return the final result of a call; empty for questions, tasks, and if the revision is not known."""
    call = message.call
    if call is None or call.answer is not message or (revision := state.revision_of(call)) is None:
        return {}
    result = members_of(message.raw_result)
    if revision in MODERN:
        return result if result.get("resultType") == "complete" else {}
    if "task" in result and "task" in members_of(call.request.raw_params):
        return {}
    return result


def _items(result: dict[str, Any], name: str) -> Iterator[str | dict[str, Any]]:
    """Yield the objects in an array of a result, or a sentence for each fault."""
    found = result.get(name, UNSET)
    if not isinstance(found, list):
        yield f"{name} must be an array, not {shown(found)}"
        return
    for number, item in enumerate(found):
        yield item if isinstance(item, dict) else f"{name}[{number}] must be an object, not {shown(item)}"


def _strings(item: dict[str, Any], where: str, *names: str) -> Iterator[str]:
    for name in names:
        if not isinstance(item.get(name), str):
            yield f"{where} needs {name}, a string, but has {shown(item.get(name, UNSET))}"


def _asked_by(message: Message, state: ConnectionState, side: str) -> dict[str, Any] | None:
    """Return the params of a request of one side, if its revision is known and nothing is redacted."""
    if (message.direction == ">") != (side == "client") or message.call is None or state.is_redacted:
        return None
    return members_of(message.raw_params) if state.revision_of(message.call) is not None else None


# Lists


@rule("PG-01", "result", by="server", methods=_LISTS)
def next_cursor(message: Message, state: ConnectionState) -> Iterator[str]:
    """A cursor is a string."""
    cursor = _complete(message, state).get("nextCursor")
    if cursor is not None and not isinstance(cursor, str):
        yield f"nextCursor must be a string, not {shown(cursor)}"


@rule("CH-01", "result", by="server", methods=CACHEABLE)
def for_how_long(message: Message, state: ConnectionState) -> Iterator[str]:
    """Cacheable results have caching hints."""
    result = _complete(message, state)
    if result and message.call is not None and state.revision_of(message.call) in MODERN:
        missing = [name for name in ("ttlMs", "cacheScope") if name not in result]
        if missing:
            yield f"the result of {message.call.method} has no {' and no '.join(missing)}"


@rule("CH-02", "result", by="server", methods=CACHEABLE)
def shape_of_caching(message: Message, state: ConnectionState) -> Iterator[str]:
    """Caching hints have the right types."""
    result = _complete(message, state)
    if not result or message.call is None or state.revision_of(message.call) not in MODERN:
        return
    lifetime, scope = result.get("ttlMs", 0), result.get("cacheScope", "public")
    if not isinstance(lifetime, int) or isinstance(lifetime, bool) or lifetime < 0:
        yield f"ttlMs must be an integer of at least 0, not {shown(lifetime)}"
    if scope not in ("public", "private"):
        yield f"cacheScope must be public or private, not {shown(scope)}"


@rule("TL-01", "result", by="server", methods=("tools/list",))
def shape_of_tools(message: Message, state: ConnectionState) -> Iterator[str]:
    """A tool has a name and an object schema."""
    result = _complete(message, state)
    for tool in _items(result, "tools") if result else ():
        if isinstance(tool, str):
            yield tool
            continue
        yield from _strings(tool, "a tool", "name")
        schema = tool.get("inputSchema", UNSET)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f'the inputSchema of {shown(tool.get("name"))} must have "type":"object", and is {shown(schema)}'


@rule("TL-15", "result", by="server", methods=("tools/list",))
def names_of_tools(message: Message, state: ConnectionState) -> Iterator[str]:
    """Only the permitted characters, and each name once."""
    tools = _complete(message, state).get("tools", [])
    names = [tool.get("name") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    for name in names:
        if isinstance(name, str) and not _TOOL_NAME.fullmatch(name):
            yield f"the tool {shown(name)} has a name with characters other than A-Z a-z 0-9 _ - ."
    for name in (name for name in names if isinstance(name, str) and names.count(name) > 1) if len(names) < _MANY else ():
        yield f"two tools have the name {shown(name)}"


_MANY = 2000
_MOST_COMPLETIONS = 100


@rule("RS-01", "result", by="server", methods=("resources/list", "resources/templates/list"))
def shape_of_resources(message: Message, state: ConnectionState) -> Iterator[str]:
    """A resource has a URI and a name."""
    result = _complete(message, state)
    if not result or message.call is None:
        return
    is_template = message.call.method == "resources/templates/list"
    for item in _items(result, "resourceTemplates" if is_template else "resources"):
        if isinstance(item, str):
            yield item
        else:
            yield from _strings(
                item, "a template" if is_template else "a resource", "uriTemplate" if is_template else "uri", "name"
            )


@rule("PM-01", "result", by="server", methods=("prompts/list",))
def shape_of_prompts(message: Message, state: ConnectionState) -> Iterator[str]:
    """A prompt and its arguments have names."""
    result = _complete(message, state)
    for prompt in _items(result, "prompts") if result else ():
        if isinstance(prompt, str):
            yield prompt
            continue
        yield from _strings(prompt, "a prompt", "name")
        for argument in _items(prompt, "arguments") if prompt.get("arguments") is not None else ():
            yield from [argument] if isinstance(argument, str) else _strings(argument, "an argument of a prompt", "name")


# Calls and what they return


@rule("TL-02", "request", by="client", methods=("tools/call",))
def shape_of_a_call(message: Message, state: ConnectionState) -> Iterator[str]:
    """A call names its tool."""
    params = _asked_by(message, state, "client")
    if params is None:
        return
    yield from _strings(params, "tools/call", "name")
    if not isinstance(params.get("arguments", {}), dict):
        yield f"arguments must be an object, not {shown(params['arguments'])}"


@rule("TL-03", "result", by="server", methods=("tools/call",))
def shape_of_a_tool_result(message: Message, state: ConnectionState) -> Iterator[str]:
    """A tool result has content, which may be empty."""
    if not memoryview(message.raw_result).nbytes or message.call is None or state.revision_of(message.call) is None:
        return
    result = _complete(message, state)
    is_legacy = state.revision_of(message.call) in LEGACY
    if not result and (not is_legacy or members_of(message.raw_result)):
        return
    if not isinstance(result.get("content"), list):
        yield f"content must be an array, not {shown(result.get('content', UNSET))}"
    if not isinstance(result.get("isError", False), bool):
        yield f"isError must be a boolean, not {shown(result['isError'])}"


@rule("TL-10", "result", by="server", methods=("tools/call",))
def structured_content(message: Message, state: ConnectionState) -> Iterator[str]:
    """A tool with an output schema returns structured content."""
    result = _complete(message, state)
    if not result or result.get("isError") or "structuredContent" in result or message.call is None or state.is_redacted:
        return
    name = members_of(message.call.request.raw_params).get("name")
    if isinstance(name, str) and name in state.output_schemas:
        yield f"the tool {shown(name)} has an outputSchema, but its result has no structuredContent"


@rule("TL-11", "result", by="server", methods=("tools/call",))
def structured_object(message: Message, state: ConnectionState) -> Iterator[str]:
    """``structuredContent`` is an object."""
    result = _complete(message, state)
    if not isinstance(result.get("structuredContent", {}), dict):
        yield f"structuredContent must be an object, not {shown(result['structuredContent'])}"


_BLOCK_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


def _blocks(message: Message, state: ConnectionState) -> Iterator[tuple[Any, str]]:
    """Yield each content block of a result, with its revision."""
    result = _complete(message, state)
    if not result or message.call is None:
        return
    revision = state.revision_of(message.call) or ""
    if message.call.method == "tools/call":
        found = result.get("content")
    else:
        messages = result.get("messages")
        found = [entry.get("content") for entry in messages if isinstance(entry, dict)] if isinstance(messages, list) else None
    for block in found if isinstance(found, list) else ():
        yield block, revision


@rule("CT-01", "result", by="server", methods=("tools/call", "prompts/get"))
def shape_of_content(message: Message, state: ConnectionState) -> Iterator[str]:
    """Blocks have a known type and its members."""
    for block, _ in _blocks(message, state):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            if message.call is not None and message.call.method == "tools/call":
                yield f"a block of content is an object with a type, not {shown(block)}"
            continue
        kind = block["type"]
        if kind not in CONTENT_TYPES and not _may_be_extended(message):
            yield f"content of type {shown(kind)}, which no revision has"
        yield from _strings(block, f"content of type {kind}", *_BLOCK_MEMBERS.get(kind, ()))
        resource = block.get("resource")
        if kind == "resource" and not (isinstance(resource, dict) and isinstance(resource.get("uri"), str)):
            yield f"an embedded resource needs resource.uri, and has {shown(block.get('resource', UNSET))}"


def _may_be_extended(message: Message) -> bool:
    """Return whether the client declared extensions, which may have their own content types."""
    capabilities = message.call.request.meta.get(META_CAPABILITIES) if message.call is not None else None
    return isinstance(capabilities, dict) and bool(capabilities.get("extensions"))


@rule("CT-02", "result", by="server", methods=("tools/call", "prompts/get"))
def content_of_the_revision(message: Message, state: ConnectionState) -> Iterator[str]:
    """Block types exist in the revision."""
    for block, revision in _blocks(message, state):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and kind in CONTENT_TYPES and not CONTENT_TYPES[kind].has(revision):
            yield f"content of type {kind}, which {revision} does not have"


@rule("CT-03", "result", by="server", methods=("tools/call", "prompts/get", "resources/read"))
def base64(message: Message, state: ConnectionState) -> Iterator[str]:
    """Binary data is base64."""
    held = [(block, "data") for block, _ in _blocks(message, state) if isinstance(block, dict)]
    contents = _complete(message, state).get("contents")
    held += [(item, "blob") for item in contents if isinstance(item, dict)] if isinstance(contents, list) else []
    for item, name in held:
        if name == "data" and item.get("type") not in ("image", "audio"):
            continue
        data = item.get(name)
        if isinstance(data, str) and not _is_base64(data):
            yield f"{name} is not base64: {shown(data)}"


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


@rule("RS-02", "result", by="server", methods=("resources/read",))
def shape_of_contents(message: Message, state: ConnectionState) -> Iterator[str]:
    """Contents have a URI, and text or a blob."""
    result = _complete(message, state)
    for item in _items(result, "contents") if result else ():
        if isinstance(item, str):
            yield item
            continue
        yield from _strings(item, "contents", "uri")
        if not isinstance(item.get("text"), str) and not isinstance(item.get("blob"), str):
            yield "contents with neither text nor blob"


# The required params of requests that no other rule covers.
_NEEDED = {
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
    "logging/setLevel": "level",
    "tasks/get": "taskId",
    "tasks/result": "taskId",
    "tasks/cancel": "taskId",
}


@rule("FR-05", "request", by="client", methods=tuple(_NEEDED))
def half_a_request(message: Message, state: ConnectionState) -> Iterator[str]:
    """A request has the params that its method requires."""
    params = _asked_by(message, state, "client")
    if params is not None:
        yield from _strings(params, message.method or "", _NEEDED[message.method or ""])


@rule("PM-02", "request", by="client", methods=("prompts/get",))
def arguments_of_prompts(message: Message, state: ConnectionState) -> Iterator[str]:
    """Arguments of prompts are strings."""
    params = _asked_by(message, state, "client")
    if params is None:
        return
    yield from _strings(params, "prompts/get", "name")
    arguments = params.get("arguments", {})
    if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
        yield f"the arguments of a prompt are strings, not {shown(arguments)}"


@rule("PM-03", "result", by="server", methods=("prompts/get",))
def messages_of_prompts(message: Message, state: ConnectionState) -> Iterator[str]:
    """A prompt message has a role and one block."""
    result = _complete(message, state)
    for item in _items(result, "messages") if result else ():
        if isinstance(item, str):
            yield item
        elif item.get("role") not in _ROLES or not isinstance(item.get("content"), dict):
            yield f"a message of a prompt has a role and one block of content, not {shown(item)}"


@rule("CM-01", "request", by="client", methods=("completion/complete",))
def shape_of_completion(message: Message, state: ConnectionState) -> Iterator[str]:
    """A completion request has ref and argument."""
    params = _asked_by(message, state, "client")
    if params is None:
        return
    match params.get("ref"):
        case {"type": "ref/prompt", "name": str()} | {"type": "ref/resource", "uri": str()}:
            pass
        case other:
            yield f"ref names a prompt or a resource, not {shown(other)}"
    match params.get("argument"):
        case {"name": str(), "value": str()}:
            pass
        case other:
            yield f"argument has a name and a value, both strings, not {shown(other)}"
    if message.call is None or not RULES["CM-04"].applies_in(state.revision_of(message.call) or ""):
        return  # before CM-04 the member context has no meaning, so it may hold anything
    context = params.get("context", {})
    arguments = context.get("arguments", {}) if isinstance(context, dict) else context
    if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
        yield f"context has resolved arguments, all strings, not {shown(context)}"


@rule("CM-02", "result", by="server", methods=("completion/complete",))
def completions(message: Message, state: ConnectionState) -> Iterator[str]:
    """At most 100 completions, all strings."""
    result = _complete(message, state)
    if not result:
        return
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        yield f"completion.values must be an array of strings, not {shown(values)}"
    elif len(values) > _MOST_COMPLETIONS:
        yield f"{len(values)} completions; {_MOST_COMPLETIONS} is the most"


# Questions and answers


@rule("SA-01", "request", by="server", methods=("sampling/createMessage",))
def shape_of_sampling(message: Message, state: ConnectionState) -> Iterator[str]:
    """A sampling request has messages and maxTokens."""
    params = _asked_by(message, state, "server")
    if params is None:
        return
    if not isinstance(params.get("messages"), list):
        yield f"messages must be an array, not {shown(params.get('messages', UNSET))}"
    if not isinstance(params.get("maxTokens"), int):
        yield f"maxTokens must be an integer, not {shown(params.get('maxTokens', UNSET))}"


@rule("SA-02", "result", by="client", methods=("sampling/createMessage",))
def shape_of_a_sample(message: Message, state: ConnectionState) -> Iterator[str]:
    """A sampling result has role, model and content."""
    result = _complete(message, state)
    if result and message.direction == ">":
        yield from _strings(result, "a sample", "role", "model")
        if "content" not in result:
            yield "a sample without content"


@rule("RT-01", "result", by="client", methods=("roots/list",))
def shape_of_roots(message: Message, state: ConnectionState) -> Iterator[str]:
    """Roots are file URIs."""
    result = _complete(message, state)
    if message.direction != ">" or not result:
        return
    for root in _items(result, "roots"):
        if isinstance(root, str):
            yield root
        elif not isinstance(root.get("uri"), str) or not root["uri"].startswith("file://"):
            yield f"a root has a URI that begins with file://, not {shown(root.get('uri', UNSET))}"


@rule("EL-01", "request", by="server", methods=("elicitation/create",))
def shape_of_a_question(message: Message, state: ConnectionState) -> Iterator[str]:
    """A form has a message and a flat schema."""
    params = _asked_by(message, state, "server")
    if params is None or params.get("mode", "form") != "form":
        return
    yield from _strings(params, "a question", "message")
    match params.get("requestedSchema"):
        case {"type": "object", "properties": dict(properties)}:
            for name, schema in properties.items():
                if isinstance(schema, dict) and (schema.get("type") == "object" or "properties" in schema):
                    yield f"the form is not flat: {shown(name)}"
        case other:
            yield f"requestedSchema describes an object with properties, and is {shown(other)}"


@rule("EL-06", "result", by="client", methods=("elicitation/create",))
def shape_of_a_reply(message: Message, state: ConnectionState) -> Iterator[str]:
    """An answer has one of three actions."""
    result = _complete(message, state)
    if message.direction == ">" and result and result.get("action") not in ("accept", "decline", "cancel"):
        yield f"action is accept, decline or cancel, not {shown(result.get('action', UNSET))}"
