"""HTTP headers that repeat parts of a request: names, values, and the check against the body.

Modern revisions repeat the revision, the method and the target of a request in headers, so that a proxy can route without reading
the body. A tool adds headers for its own parameters with ``x-mcp-header`` in its input schema. A server refuses a request whose
headers and body differ: otherwise the proxy would decide about one request and the server would run another.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from twopipes.errors import HeaderMismatch, LocalProtocolError

PROTOCOL_VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION_ID = "mcp-session-id"
LAST_EVENT_ID = "last-event-id"
PARAM_PREFIX = "Mcp-Param-"
ANNOTATION = "x-mcp-header"
"""The keyword of a JSON Schema that asks for a header."""

NAME_MEMBERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose target is repeated in ``Mcp-Name``, and the member of the params that has it."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Larger integers are not exact in every JSON reader, and are not allowed in a header."""

_PREFIX, _SUFFIX = "=?base64?", "?="
# Some proxies change a tab, so it is accepted but not sent.
_SAFE = re.compile(r"[\x20-\x7e]*")
_ALLOWED = re.compile(r"[\t\x20-\x7e]*")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DECIMAL = re.compile(r"(-?[0-9]{1,20})(?:\.0{1,20})?")
_PRIMITIVES = ("string", "integer", "boolean")
_MAX_SHOWN = 80


class InvalidAnnotation(ValueError):
    """A schema has an ``x-mcp-header`` that breaks a constraint. The message is the reason."""


class ParamHeader(NamedTuple):
    """A header for one parameter of a tool."""

    path: tuple[str, ...]  # the keys from the arguments to the value
    name: str  # as it is sent
    key: str  # in lower case, as it is looked up


# Values


def encode_value(value: str | float | bool) -> str:  # noqa: FBT001 - a value, not an option
    """Return a value as it is written in a header: plain if it is safe there, else in Base64.

    Raises:
        LocalProtocolError: A number has no exact representation in a header.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        if value != value // 1 or abs(value) > MAX_SAFE_INTEGER:
            raise LocalProtocolError(f"cannot send {_shown(value)} in a header; use an integer from -(2**53 - 1) to 2**53 - 1")
        return str(int(value))
    if _SAFE.fullmatch(value) and value == value.strip(" ") and not _looks_encoded(value):
        return value
    # A lone surrogate cannot be in a JSON body either: the error for it is raised there.
    data = value.encode("utf-8", "replace")
    return _PREFIX + binascii.b2a_base64(data, newline=False).decode("ascii") + _SUFFIX


def _looks_encoded(value: str) -> bool:
    return value.startswith(_PREFIX) and value.endswith(_SUFFIX)


def decode_value(value: str) -> str:
    """Return the value that a header contains.

    Raises:
        ValueError: The header has characters that are not allowed, or is not valid Base64 of UTF-8.
    """
    if not _ALLOWED.fullmatch(value):
        raise ValueError("it has characters that are not allowed in a header")
    if not _looks_encoded(value) or len(value) < len(_PREFIX + _SUFFIX):
        return value
    encoded = value[len(_PREFIX) : -len(_SUFFIX)]
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
        text = data.decode("utf-8")
    except ValueError:
        raise ValueError("it is not valid Base64 of UTF-8 text") from None
    if binascii.b2a_base64(data, newline=False).decode("ascii") != encoded:
        raise ValueError("its Base64 is not canonical")
    return text


# The keyword x-mcp-header of input schemas


def param_headers(schema: Any) -> tuple[ParamHeader, ...]:
    """Return the headers that an input schema asks for.

    Raises:
        InvalidAnnotation: An annotation breaks a constraint; a client must not offer such a tool.
    """
    found: dict[str, ParamHeader] = {}
    for path, node in _subschemas(schema):
        if ANNOTATION in node:
            header = _read_annotation(path, node)
            if (other := found.get(header.key)) is not None:
                both = f"{_dotted(other.path)} and {_dotted(header.path)}"
                raise InvalidAnnotation(f"{both} have the same {ANNOTATION} {_shown(node[ANNOTATION])}")
            found[header.key] = header
    return tuple(sorted(found.values()))


def _read_annotation(path: tuple[str, ...] | None, node: Mapping[str, Any]) -> ParamHeader:
    if not path:
        raise InvalidAnnotation(f"{ANNOTATION} is allowed only in a property that is reached through `properties` alone")
    name, kind = node[ANNOTATION], node.get("type")
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise InvalidAnnotation(f"the {ANNOTATION} of {_dotted(path)} is not the name of a header: {_shown(name)}")
    if kind not in _PRIMITIVES:
        allowed = ", ".join(_PRIMITIVES)
        raise InvalidAnnotation(f"{_dotted(path)} has an {ANNOTATION}, but its type is {_shown(kind)}; allowed types: {allowed}")
    full = PARAM_PREFIX + name
    return ParamHeader(path, full, full.lower())


# The keywords whose values are schemas, by the shape of the value. Others, such as `default` or `enum`, have data.
_ONE_SCHEMA = frozenset(
    [
        "items",
        "contains",
        "additionalItems",
        "unevaluatedItems",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "contentSchema",
        "not",
        "if",
        "then",
        "else",
    ]
)
_SCHEMAS = frozenset(["allOf", "anyOf", "oneOf", "prefixItems", "items"])
_NAMED_SCHEMAS = frozenset(["patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"])


def _subschemas(schema: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Yield every schema in a schema, with the keys of the `properties` that lead to it, or None if other keywords do."""
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), schema)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for keyword, value in node.items():
            if keyword == "properties" and isinstance(value, dict):
                waiting += [(None if path is None else (*path, key), each) for key, each in value.items()]
            else:
                waiting += [(None, each) for each in _schemas_of(keyword, value)]


def _schemas_of(keyword: str, value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        if keyword in _NAMED_SCHEMAS:
            return value.values()
        return (value,) if keyword in _ONE_SCHEMA else ()
    return value if isinstance(value, list) and keyword in _SCHEMAS else ()


# A request


def request_headers(method: str, params: Mapping[str, Any], version: str, headers: Sequence[ParamHeader] = ()) -> dict[str, str]:
    """Return the headers that repeat parts of a request.

    Args:
        method: The method of the request.
        params: Its params.
        version: The revision it is written in.
        headers: What the schema of the tool asks for.

    Raises:
        LocalProtocolError: An argument for a header is a number that a header cannot contain.
    """
    made = {PROTOCOL_VERSION: version, METHOD: method}
    member = NAME_MEMBERS.get(method)
    if member is not None and isinstance(target := params.get(member), str):
        made[NAME] = encode_value(target)
    for header in headers:
        value = _value_at(params, header.path)
        if _can_repeat(value):
            made[header.name] = encode_value(value)
    return made


def check_headers(
    received: Mapping[str, str], method: str, params: Mapping[str, Any], version: str | None, headers: Sequence[ParamHeader] = ()
) -> None:
    """Check that the headers of a request repeat its body.

    Args:
        received: The headers, with names in lower case. The values of a header that is repeated are joined, so they do not match.
        method: The method in the body.
        params: The params in the body.
        version: The revision in the body's ``_meta``. The session refuses a body without one, so nothing is compared then.
        headers: What the schema of the tool asks for.

    Raises:
        HeaderMismatch: A required header is missing, malformed, or differs from the body.
    """
    if version is None:
        return
    if received.get(PROTOCOL_VERSION) != version:
        raise _mismatch("MCP-Protocol-Version", received.get(PROTOCOL_VERSION), version)
    if received.get(METHOD) != method:
        raise _mismatch("Mcp-Method", received.get(METHOD), method)
    member = NAME_MEMBERS.get(method)
    if member is not None:
        sent, target = received.get(NAME), params.get(member)
        if not _matches("Mcp-Name", sent, target):
            raise _mismatch("Mcp-Name", sent, target)
    for header in headers:
        sent, value = received.get(header.key), _value_at(params, header.path)
        if not _matches(header.name, sent, value):
            raise _mismatch(header.name, sent, value)


def _matches(name: str, sent: str | None, value: Any) -> bool:
    """Return whether a header, or its absence, agrees with a value of the body."""
    if sent is None or not _can_repeat(value):
        return sent is None and not _can_repeat(value)
    try:
        text = decode_value(sent)
    except ValueError as error:
        raise HeaderMismatch(f"Invalid header {name}: {error}") from None
    if isinstance(value, (str, bool)):
        return text == (value if isinstance(value, str) else encode_value(value))
    # Integers are compared as numbers: 42.0 is 42.
    decimal = _DECIMAL.fullmatch(text)
    return decimal is not None and abs(value) <= MAX_SAFE_INTEGER and int(decimal[1]) == value


def _can_repeat(value: Any) -> bool:
    """Return whether a value of the body is repeated in a header. null is not, nor is a value that the schema will reject."""
    return isinstance(value, (str, int)) or (isinstance(value, float) and value.is_integer())


def _value_at(params: Mapping[str, Any], path: Sequence[str]) -> Any:
    value = params.get("arguments")
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def _mismatch(name: str, sent: str | None, value: Any) -> HeaderMismatch:
    if sent is None:
        return HeaderMismatch(f"Missing header {name}: the body has {_shown(value)}")
    return HeaderMismatch(f"Header mismatch: {name} is {_shown(sent)}, the body has {_shown(value)}")


def _shown(value: Any) -> str:
    """Return a value for an error message. It comes from a peer, so it is shortened; large containers are never formatted."""
    if value is None:
        return "no value"
    if not isinstance(value, (str, int, float)):
        return f"a value of type {type(value).__name__}"
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        return "an integer that is too large"
    text = repr(value[: _MAX_SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _dotted(path: Sequence[str]) -> str:
    return _shown(".".join(path))
