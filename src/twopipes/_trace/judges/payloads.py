"""Judges of payloads: tools, content, resources, prompts, completion, questions (sections TL, CT, RS, PM, CM, EL and others)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from twopipes._protocol.revisions import CACHEABLE, CONTENT_TYPES, LEGACY, MODERN
from twopipes._rules.table import RULES
from twopipes._trace.conversation import Call
from twopipes._trace.judges.table import ConnectionState, has_extensions, rule
from twopipes._trace.judges.values import Faults, Members, is_json, members_of, objects_in, shown, wrong_types
from twopipes._trace.message import Message, Side

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ROLES = ("user", "assistant")
_MANY = 2000
_MOST_COMPLETIONS = 100
# The lists of objects in results: the member, what one object is, and the strings that it needs.
_LISTS = {
    "tools/list": ("tools", "a tool", ("name",)),
    "prompts/list": ("prompts", "a prompt", ("name",)),
    "resources/list": ("resources", "a resource", ("uri", "name")),
    "resources/templates/list": ("resourceTemplates", "a template", ("uriTemplate", "name")),
    "resources/read": ("contents", "contents", ("uri",)),
}

_Payload = Callable[[Members, Call, ConnectionState], Faults]


def _of_request(rule_id: str, side: Side, *methods: str) -> Callable[[_Payload], None]:
    """Register a judge of the params of requests whose revision is known."""

    def enter(function: _Payload) -> None:
        @rule(rule_id, "request", by=side, methods=methods, needs_values=True)
        def judge(message: Message, state: ConnectionState) -> Faults:
            if message.call is None or state.revision_of(message.call) is None:
                return ()
            return function(members_of(message.raw_params), message.call, state)

    return enter


def _of_result(rule_id: str, side: Side, *methods: str, needs_values: bool = False) -> Callable[[_Payload], None]:
    """Register a judge of final results."""

    def enter(function: _Payload) -> None:
        @rule(rule_id, "result", by=side, methods=methods, needs_values=needs_values)
        def judge(message: Message, state: ConnectionState) -> Faults:
            result = _complete(message, state)
            return function(result, message.call, state) if result and message.call is not None else ()

    return enter


def _complete(message: Message, state: ConnectionState) -> Members:
    """Return the final result of a call; empty for questions, tasks, and if the revision is not known."""
    call = message.call
    if call is None or call.answer is not message or (revision := state.revision_of(call)) is None:
        return {}
    result = members_of(message.raw_result)
    if revision in MODERN:
        return result if result.get("resultType") == "complete" else {}
    return {} if "task" in result and "task" in members_of(call.request.raw_params) else result


def _array(members: Members, name: str) -> Faults:
    """Yield the faults of an array of objects."""
    yield from wrong_types(members, list, name)
    found = members.get(name)
    for number, item in enumerate(found if isinstance(found, list) else ()):
        if not isinstance(item, dict):
            yield f"{name}[{number}] must be an object, not {shown(item)}"


def _listed(result: Members, method: str) -> Faults:
    """Yield the faults of a list, and of the strings in its objects."""
    name, what, strings = _LISTS[method]
    yield from _array(result, name)
    for item in objects_in(result, name):
        yield from _strings(item, what, *strings)


def _strings(item: Members, where: str, *names: str) -> Faults:
    for name in names:
        if not isinstance(item.get(name), str):
            yield f"{where} needs {name}, a string, but has {shown(item.get(name, UNSET))}"


def _maps_to_strings(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(member, str) for member in value.values())


# Lists


@_of_result("PG-01", "server", "tools/list", "prompts/list", "resources/list", "resources/templates/list")
def next_cursor(result: Members, call: Call, state: ConnectionState) -> Faults:
    return wrong_types(result, str, "nextCursor") if result.get("nextCursor") is not None else ()


@_of_result("CH-01", "server", *CACHEABLE)
def has_caching_hints(result: Members, call: Call, state: ConnectionState) -> Faults:
    if missing := [name for name in ("ttlMs", "cacheScope") if name not in result]:
        yield f"the result of {call.method} has no {' and no '.join(missing)}"


@_of_result("CH-02", "server", *CACHEABLE)
def shape_of_caching_hints(result: Members, call: Call, state: ConnectionState) -> Faults:
    lifetime, scope = result.get("ttlMs", 0), result.get("cacheScope", "public")
    if not is_json(lifetime, int) or lifetime < 0:
        yield f"ttlMs must be an integer of at least 0, not {shown(lifetime)}"
    if scope not in ("public", "private"):
        yield f"cacheScope must be public or private, not {shown(scope)}"


@_of_result("TL-01", "server", "tools/list")
def shape_of_tools(result: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _listed(result, call.method)
    for tool in objects_in(result, "tools"):
        schema = tool.get("inputSchema", UNSET)
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f'the inputSchema of {shown(tool.get("name"))} must have "type":"object", and is {shown(schema)}'


@_of_result("TL-15", "server", "tools/list")
def names_of_tools(result: Members, call: Call, state: ConnectionState) -> Faults:
    names = [tool["name"] for tool in objects_in(result, "tools") if isinstance(tool.get("name"), str)]
    for name in names:
        if not _TOOL_NAME.fullmatch(name):
            yield f"the tool {shown(name)} has a name with characters other than A-Z a-z 0-9 _ - ."
    for name in names if len(names) < _MANY else ():
        if names.count(name) > 1:
            yield f"two tools have the name {shown(name)}"


@_of_result("RS-01", "server", "resources/list", "resources/templates/list")
def shape_of_resources(result: Members, call: Call, state: ConnectionState) -> Faults:
    return _listed(result, call.method)


@_of_result("PM-01", "server", "prompts/list")
def shape_of_prompts(result: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _listed(result, call.method)
    for prompt in objects_in(result, "prompts"):
        if prompt.get("arguments") is not None:
            yield from _array(prompt, "arguments")
        for argument in objects_in(prompt, "arguments"):
            yield from _strings(argument, "an argument of a prompt", "name")


# Calls and their results


@_of_request("TL-02", "client", "tools/call")
def shape_of_a_call(params: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _strings(params, "tools/call", "name")
    yield from wrong_types(params, dict, "arguments", optional=True)


@rule("TL-03", "result", by="server", methods=("tools/call",))
def shape_of_a_tool_result(message: Message, state: ConnectionState) -> Faults:
    result = _complete(message, state)
    # In legacy revisions an empty object is a final result too.
    is_empty = bytes(message.raw_result) and not members_of(message.raw_result)
    if result or (is_empty and message.call is not None and state.revision_of(message.call) in LEGACY):
        yield from wrong_types(result, list, "content")
        yield from wrong_types(result, bool, "isError", optional=True)


@_of_result("TL-10", "server", "tools/call", needs_values=True)
def structured_content(result: Members, call: Call, state: ConnectionState) -> Faults:
    name = members_of(call.request.raw_params).get("name")
    if result.get("isError") or "structuredContent" in result or not isinstance(name, str):
        return
    if name in state.output_schemas:
        yield f"the tool {shown(name)} has an outputSchema, but its result has no structuredContent"


@_of_result("TL-11", "server", "tools/call")
def structured_object(result: Members, call: Call, state: ConnectionState) -> Faults:
    return wrong_types(result, dict, "structuredContent", optional=True)


_BLOCK_MEMBERS = {"text": ("text",), "image": ("data", "mimeType"), "audio": ("data", "mimeType"), "resource_link": ("uri", "name")}


def _blocks(result: Members, call: Call) -> list[Any]:
    """Return the content blocks of a result."""
    if call.method != "tools/call":
        return [message.get("content") for message in objects_in(result, "messages")]
    return result["content"] if isinstance(result.get("content"), list) else []


@_of_result("CT-01", "server", "tools/call", "prompts/get")
def shape_of_content(result: Members, call: Call, state: ConnectionState) -> Faults:
    for block in _blocks(result, call):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            if call.method == "tools/call":  # else PM-03
                yield f"a block of content is an object with a type, not {shown(block)}"
            continue
        kind = block["type"]
        if kind not in CONTENT_TYPES and not has_extensions(call):
            yield f"content of type {shown(kind)}, which no revision has"
        yield from _strings(block, f"content of type {kind}", *_BLOCK_MEMBERS.get(kind, ()))
        resource = block.get("resource", UNSET)
        if kind == "resource" and not (isinstance(resource, dict) and isinstance(resource.get("uri"), str)):
            yield f"an embedded resource needs resource.uri, and has {shown(resource)}"


@_of_result("CT-02", "server", "tools/call", "prompts/get")
def content_of_the_revision(result: Members, call: Call, state: ConnectionState) -> Faults:
    revision = state.revision_of(call) or ""
    for block in _blocks(result, call):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and kind in CONTENT_TYPES and not CONTENT_TYPES[kind].has(revision):
            yield f"content of type {kind}, which {revision} does not have"


@_of_result("CT-03", "server", "tools/call", "prompts/get", "resources/read")
def base64(result: Members, call: Call, state: ConnectionState) -> Faults:
    pictures = [block for block in _blocks(result, call) if isinstance(block, dict) and block.get("type") in ("image", "audio")]
    held = [("data", block.get("data")) for block in pictures]
    for name, data in [*held, *(("blob", item.get("blob")) for item in objects_in(result, "contents"))]:
        if isinstance(data, str) and not _is_base64(data):
            yield f"{name} is not base64: {shown(data)}"


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except ValueError:
        return False
    return True


@_of_result("RS-02", "server", "resources/read")
def shape_of_contents(result: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _listed(result, call.method)
    for item in objects_in(result, "contents"):
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


@_of_request("FR-05", "client", *_NEEDED)
def half_a_request(params: Members, call: Call, state: ConnectionState) -> Faults:
    return _strings(params, call.method, _NEEDED[call.method])


@_of_request("PM-02", "client", "prompts/get")
def arguments_of_prompts(params: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _strings(params, "prompts/get", "name")
    arguments = params.get("arguments", {})
    if not _maps_to_strings(arguments):
        yield f"the arguments of a prompt are strings, not {shown(arguments)}"


@_of_result("PM-03", "server", "prompts/get")
def messages_of_prompts(result: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _array(result, "messages")
    for item in objects_in(result, "messages"):
        if item.get("role") not in _ROLES or not isinstance(item.get("content"), dict):
            yield f"a message of a prompt has a role and one block of content, not {shown(item)}"


@_of_request("CM-01", "client", "completion/complete")
def shape_of_completion(params: Members, call: Call, state: ConnectionState) -> Faults:
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
    if not RULES["CM-04"].applies_in(state.revision_of(call) or ""):
        return  # before CM-04 the member context has no meaning, so it may hold anything
    context = params.get("context", {})
    if not isinstance(context, dict) or not _maps_to_strings(context.get("arguments", {})):
        yield f"context has resolved arguments, all strings, not {shown(context)}"


@_of_result("CM-02", "server", "completion/complete")
def completions(result: Members, call: Call, state: ConnectionState) -> Faults:
    completion = result.get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        yield f"completion.values must be an array of strings, not {shown(values)}"
    elif len(values) > _MOST_COMPLETIONS:
        yield f"{len(values)} completions; {_MOST_COMPLETIONS} is the most"


# Questions and answers


@_of_request("SA-01", "server", "sampling/createMessage")
def shape_of_sampling(params: Members, call: Call, state: ConnectionState) -> Faults:
    yield from wrong_types(params, list, "messages")
    yield from wrong_types(params, int, "maxTokens")


@_of_result("SA-02", "client", "sampling/createMessage")
def shape_of_a_sample(result: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _strings(result, "a sample", "role", "model")
    if "content" not in result:
        yield "a sample without content"


@_of_result("RT-01", "client", "roots/list")
def shape_of_roots(result: Members, call: Call, state: ConnectionState) -> Faults:
    yield from _array(result, "roots")
    for root in objects_in(result, "roots"):
        uri = root.get("uri", UNSET)
        if not isinstance(uri, str) or not uri.startswith("file://"):
            yield f"a root has a URI that begins with file://, not {shown(uri)}"


@_of_request("EL-01", "server", "elicitation/create")
def shape_of_a_question(params: Members, call: Call, state: ConnectionState) -> Faults:
    if params.get("mode", "form") != "form":
        return
    yield from _strings(params, "a question", "message")
    match params.get("requestedSchema"):
        case {"type": "object", "properties": dict(properties)}:
            for name, schema in properties.items():
                if isinstance(schema, dict) and (schema.get("type") == "object" or "properties" in schema):
                    yield f"the form is not flat: {shown(name)}"
        case other:
            yield f"requestedSchema describes an object with properties, and is {shown(other)}"


@_of_result("EL-06", "client", "elicitation/create")
def shape_of_a_reply(result: Members, call: Call, state: ConnectionState) -> Faults:
    if result.get("action") not in ("accept", "decline", "cancel"):
        yield f"action is accept, decline or cancel, not {shown(result.get('action', UNSET))}"
