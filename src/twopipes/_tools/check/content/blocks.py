"""What can be wrong with a block of content, with annotations and with an icon, whoever sends them (section CT of the rules)."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from twopipes._protocol.revisions import CONTENT_TYPES

__all__ = ["Fault", "faults_of_annotations", "faults_of_block", "faults_of_contents", "faults_of_icon", "is_mime_type"]

Fault = tuple[str, str]
"""The rule that is broken, and what breaks it."""

_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
_MIME_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+\s*(;.*)?", re.DOTALL)
_AUDIENCE = ("user", "assistant")
_HAS_LAST_MODIFIED = "2025-06-18"
_SHOWN = 60


def faults_of_block(block: Any, revision: str, types: Mapping[str, Any] = CONTENT_TYPES) -> Iterator[Fault]:
    """What is wrong with a block.

    Args:
        block: As it came.
        revision: In which it was sent.
        types: The types of blocks that there are where it stands, with the revisions that have them.
    """
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        yield "CT-01", f"a block of content is an object with a type, and this is {_shown(block)}"
        return
    kind = block["type"]
    if kind not in types:
        yield "CT-01", f"there is a block of type {kind!r}, which no revision has in this place"
        return
    if not types[kind].has(revision):
        yield "CT-02", f"there is a block of type {kind!r}, which {revision} does not have"
        return
    for name in _MEMBERS.get(kind, ()):
        if not isinstance(block.get(name), str):
            yield "CT-01", f"a block of type {kind} has no {name}, or not as a string"
    if kind in {"image", "audio"}:
        yield from _binary(block, "data", f"a block of type {kind}")
    if kind == "resource":
        yield from faults_of_contents(block.get("resource"), "CT-01")
    yield from faults_of_annotations(block.get("annotations"), revision, f"a block of type {kind}")


def faults_of_contents(contents: Any, rule: str) -> Iterator[Fault]:
    """What is wrong with a resource that is embedded or read: by the rule given, and by CT-03 for its bytes."""
    if not isinstance(contents, dict) or not isinstance(contents.get("uri"), str):
        yield rule, f"the contents of a resource have a uri, a string, and this is {_shown(contents)}"
        return
    if not isinstance(contents.get("text"), str) and not isinstance(contents.get("blob"), str):
        yield rule, f"the contents of {_shown(contents['uri'])} have neither a text nor a blob"
    if "blob" in contents:
        yield from _binary(contents, "blob", f"the resource {_shown(contents['uri'])}")


def _binary(held: Mapping[str, Any], name: str, where: str) -> Iterator[Fault]:
    data, kind = held.get(name), held.get("mimeType")
    if isinstance(data, str):
        try:
            b64decode(data, validate=True)
        except ValueError:
            yield "CT-03", f"{name} of {where} is not base64: {_shown(data)}"
    if isinstance(kind, str) and not is_mime_type(kind):
        yield "CT-03", f"mimeType of {where} is no MIME type: {_shown(kind)}"


def is_mime_type(text: Any) -> bool:
    """Tells whether a text is written like a MIME type."""
    return isinstance(text, str) and _MIME_TYPE.fullmatch(text) is not None


def faults_of_annotations(annotations: Any, revision: str, where: str) -> Iterator[Fault]:
    """What is wrong with annotations, if there are any."""
    if annotations is None:
        return
    if not isinstance(annotations, dict):
        yield "CT-04", f"the annotations of {where} are an object, and not {_shown(annotations)}"
        return
    audience, priority = annotations.get("audience", []), annotations.get("priority", 0)
    if not isinstance(audience, list) or any(each not in _AUDIENCE for each in audience):
        yield "CT-04", f"the audience of {where} is an array of user and assistant, and not {_shown(audience)}"
    if not isinstance(priority, int | float) or isinstance(priority, bool) or not 0 <= priority <= 1:
        yield "CT-04", f"the priority of {where} is a number from 0 to 1, and not {_shown(priority)}"
    modified = annotations.get("lastModified")
    if modified is not None and revision >= _HAS_LAST_MODIFIED and not _is_date(modified):
        yield "CT-04", f"lastModified of {where} is a date in ISO 8601, and not {_shown(modified)}"


def _is_date(text: Any) -> bool:
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return False
    return True


def faults_of_icon(icon: Any, where: str) -> Iterator[Fault]:
    """What is wrong with an icon."""
    if not isinstance(icon, dict) or not isinstance(icon.get("src"), str):
        yield "CT-06", f"an icon of {where} has a src, a string, and this is {_shown(icon)}"
        return
    sizes = icon.get("sizes", [])
    if not isinstance(icon.get("mimeType", ""), str):
        yield "CT-06", f"mimeType of an icon of {where} is a string, and not {_shown(icon['mimeType'])}"
    if not isinstance(sizes, list) or not all(isinstance(each, str) for each in sizes):
        yield "CT-06", f'sizes of an icon of {where} is an array of strings such as "48x48", and not {_shown(sizes)}'
    if icon.get("theme", "light") not in ("light", "dark"):
        yield "CT-06", f"theme of an icon of {where} is light or dark, and not {_shown(icon['theme'])}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
