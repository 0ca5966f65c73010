"""Content blocks, annotations and icons of servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from twopipes._protocol.revisions import META_SERVER_INFO
from twopipes._tools.check.content.blocks import (
    faults_of_annotations,
    faults_of_block,
    faults_of_contents,
    judge_faults,
    judge_icons,
    rules_about,
)
from twopipes._tools.check.messages import Response, members
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.samples import called, is_complete, prompted, quoted, read


@probe("CT-01", "CT-02", "CT-03", "CT-04", "CT-05")
async def content_blocks_match_the_schema(case: Case) -> None:
    """Looks at every block that tools, prompts and resources return."""
    for response, block in await _blocks(case):
        judge_faults(case, ("CT-01", "CT-02", *rules_about(block)), faults_of_block(block, case.revision), response)
        if members(block).get("type") == "resource":
            has_resources = case.features.has("resources")
            case.expect("CT-05", has_resources, "the server embeds resources, but does not declare resources", about=response)
    for _, response in await read(case):
        for item in response.items("contents") if is_complete(response) else ():
            if "blob" in item:
                judge_faults(case, ["CT-03"], faults_of_contents(item, "RS-02"), response)
    for listed in (*case.features.resources, *case.features.templates):
        if "annotations" in listed:
            where = f"the resource {listed.get('uri', listed.get('uriTemplate'))!r}"
            judge_faults(case, ["CT-04"], faults_of_annotations(listed["annotations"], case.revision, where), quoted([listed]))
    case.give_up("tools, prompts and resources returned nothing of the kind")


@probe("CT-02", revisions=("2024-11-05", "2025-03-26"), needs="call")
async def old_revisions_get_old_blocks(case: Case) -> None:
    """Looks for audio and links in revisions that do not have them."""
    for response, block in await _blocks(case):
        judge_faults(case, ["CT-02"], faults_of_block(block, case.revision), response)
    case.give_up("no tool or prompt returned a content block")


@probe("CT-06")
async def icons_match_the_schema(case: Case) -> None:
    """Looks at the icons of the server, its tools, prompts and resources."""
    for owner, where in _owners(case):
        judge_icons(case, owner, where, quoted([owner]))
    case.give_up("the server has no icons")


def _owners(case: Case) -> Iterator[tuple[dict[str, Any], str]]:
    opening = case.conversation.opening
    result = {} if opening is None else opening.result
    yield members(members(result.get("_meta")).get(META_SERVER_INFO) if case.is_modern else result.get("serverInfo")), "the server"
    features = case.features
    for kind in ("tools", "prompts", "resources", "templates"):
        for item in getattr(features, kind):
            yield item, f"the {kind[:-1]} {item.get('name')!r}"


async def _blocks(case: Case) -> list[tuple[Response, Any]]:
    responses = [response for _, response in await called(case)] if case.features.has("tools") else []
    responses += [response for _, response in await prompted(case)]
    return [(response, block) for response in responses if is_complete(response) for block in _blocks_of(response)]


def _blocks_of(response: Response) -> list[Any]:
    content = response.result.get("content")
    if isinstance(content, list):
        return content
    # Several blocks in one message are judged by another rule.
    return [each["content"] for each in response.items("messages") if isinstance(each.get("content"), dict)]
