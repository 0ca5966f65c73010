"""Content blocks, annotations and icons, as servers send them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from twopipes._protocol.revisions import META_SERVER_INFO
from twopipes._tools.check.content.blocks import Fault, faults_of_annotations, faults_of_block, faults_of_contents, faults_of_icon
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import called, is_complete, prompted, quoted, read
from twopipes._tools.check.server_reply import Response
from twopipes._tools.check.verdict import Quotable

_MENDS = {
    "CT-01": "Write blocks as the schema of the revision has them: a type, and the members that belong to it.",
    "CT-02": "Send text instead, or an embedded resource, to clients of this revision.",
    "CT-03": "Encode bytes as base64 (the standard alphabet, padded, without line breaks) and name their MIME type.",
    "CT-04": "Keep to audience (user, assistant), priority (0 to 1) and lastModified (such as 2025-01-12T15:00:58Z).",
    "CT-06": "Give each icon a src; sizes is an array of strings, theme is light or dark.",
}
_OLD = ("2024-11-05", "2025-03-26")


@probe("CT-01", "CT-02", "CT-03", "CT-04", "CT-05")
async def blocks_are_well_made(case: Case) -> None:
    """Tools that may be called, prompts and resources are looked at, block by block."""
    embeds: Response | None = None
    answers = await _answers(case)
    blocks = [(block, response) for response in answers for block in _blocks(response)]
    for block, response in blocks:
        _judge(case, ("CT-01", "CT-02", *_also_about(block)), faults_of_block(block, case.revision), response)
        if isinstance(block, dict) and block.get("type") == "resource":
            embeds = response
    for _, response in await read(case):
        contents = response.result.get("contents") if is_complete(response) else None
        for item in contents if isinstance(contents, list) else ():
            if isinstance(item, dict) and "blob" in item:
                _judge(case, ("CT-03",), faults_of_contents(item, "RS-02"), response)
    for listed in (*case.features.resources, *case.features.templates):
        if "annotations" in listed:
            where = f"the resource {listed.get('uri', listed.get('uriTemplate'))!r}"
            _judge(case, ("CT-04",), faults_of_annotations(listed["annotations"], case.revision, where), quoted([listed]))
    if embeds is not None:
        case.expect(
            "CT-05",
            case.features.has("resources"),
            "the server gives embedded resources, and does not declare resources",
            fix="Declare the capability resources, and let clients read what you embed.",
            about=embeds,
        )
    case.give_up("nothing of the kind was in what tools, prompts and resources gave")


@probe("CT-02", revisions=_OLD, needs="call")
async def old_revisions_get_old_blocks(case: Case) -> None:
    """In a revision without audio or links, tools and prompts give neither."""
    for response in await _answers(case):
        for block in _blocks(response):
            _judge(case, ("CT-02",), faults_of_block(block, case.revision), response)
    case.give_up("no tool or prompt gave a block of content")


@probe("CT-06")
async def icons_are_well_made(case: Case) -> None:
    """The icons of the server, its tools, prompts and resources are looked at."""
    for owner, where in _owners(case):
        icons = owner.get("icons")
        if icons is None:
            continue
        faults = [fault for icon in icons for fault in faults_of_icon(icon, where)] if isinstance(icons, list) else None
        if faults is None:
            faults = [("CT-06", f"icons of {where} is an array, and not {icons!r}")]
        _judge(case, ("CT-06",), faults, quoted([owner]))
    case.give_up("the server has no icons")


def _owners(case: Case) -> Iterator[tuple[dict[str, Any], str]]:
    opening = case.conversation.opening
    result = {} if opening is None else opening.result
    meta = result.get("_meta")
    info = (meta.get(META_SERVER_INFO) if isinstance(meta, dict) else None) if case.is_modern else result.get("serverInfo")
    if isinstance(info, dict):
        yield info, "the server"
    features = case.features
    for kind, items in (("tool", features.tools), ("prompt", features.prompts), ("resource", features.resources)):
        for item in items:
            yield item, f"the {kind} {item.get('name')!r}"
    for item in features.templates:
        yield item, f"the template {item.get('name')!r}"


async def _answers(case: Case) -> list[Response]:
    answers = [response for _, response in await called(case)] if case.features.has("tools") else []
    return [each for each in [*answers, *(response for _, response in await prompted(case))] if is_complete(each)]


def _blocks(response: Response) -> list[Any]:
    content, messages = response.result.get("content"), response.result.get("messages")
    if isinstance(content, list):
        return content
    message = messages if isinstance(messages, list) else []
    # Several blocks in one message are another rule's business.
    return [each["content"] for each in message if isinstance(each, dict) and isinstance(each.get("content"), dict)]


def _also_about(block: Any) -> Iterator[str]:
    """The rules, beside that of its shape, that a block gives occasion to break."""
    if not isinstance(block, dict):
        return
    resource = block.get("resource")
    if "data" in block or (isinstance(resource, dict) and "blob" in resource):
        yield "CT-03"
    if "annotations" in block:
        yield "CT-04"


def _judge(case: Case, rules: Iterable[str], faults: Iterable[Fault], about: Quotable | None) -> None:
    found = list(faults)
    for rule in rules:
        what = next((what for broken, what in found if broken == rule), "")
        case.expect(rule, not what, what, fix=_MENDS[rule], about=about)
