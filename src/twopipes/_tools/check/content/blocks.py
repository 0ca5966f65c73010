"""Faults of content blocks, annotations and icons, on either side."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from twopipes._protocol.revisions import CONTENT_TYPES
from twopipes._tools.check.messages import members
from twopipes._tools.check.verdict import Quotable, VerdictRecorder
from twopipes._trace.judges.values import shown

Fault = tuple[str, str]
"""The rule that is broken, and what breaks it."""

_MEMBERS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
_MIME_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+\s*(;.*)?", re.DOTALL)
_HAS_LAST_MODIFIED = "2025-06-18"


def faults_of_block(block: Any, revision: str, types: Mapping[str, Any] = CONTENT_TYPES) -> Iterator[Fault]:
    """Yield the faults of a block; ``types`` are the types that are allowed in its place, with their revisions."""
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        yield "CT-01", f"a content block is not an object with a type: {shown(block)}"
        return
    kind = block["type"]
    if kind not in types:
        yield "CT-01", f"a content block has the type {kind!r}, which no revision has in this place"
        return
    if not types[kind].has(revision):
        yield "CT-02", f"a content block has the type {kind!r}, which {revision} does not have"
        return
    for name in _MEMBERS.get(kind, ()):
        if not isinstance(block.get(name), str):
            yield "CT-01", f"{name} of a block of type {kind} is missing or not a string"
    if kind in {"image", "audio"}:
        yield from _faults_of_data(block, "data", f"a block of type {kind}")
    if kind == "resource":
        yield from faults_of_contents(block.get("resource"), "CT-01")
    yield from faults_of_annotations(block.get("annotations"), revision, f"a block of type {kind}")


def faults_of_contents(contents: Any, rule: str) -> Iterator[Fault]:
    """Yield the faults of a resource that is embedded or read: by this rule, and by CT-03 for its data."""
    if not isinstance(contents, dict) or not isinstance(contents.get("uri"), str):
        yield rule, f"the contents of a resource have no uri that is a string: {shown(contents)}"
        return
    if not isinstance(contents.get("text"), str) and not isinstance(contents.get("blob"), str):
        yield rule, f"the contents of {shown(contents['uri'])} have neither a text nor a blob"
    if "blob" in contents:
        yield from _faults_of_data(contents, "blob", f"the resource {shown(contents['uri'])}")


def _faults_of_data(holder: Mapping[str, Any], name: str, where: str) -> Iterator[Fault]:
    data, kind = holder.get(name), holder.get("mimeType")
    if isinstance(data, str):
        try:
            b64decode(data, validate=True)
        except ValueError:
            yield "CT-03", f"{name} of {where} is not base64: {shown(data)}"
    if isinstance(kind, str) and not is_mime_type(kind):
        yield "CT-03", f"mimeType of {where} is not a MIME type: {shown(kind)}"


def is_mime_type(text: Any) -> bool:
    """Return whether a text has the form of a MIME type."""
    return isinstance(text, str) and _MIME_TYPE.fullmatch(text) is not None


def faults_of_annotations(annotations: Any, revision: str, where: str) -> Iterator[Fault]:
    """Yield the faults of annotations, if there are any."""
    if annotations is None:
        return
    if not isinstance(annotations, dict):
        yield "CT-04", f"the annotations of {where} are not an object: {shown(annotations)}"
        return
    audience, priority = annotations.get("audience", []), annotations.get("priority", 0)
    if not isinstance(audience, list) or any(each not in ("user", "assistant") for each in audience):
        yield "CT-04", f"audience of {where} is not an array of user and assistant: {shown(audience)}"
    if not isinstance(priority, int | float) or isinstance(priority, bool) or not 0 <= priority <= 1:
        yield "CT-04", f"priority of {where} is not a number from 0 to 1: {shown(priority)}"
    modified = annotations.get("lastModified")
    if modified is not None and revision >= _HAS_LAST_MODIFIED and not _is_date(modified):
        yield "CT-04", f"lastModified of {where} is not an ISO 8601 date: {shown(modified)}"


def _is_date(text: Any) -> bool:
    try:
        datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return False
    return True


def faults_of_icon(icon: Any, where: str) -> Iterator[Fault]:
    """Yield the faults of an icon."""
    if not isinstance(icon, dict) or not isinstance(icon.get("src"), str):
        yield "CT-06", f"an icon of {where} has no src that is a string: {shown(icon)}"
        return
    sizes = icon.get("sizes", [])
    if not isinstance(icon.get("mimeType", ""), str):
        yield "CT-06", f"mimeType of an icon of {where} is not a string: {shown(icon['mimeType'])}"
    if not isinstance(sizes, list) or not all(isinstance(each, str) for each in sizes):
        yield "CT-06", f'sizes of an icon of {where} is not an array of strings such as "48x48": {shown(sizes)}'
    if icon.get("theme", "light") not in ("light", "dark"):
        yield "CT-06", f"theme of an icon of {where} is not light or dark: {shown(icon['theme'])}"


def judge_icons(case: VerdictRecorder, owner: Mapping[str, Any], where: str, about: Quotable | None) -> None:
    """Judge the icons of a server, a client or a listed item, if it has any."""
    icons = owner.get("icons")
    if icons is not None:
        listed = icons if isinstance(icons, list) else []
        faults = [what for icon in listed for _, what in faults_of_icon(icon, where)]
        faults += [] if isinstance(icons, list) else [f"icons of {where} is not an array: {shown(icons)}"]
        case.expect("CT-06", not faults, next(iter(faults), ""), about=about)


def judge_faults(case: VerdictRecorder, rules: Iterable[str], faults: Iterable[Fault], about: Quotable | None) -> None:
    """Judge each of these rules by its first fault."""
    found = list(faults)
    for rule in rules:
        what = next((what for broken, what in found if broken == rule), "")
        case.expect(rule, not what, what, about=about)


def rules_about(block: Any) -> Iterator[str]:
    """Yield the rules, beside that of its shape, that a block can break."""
    if "data" in members(block) or "blob" in members(members(block).get("resource")):
        yield "CT-03"
    if "annotations" in members(block):
        yield "CT-04"
