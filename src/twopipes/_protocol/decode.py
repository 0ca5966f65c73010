"""Decode JSON to the types, and keep content blocks of unknown types instead of rejecting them (CT-08)."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal, TypeVar, cast

from msgspec import Raw, Struct, ValidationError, convert, structs
from msgspec import json as msgspec_json

from twopipes._protocol import types as t

M = TypeVar("M", bound=t.Model)


@cache
def _decoder(kind: type[M]) -> msgspec_json.Decoder[M]:
    # Created on first use: a decoder resolves all nested annotations, which would cost start-up time.
    return msgspec_json.Decoder(kind)


class _Choice(Struct, frozen=True):
    """A tagged union."""

    tag_field: str
    members: dict[str, type[t.Model]]
    tolerant: bool


class _Holder(Struct, frozen=True):
    """The one member of a type that can contain content blocks.

    Attributes:
        name: The attribute.
        wire: Its JSON name.
        inner: The type of its values.
        form: ``list``, ``one``, ``either`` of the two, or ``map`` by keys.
        placeholder: A valid value to use instead of the real one while the rest of the object is decoded.
    """

    name: str
    wire: str
    inner: type[t.Model] | _Choice
    form: Literal["list", "one", "either", "map"]
    placeholder: Any


_BLOCKS = _Choice(
    "type",
    {
        "text": t.TextContent,
        "image": t.ImageContent,
        "audio": t.AudioContent,
        "resource_link": t.ResourceLink,
        "resource": t.EmbeddedResource,
    },
    tolerant=True,
)
_SAMPLING_BLOCKS = _Choice(
    "type",
    {
        "text": t.TextContent,
        "image": t.ImageContent,
        "audio": t.AudioContent,
        "tool_use": t.ToolUseContent,
        "tool_result": t.ToolResultContent,
    },
    tolerant=True,
)
_QUESTIONS = _Choice(
    "method",
    {
        "elicitation/create": t.ElicitRequest,
        "sampling/createMessage": t.CreateMessageRequest,
        "roots/list": t.ListRootsRequest,
    },
    tolerant=False,
)
_EMPTY_TEXT = {"type": "text", "text": ""}

_HOLDERS: dict[type[t.Model], _Holder] = {
    t.CallToolResult: _Holder("content", "content", _BLOCKS, "list", []),
    t.ToolResultContent: _Holder("content", "content", _BLOCKS, "list", []),
    t.PromptMessage: _Holder("content", "content", _BLOCKS, "one", _EMPTY_TEXT),
    t.GetPromptResult: _Holder("messages", "messages", t.PromptMessage, "list", []),
    t.SamplingMessage: _Holder("content", "content", _SAMPLING_BLOCKS, "either", []),
    t.CreateMessageResult: _Holder("content", "content", _SAMPLING_BLOCKS, "either", []),
    t.CreateMessageParams: _Holder("messages", "messages", t.SamplingMessage, "list", []),
    t.CreateMessageRequest: _Holder("params", "params", t.CreateMessageParams, "one", {"messages": [], "maxTokens": 0}),
    t.InputRequiredResult: _Holder("input_requests", "inputRequests", _QUESTIONS, "map", {}),
}


def read(kind: type[M], raw: Raw | bytes) -> M:
    """Decode one value.

    Raises:
        msgspec.ValidationError: The value does not match the type; the message contains the path.
        msgspec.DecodeError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    try:
        return cast("M", _decoder(kind).decode(raw))
    except ValidationError:
        if kind not in _HOLDERS:
            raise
        value = msgspec_json.decode(raw)
        unknown: list[str] = []
        try:
            return cast("M", _build(kind, value, unknown))
        except ValidationError:
            if unknown:
                raise
        # No unknown blocks: the first error is better, because it has the whole path.
        raise


def _build(kind: type[t.Model] | _Choice, value: Any, unknown: list[str]) -> Any:
    if isinstance(kind, _Choice):
        tag = value.get(kind.tag_field) if isinstance(value, dict) else None
        if kind.tolerant and isinstance(tag, str) and tag not in kind.members:
            unknown.append(tag)
            return t.UnknownContent(value)
        if not isinstance(tag, str) or tag not in kind.members:
            raise ValidationError(f"Expected an object with a known `{kind.tag_field}`")
        kind = kind.members[tag]
    holder = _HOLDERS.get(kind)
    held: Any = value.get(holder.wire) if holder is not None and isinstance(value, dict) else None
    parts: Any
    if holder is None or not _has_form(held, holder.form):
        # No nested blocks, or an error that msgspec reports.
        return convert(value, kind)
    if isinstance(held, list):
        parts = [_build(holder.inner, each, unknown) for each in held]
    elif holder.form == "map":
        parts = {key: _build(holder.inner, each, unknown) for key, each in held.items()}
    else:
        parts = _build(holder.inner, held, unknown)
    shell = convert({**value, holder.wire: holder.placeholder}, kind)
    return structs.replace(shell, **{holder.name: parts})


def _has_form(held: Any, form: Literal["list", "one", "either", "map"]) -> bool:
    if isinstance(held, list):
        return form in {"list", "either"}
    return isinstance(held, dict) and form != "list"
