"""Translate values of newer revisions for an older revision.

Each function takes a value and a revision, and returns the same object if nothing needs to change. Members that a revision does not
have are removed by :mod:`twopipes._protocol.adapt`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import UNSET, Raw, ValidationError, structs, to_builtins
from msgspec import json as msgspec_json

from twopipes._protocol import revisions
from twopipes._protocol import types as t
from twopipes._protocol.base import text_of
from twopipes._protocol.forms import checked_form, plain_field, plain_form
from twopipes._protocol.meta_keys import is_extension_name
from twopipes._protocol.revisions import UNTIL_2506, UNTIL_2511, Span
from twopipes.errors import LocalProtocolError

MAX_COMPLETIONS = 100  # CM-02
ONLY_2506 = Span("2025-06-18", "2025-06-18")
UNTIL_2411 = Span(until="2024-11-05")
UNTIL_2503 = Span(until="2025-03-26")


def _as_json(value: Any) -> str:
    return msgspec_json.encode(value).decode()


# Content blocks (CT-02)


def _audio(block: t.AudioContent, _revision: str) -> t.EmbeddedResource:
    contents = t.ResourceContents("embedded:audio", blob=block.data, mime_type=block.mime_type)
    return t.EmbeddedResource(contents, annotations=block.annotations)


def _resource_link(block: t.ResourceLink, _revision: str) -> t.TextContent:
    description = f"\n{block.description}" if block.description else ""
    return t.TextContent(f"{block.title or block.name}: {block.uri}{description}", annotations=block.annotations)


def _unknown(block: t.UnknownContent, _revision: str) -> t.TextContent:
    return t.TextContent(_as_json(block))


# Tools (TL-11, JS-08)


_OBJECT = ord("{")


def _is_object(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    if isinstance(value, Raw):
        view = memoryview(value)
        # Our own JSON starts with the brace. JSON of an author may start with blanks; only then is it copied.
        return view[0] == _OBJECT or bytes(view).lstrip()[:1] == b"{"
    return isinstance(to_builtins(value), dict)


# Computed once, because every tool call uses it.
_WITH_STRUCTURED_CONTENT = frozenset(
    revision for revision in revisions.ALL if revisions.MEMBERS["CallToolResult"]["structuredContent"].has(revision)
)


Structured = TypeVar("Structured", t.CallToolResult, t.ToolResultContent)


def _structured(result: Structured, revision: str) -> Structured:
    value = result.structured_content
    if value is UNSET or (revision in _WITH_STRUCTURED_CONTENT and _is_object(value)):
        return result
    # TL-11: only an object is allowed. The content stays; if it is empty, the value is added as text so that nothing is lost.
    return structs.replace(result, structured_content=UNSET, content=result.content or [t.TextContent(_as_json(value))])


def _tool(tool: t.Tool, revision: str) -> t.Tool:
    changes: dict[str, Any] = {}
    input_schema = _plain_schema(tool.input_schema, revision)
    if input_schema is not tool.input_schema:
        changes["input_schema"] = input_schema
    if tool.output_schema is not None:
        # TL-11: a schema whose root is not an object is removed, as are the values that it describes.
        is_object = tool.output_schema.get("type") == "object"
        output_schema = _plain_schema(tool.output_schema, revision) if is_object else None
        if output_schema is not tool.output_schema:
            changes["output_schema"] = output_schema
    return structs.replace(tool, **changes) if changes else tool


def _plain_schema(schema: dict[str, Any], revision: str) -> dict[str, Any]:
    """Restrict a schema to what older revisions allow (JS-08): only objects as properties, and no ``$schema`` before 2025-11-25."""
    changes: dict[str, Any] = {}
    properties = schema.get("properties")
    if isinstance(properties, dict) and any(isinstance(each, bool) for each in properties.values()):
        as_object: dict[bool, dict[str, Any]] = {True: {}, False: {"not": {}}}
        changes["properties"] = {name: as_object[each] if isinstance(each, bool) else each for name, each in properties.items()}
    if "$schema" in schema and UNTIL_2506.has(revision):
        schema = {key: value for key, value in schema.items() if key != "$schema"}
    return {**schema, **changes} if changes else schema


def _completion(completion: t.Completion, _revision: str) -> t.Completion:
    if len(completion.values) <= MAX_COMPLETIONS:
        return completion
    return structs.replace(completion, values=completion.values[:MAX_COMPLETIONS], has_more=True)


# Sampling (SA-03)


def _sampling_block(block: t.SamplingContent, revision: str) -> t.SamplingContent:
    match block:
        case t.AudioContent() if not revisions.SAMPLING_CONTENT_TYPES["audio"].has(revision):
            return t.TextContent(f"[audio: {block.mime_type}]", annotations=block.annotations)
        case t.ToolUseContent():
            return t.TextContent(f"[tool call {block.id}: {block.name} {_as_json(block.input)}]")
        case t.ToolResultContent():
            text = _as_json(block.structured_content) if block.structured_content is not UNSET else ""
            text = text_of(block.content) or text
            failed = " failed" if block.is_error else ""
            return t.TextContent(f"[tool result {block.tool_use_id}{failed}: {text}]")
        case _:
            return block


Said = TypeVar("Said", t.SamplingMessage, t.CreateMessageResult)


def _one_block(content: t.SamplingContent | list[t.SamplingContent], revision: str) -> t.SamplingContent:
    if not isinstance(content, list):
        return _sampling_block(content, revision)
    blocks = [_sampling_block(block, revision) for block in content]
    if len(blocks) == 1:
        return blocks[0]
    texts = [block.text for block in blocks if isinstance(block, t.TextContent)]
    # Only one block is allowed. Text is more useful than an image without its text.
    return t.TextContent("\n".join(texts)) if texts or not blocks else blocks[0]


def _with_one_block(said: Said, revision: str) -> Said:
    content = _one_block(said.content, revision)
    return said if content is said.content else structs.replace(said, content=content)


def _create_message_params(params: t.CreateMessageParams, _revision: str) -> t.CreateMessageParams:
    if not any(isinstance(message.content, list) for message in params.messages):
        return params
    # A message with several blocks becomes several messages of the same role, so that nothing is lost.
    messages = [t.SamplingMessage(message.role, block) for message in params.messages for block in message.blocks]
    return structs.replace(params, messages=messages)


# Elicitation (EL-01, EL-03, EL-06, EL-10)


def _elicit_params(params: t.ElicitParams, revision: str) -> t.ElicitParams:
    if params.mode != "url":
        if params.requested_schema is None:
            raise LocalProtocolError("form mode requires a requested_schema (EL-01)")
        try:
            schema = checked_form(params.requested_schema, revision)
        except ValidationError as error:
            raise LocalProtocolError(f"the requested_schema is not a valid form: {error} (EL-01, EL-02)") from error
        return params if schema is params.requested_schema else structs.replace(params, requested_schema=schema)
    if not revisions.MEMBERS["ElicitParams"]["url"].has(revision):
        raise LocalProtocolError(f"revision {revision} does not support url mode, so the user cannot be asked to visit a URL")
    if params.url is None:
        raise LocalProtocolError("url mode requires a url (EL-10)")
    if params.elicitation_id is None and revisions.MEMBERS["ElicitParams"]["elicitationId"].has(revision):
        raise LocalProtocolError(f"url mode requires an elicitation_id in {revision} (EL-10)")
    return params


def _elicit_result(result: t.ElicitResult, revision: str) -> t.ElicitResult:
    if result.content is None:
        return result
    if result.action != "accept":
        return structs.replace(result, content=None)  # EL-06
    content = {name: value for name, value in result.content.items() if value is not None}
    if UNTIL_2506.has(revision):
        content = {name: ", ".join(value) if isinstance(value, list) else value for name, value in content.items()}
    return result if content == result.content else structs.replace(result, content=content)


def _cancelled(params: t.CancelledParams, _revision: str) -> t.CancelledParams:
    if params.request_id is None:
        raise LocalProtocolError("a cancellation requires a request_id (CA-12, CON-10)")
    return params


# Capabilities (CP-03, CP-04, CP-07)


def _client_capabilities(declared: t.ClientCapabilities, revision: str) -> t.ClientCapabilities:
    modes = declared.elicitation
    if modes is not None and "url" in modes and "form" not in modes and UNTIL_2506.has(revision):
        # An empty object would declare forms (CP-04).
        declared = structs.replace(declared, elicitation=None)
    declared = _with_valid_extensions(declared, revision)
    changes: dict[str, Any] = {}
    for path, span in revisions.CLIENT_CAPABILITIES.items():
        name, _, detail = path.partition(".")
        value = changes.get(name, getattr(declared, name))
        if detail and value is not None and detail in value and not span.has(revision):
            changes[name] = {key: inner for key, inner in value.items() if key != detail}
    return structs.replace(declared, **changes) if changes else declared


Capabilities = TypeVar("Capabilities", t.ClientCapabilities, t.ServerCapabilities)


def _with_valid_extensions(declared: Capabilities, _revision: str) -> Capabilities:
    for name, settings in (declared.extensions or {}).items():
        if not is_extension_name(name) or not isinstance(settings, dict):
            raise LocalProtocolError(
                f"{name!r} is not a valid extension: its name must have a prefix and its value must be an object (CP-07)"
            )
    return declared


DOWNGRADES: dict[type[Any], tuple[Callable[[Any, str], Any], Span]] = {
    t.AudioContent: (_audio, UNTIL_2411),
    t.ResourceLink: (_resource_link, UNTIL_2503),
    t.UnknownContent: (_unknown, UNTIL_2511),  # extensions of a modern revision may define more blocks
    t.CallToolResult: (_structured, UNTIL_2511),
    t.ToolResultContent: (_structured, revisions.ONLY_2511),
    t.Tool: (_tool, UNTIL_2511),
    t.Completion: (_completion, revisions.ALWAYS),
    t.SamplingMessage: (_with_one_block, UNTIL_2506),
    t.CreateMessageResult: (_with_one_block, UNTIL_2506),
    t.CreateMessageParams: (_create_message_params, UNTIL_2506),
    t.ElicitParams: (_elicit_params, revisions.SINCE_2506),
    t.ElicitSchema: (lambda form, _revision: plain_form(form), ONLY_2506),
    t.StringSchema: (lambda field, _revision: plain_field(field), ONLY_2506),
    t.ElicitResult: (_elicit_result, revisions.SINCE_2506),
    t.CancelledParams: (_cancelled, revisions.ALWAYS),
    t.ClientCapabilities: (_client_capabilities, revisions.ALWAYS),
    t.ServerCapabilities: (_with_valid_extensions, revisions.ALWAYS),
}
"""By type: the translation that is applied before unknown members are removed, and the revisions that need it."""
