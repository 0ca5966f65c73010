"""The shapes of questions and answers, and answers that match a question.

The functions named ``..._faults`` yield a sentence for each fault, for use in a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from twopipes._protocol.revisions import MODERN, SAMPLING_CONTENT_ARRAYS, SAMPLING_CONTENT_TYPES
from twopipes._tools.check.messages import members, parts_of
from twopipes._trace.judges.values import is_json, objects_in, shown, wrong_types

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"
NUMBER = 73
"""The value for number fields, if the field allows it: easy to find again."""

_ROLES = ("user", "assistant")
_FORMATS = {"email": "anna@example.com", "uri": "https://example.com/", "date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z"}
# The types of fields, except for arrays, and their limits.
_LIMITS = {"string": ("minLength", "maxLength"), "number": ("minimum", "maximum"), "integer": ("minimum", "maximum"), "boolean": ()}
# Names of fields and parameters that clearly mean a secret, without separators. Names that may be harmless (token, pin, code) are
# not included.
_SECRET = re.compile(
    r"(user|login|account|db|database|current|new|confirm)?"
    r"(password|passwd|passphrase|apikey|apisecret|secretkey|clientsecret|accesstoken|refreshtoken|authtoken|privatekey"
    r"|creditcard|creditcardnumber|cardnumber|cvv|cvc|socialsecuritynumber)"
)


def declares(client_capabilities: Mapping[str, Any], method: str, params: Any = None) -> bool:
    """Return whether a client with these capabilities may be asked this question."""
    declared = client_capabilities.get(method.partition("/")[0])
    if declared is None or declared is False:
        return False
    details, params = members(declared), members(params)
    if method == ELICIT:
        if params.get("mode") == "url":
            return "url" in details
        return "form" in details or "url" not in details
    if method == SAMPLE and ("tools" in params or "toolChoice" in params):
        return "tools" in details
    return True


# Forms


def form_faults(params: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of a form: it must be flat (EL-01)."""
    yield from wrong_types(params, str, "message")
    schema = params.get("requestedSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        yield f'requestedSchema must have "type":"object" and properties, not {shown(schema)}'
        return
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"required must be an array of names, not {shown(required)}"
    for name, field in schema["properties"].items():
        inside = members(members(field).get("items"))
        if members(field).get("type") == "object" or "properties" in members(field):
            yield f"the field {shown(name)} is an object inside the form"
        elif inside.get("type") == "object" or "properties" in inside:
            yield f"the field {shown(name)} is an array of objects"


def _fields_of(params: dict[str, Any]) -> dict[str, Any]:
    return members(members(params.get("requestedSchema")).get("properties"))


def kinds_of_fields(params: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of the fields of a form: unknown types, invalid limits (EL-02)."""
    for name, field in _fields_of(params).items():
        for fault in _faults_of_field(field):
            yield f"the field {shown(name)} {fault}"


def _faults_of_field(field: Any) -> Iterator[str]:
    kind = members(field).get("type")
    if kind == "array":
        inside = members(field.get("items"))
        if not _are_texts(inside.get("enum")) and not _are_options(inside.get("anyOf")):
            yield f"is an array whose items are not a choice of strings: {shown(field.get('items'))}"
        return
    if not isinstance(kind, str) or kind not in _LIMITS:
        yield f"has a type that forms do not have: {shown(field)}"
        return
    for name in _LIMITS[kind]:
        if not is_json(field.get(name, 0), float):
            yield f"has a {name} that is not a number: {shown(field[name])}"
    if kind == "string":
        if "enum" in field and not _are_texts(field["enum"]):
            yield f"has an enum that is not a list of strings: {shown(field['enum'])}"
        if "oneOf" in field and not _are_options(field["oneOf"]):
            yield f"has a oneOf that is not a list of a const and a title each: {shown(field['oneOf'])}"
        if "format" in field and not (isinstance(field["format"], str) and field["format"] in _FORMATS):
            yield f"has the format {shown(field['format'])}; forms have {', '.join(_FORMATS)}"


def old_form_faults(params: dict[str, Any]) -> Iterator[str]:
    """Yield what a form of 2025-06-18 must not have (EL-03)."""
    for name, field in _fields_of(params).items():
        asked = members(field)
        if asked.get("type") == "array":
            yield f"the field {shown(name)} is a multiple choice, which 2025-06-18 does not have"
        if "oneOf" in asked:
            yield f"the field {shown(name)} has a oneOf; in 2025-06-18 choices are enum and enumNames"


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_options(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) and isinstance(each.get("const"), str) and isinstance(each.get("title"), str) for each in value
    )


def number_fields(params: dict[str, Any]) -> list[str]:
    """Return the names of the number fields of a form."""
    return [name for name, field in _fields_of(params).items() if members(field).get("type") in ("integer", "number")]


def filled_form(params: dict[str, Any]) -> dict[str, Any]:
    """Return content that matches a form, without fields of an unknown type."""
    found = {name: _filled(members(field)) for name, field in _fields_of(params).items()}
    return {name: value for name, value in found.items() if value is not None}


def _filled(field: dict[str, Any]) -> Any:
    if "default" in field:
        return field["default"]
    match field.get("type"):
        case "string":
            if choices := _choices(field):
                return choices[0]
            wanted = field.get("format")
            made = _FORMATS.get(wanted, "text") if isinstance(wanted, str) else "text"
            least, most = field.get("minLength"), field.get("maxLength")
            made = made.ljust(least, "t") if isinstance(least, int) else made
            return made[:most] if isinstance(most, int) else made
        case "integer" | "number":
            low, high = field.get("minimum"), field.get("maximum")
            number: Any = max(NUMBER, low) if isinstance(low, int | float) else NUMBER
            return min(number, high) if isinstance(high, int | float) else number
        case "boolean":
            return True
        case "array":
            least = field.get("minItems")
            return _choices(members(field.get("items")))[: max(1, least if isinstance(least, int) else 1)]
    return None


def _choices(field: dict[str, Any]) -> list[Any]:
    if isinstance(field.get("enum"), list):
        return list(field["enum"])
    return [each.get("const") for each in objects_in(field, "oneOf") or objects_in(field, "anyOf")]


# URLs and secrets


def url_faults(params: dict[str, Any], revision: str) -> Iterator[str]:
    """Yield the faults of a URL question (EL-10)."""
    yield from wrong_types(params, str, "message", "url")
    if isinstance(params.get("url"), str) and "://" not in params["url"]:
        yield f"url must be an absolute URL, not {shown(params['url'])}"
    if revision in MODERN:
        if "elicitationId" in params:
            yield f"it has an elicitationId, which {revision} no longer has"
    elif not isinstance(params.get("elicitationId"), str):
        yield f"it needs an elicitationId, a string, in {revision}, but has {shown(params.get('elicitationId'))}"


def secrets_in(params: dict[str, Any]) -> Iterator[str]:
    """Yield the secrets in a form or a URL (EL-13). Only names that clearly mean a secret count."""
    for name in _fields_of(params):
        if _SECRET.fullmatch(_squeezed(name)):
            yield f"a form asks for a secret: {shown(name)}"
    if not isinstance(params.get("url"), str):
        return
    try:
        address = urlsplit(params["url"])
        carried = [name for name, value in parse_qsl(address.query) if value and _SECRET.fullmatch(_squeezed(name))]
        has_password = address.password is not None
    except ValueError:
        return  # not a URL, which EL-10 judges
    if has_password:
        yield "a URL contains a user and a password"
    for name in carried:
        yield f"a URL contains the secret {name}"


def _squeezed(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


# Sampling


def sampling_faults(params: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of a sampling request (SA-01)."""
    yield from wrong_types(params, float, "maxTokens")
    yield from wrong_types(params, list, "messages")
    for message in params["messages"] if isinstance(params.get("messages"), list) else ():
        if members(message).get("role") not in _ROLES or "content" not in members(message):
            yield f"a message has a role and content, not {shown(message)}"


def content_faults(content: Any, revision: str) -> Iterator[str]:
    """Yield the faults of the content of one sampling message (SA-03)."""
    if isinstance(content, list) and not SAMPLING_CONTENT_ARRAYS.has(revision):
        yield f"content is an array, which {revision} does not have: one block for each message"
    for block in content if isinstance(content, list) else [content]:
        kind = members(block).get("type")
        if not isinstance(kind, str) or kind not in SAMPLING_CONTENT_TYPES:
            yield f"content of an unknown type: {shown(block)}"
        elif not SAMPLING_CONTENT_TYPES[kind].has(revision):
            yield f"content of type {kind}, which {revision} does not have"


blocks_of = parts_of
"""Return the blocks of a message, from either form: one block, or an array."""


def tool_sequence_faults(messages: Iterable[Any]) -> Iterator[str]:
    """Yield the places where tool uses and their results do not follow each other (SA-06)."""
    waiting: set[str] = set()
    for message in messages:
        blocks = blocks_of(members(message).get("content"))
        results = {str(each.get("toolUseId")) for each in blocks if each.get("type") == "tool_result"}
        if results and any(each.get("type") != "tool_result" for each in blocks):
            yield "a message with tool results also contains something else"
        if waiting - results:
            yield f"the tool uses {', '.join(sorted(waiting - results))} have no result in the next message"
        waiting = {str(each.get("id")) for each in blocks if each.get("type") == "tool_use"}
    if waiting:
        yield f"the tool uses {', '.join(sorted(waiting))} have no result"


# Answers


def sample_faults(result: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of a sampling result (SA-02)."""
    if result.get("role") not in _ROLES:
        yield f"role must be user or assistant, not {shown(result.get('role'))}"
    yield from wrong_types(result, str, "model")
    if "content" not in result:
        yield "there is no content"
    yield from wrong_types(result, str, "stopReason", optional=True)


def root_faults(result: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of roots (RT-01)."""
    roots = result.get("roots")
    for root in map(members, roots if isinstance(roots, list) else ()):
        uri = root.get("uri")
        if not isinstance(uri, str) or not uri.startswith("file://"):
            yield f"a root has a uri that begins with file://, not {shown(uri)}"
        for fault in wrong_types(root, str, "name", optional=True):
            yield f"in a root, {fault}"


def reply_faults(result: dict[str, Any]) -> Iterator[str]:
    """Yield the faults of an answer to a form (EL-06)."""
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        yield f"action is accept, decline or cancel, not {shown(action)}"
    elif action != "accept" and members(result.get("content")):
        yield f"content belongs only to accept, but came with {action}"
    elif not isinstance(result.get("content", {}), dict):
        yield f"content is an object, not {shown(result['content'])}"
