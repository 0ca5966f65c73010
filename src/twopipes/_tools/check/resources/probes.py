"""Resources of servers."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._tools.check.content.blocks import faults_of_contents
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import ReceivedLine, Response
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.samples import is_complete, named, quoted, read

_UPDATED = "notifications/resources/updated"
_UNKNOWN = "twopipes-check-no-such-resource"
# The members that an empty result may have: servers of both eras add a type to every result.
_ALWAYS_ALLOWED = {"_meta", "resultType"}
# The number of subscriptions, to find the resource that the tool `touch` of test servers changes.
_WATCHED = 20
_PERCENT = r"%[0-9A-Fa-f]{2}"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|{_PERCENT})*")
# In URIs of well-known schemes, invalid characters are common and accepted.
_KNOWN_SCHEMES = ("file:", "http:", "https:", "git:")
# RFC 6570 has no hyphen in names; it is accepted, since all implementations do.
_NAME = rf"(?:[A-Za-z0-9_.\-]|{_PERCENT})+(?::[1-9][0-9]{{0,3}}|\*)?"
_EXPRESSION = re.compile(rf"\{{[+#./;?&=,!@|]?{_NAME}(?:,{_NAME})*\}}")
# The contents of files that every user can read, but that no server should return: /etc/passwd and win.ini.
_SYSTEM_FILES = (re.compile(r"^root:[^:\n]*:0:0:", re.MULTILINE), re.compile(r"^\[fonts\]|^; for 16-bit app support", re.MULTILINE))
_TRAVERSALS = ("../" * 12 + "etc/passwd", "%2e%2e%2f" * 12 + "etc%2fpasswd", "..\\" * 12 + "windows\\win.ini")
_INVALID_URIS = ("", "no uri at all", "\x00")
_HERE = "twopipes-check-here"
_PLACES = 3


@probe("RS-01", needs="resources")
async def templates_follow_rfc_6570(case: Case) -> None:
    """The braces of each listed template contain names of variables."""
    templates = [each for each in case.features.templates if isinstance(each.get("uriTemplate"), str)]
    if not templates:
        case.give_up("the server lists no templates")
    invalid = [each for each in templates if {"{", "}"} & set(_EXPRESSION.sub("", each["uriTemplate"]))]
    why = f"resources/templates/list has invalid URI templates: {named([each['uriTemplate'] for each in invalid])}"
    case.expect("RS-01", not invalid, why, about=quoted(invalid))


@probe("RS-02", needs="resources")
async def resources_can_be_read(case: Case) -> None:
    """Some of the listed resources are read."""
    for resource, response in await read(case):
        if is_complete(response):
            contents = response.result.get("contents")
            faults = [] if isinstance(contents, list) else ["contents is not an array"]
            for item in contents if isinstance(contents, list) else ():
                faults += [fault for rule, fault in faults_of_contents(item, "RS-02") if rule == "RS-02"]
            case.expect("RS-02", not faults, f"resources/read of {resource['uri']!r}: {'; '.join(faults[:1])}", about=response)
    case.give_up("no listed resource could be read")


@probe("RS-03", section_only=True, needs="resources.subscribe")
async def subscribers_are_notified(case: Case) -> None:
    """The tool `touch` of test servers changes a resource during a subscription to all listed ones, and after it."""
    conversation = case.conversation
    has_touch = any(call.name == "touch" for call in case.safe_calls)
    uris = watchable(case)[: None if has_touch else 1]
    before = await steady_contents(conversation, uris) if has_touch else {}
    await _judge_confirmations(case, "resources/subscribe", uris)
    changed: str | bool = False
    if has_touch:
        since = await touch(case)
        update = await _update_at_once(case, since)
        changed = update is not None or await changed_since(conversation, before)
        if update is None and changed:  # some servers collect notifications for a while
            update = await conversation.wait_for(_UPDATED, since=since)
        case.expect("RS-03", not changed or update, f"{changed!r} is subscribed to and has changed, but no {_UPDATED} was sent")
        has_uri = update is None or isinstance(update.params.get("uri"), str)
        case.expect("RS-03", has_uri, f"{_UPDATED} has no uri", about=update)
    await _judge_confirmations(case, "resources/unsubscribe", uris)
    if changed:  # so the next call changes something as well
        late = await _update_at_once(case, await touch(case))
        case.forbid("RS-03", late, f"{_UPDATED} was sent after all subscriptions had ended")


async def _judge_confirmations(case: Case, method: str, uris: list[str]) -> None:
    for uri in uris:
        response = await case.conversation.request(method, {"uri": uri})
        more = sorted(response.result.keys() - _ALWAYS_ALLOWED)
        got = f"{response.summary}{f' with {named(more)}' if more else ''}"
        why = f"{method} of the listed {uri!r} got {got}, not an empty result"
        case.expect("RS-03", response.is_result and not more, why, about=response)


@probe("RS-04", section_only=True, needs="resources.subscribe")
async def others_are_not_notified(case: Case) -> None:
    """The tool `touch` of test servers changes a resource, without a subscription."""
    case.fixture("touch")  # skips early if there is no such tool
    before = await steady_contents(case.conversation, watchable(case))
    update = await _update_at_once(case, await touch(case))
    if update is None and not await changed_since(case.conversation, before):
        case.give_up("the tool 'touch' changed nothing that resources/read shows")
    case.forbid("RS-04", update, f"{_UPDATED} was sent to a client without subscriptions")


def watchable(case: Case) -> list[str]:
    """Return listed URIs to watch, one of which the tool `touch` may change; skip the probe if there are none."""
    return case.features.uris[:_WATCHED] or case.give_up("the server lists no resources")


async def touch(case: Case) -> int:
    """Call the tool `touch` of test servers, with a new text if it takes one; return the position before the call."""
    position = case.conversation.position
    params = case.fixture("touch")
    listed = case.features.tool("touch")
    if listed is not None and "text" in SafeCall(name="touch", arguments={}, tool=listed, why="").texts:
        # A different text each time, or the second call would change nothing.
        params["arguments"]["text"] = f"changed by the check, {case.conversation.number}.{position}"
    await case.conversation.request("tools/call", params)
    return position


async def _update_at_once(case: Case, since: int) -> ReceivedLine | None:
    return next((line for line in await case.conversation.quiet(since=since) if line.method == _UPDATED), None)


async def _contents(conversation: LiveConversation, uris: list[str]) -> dict[str, Any]:
    return {uri: (await conversation.request("resources/read", {"uri": uri})).result.get("contents") for uri in uris}


async def steady_contents(conversation: LiveConversation, uris: list[str]) -> dict[str, Any]:
    """Return the contents of resources that are the same twice; a clock, for example, changes without notifications."""
    once, again = await _contents(conversation, uris), await _contents(conversation, uris)
    return {uri: contents for uri, contents in once.items() if contents == again[uri]}


async def changed_since(conversation: LiveConversation, before: Mapping[str, Any]) -> str:
    """Return the first of these resources that has changed; empty if there is none."""
    after = await _contents(conversation, list(before))
    return next((uri for uri, contents in after.items() if contents != before[uri]), "")


@probe("RS-05", needs="resources", silence_fails=True)
async def modern_revisions_have_no_subscribe(case: Case) -> None:
    """In modern revisions resources/subscribe and resources/unsubscribe are unknown methods."""
    for method in ("resources/subscribe", "resources/unsubscribe"):
        response = await case.conversation.request(method, {"uri": _any_uri(case)})
        case.expect_code("RS-05", response, METHOD_NOT_FOUND, f"{method}, which {case.revision} does not have,")


def _any_uri(case: Case) -> str:
    return next(iter(case.features.uris), f"{_UNKNOWN}://")


@probe("RS-06", needs="resources", silence_fails=True)
async def unknown_resources_are_not_empty(case: Case) -> None:
    """Unknown resources are read: one of an unknown scheme, and one below a listed resource."""
    for uri in (f"{_UNKNOWN}://nowhere/nothing", *(f"{uri}/{_UNKNOWN}" for uri in case.features.uris[:1])):
        response = await case.conversation.request("resources/read", {"uri": uri})
        is_empty = is_complete(response) and response.result.get("contents") == []
        case.expect("RS-06", not is_empty, f"resources/read of the unknown {uri!r} got empty contents", about=response)


@probe("RS-08", needs="resources")
async def path_traversals_return_nothing(case: Case) -> None:
    """Invalid URIs, and URIs that leave every folder, return no content."""

    async def request(uri: str) -> Response:
        return await case.conversation.request("resources/read", {"uri": uri})

    for uri in _INVALID_URIS:
        response = await request(uri)
        why = f"resources/read of {uri!r}, which is not a URI, returned content"
        case.expect("RS-08", not is_complete(response) or not _texts(response), why, about=response)
    if _is_system_file(await request("file:///etc/passwd")):
        return  # the server intentionally serves all files
    for uri in _traversals(case):
        response = await request(uri)
        case.expect("RS-08", not _is_system_file(response), "resources/read with .. returned a file of the system", about=response)


def _traversals(case: Case) -> list[str]:
    bases = sorted({uri[: uri.rfind("/") + 1] for uri in case.features.uris if "/" in uri})
    templates = [each["uriTemplate"] for each in case.features.templates if isinstance(each.get("uriTemplate"), str)]
    places = [base + _HERE for base in bases[:_PLACES]] + [_EXPRESSION.sub(_HERE, each) for each in templates[:_PLACES]]
    return [place.replace(_HERE, traversal) for place in places for traversal in _TRAVERSALS]


def _is_system_file(response: Response) -> bool:
    return any(pattern.search(text) for pattern in _SYSTEM_FILES for text in _texts(response))


def _texts(response: Response) -> list[str]:
    found = [item.get("text") for item in response.items("contents")]
    for item in response.items("contents"):
        with suppress(KeyError, TypeError, ValueError):  # there is no blob, or it is not base64
            found.append(b64decode(item["blob"]).decode("latin-1"))
    return [text for text in found if isinstance(text, str)]


@probe("RS-09", needs="resources")
async def listed_uris_are_valid(case: Case) -> None:
    """Each listed URI has a scheme and, unless the scheme is well known, only characters that a URI may have."""
    uris = case.features.uris or case.give_up("the server lists no resources")
    invalid = [uri for uri in uris if not uri.lower().startswith(_KNOWN_SCHEMES) and not _URI.fullmatch(uri)]
    listed = [each for each in case.features.resources if each.get("uri") in invalid]
    case.expect("RS-09", not invalid, f"resources/list has URIs that break RFC 3986: {named(invalid)}", about=quoted(listed))


@probe("RS-11", needs="resources")
async def subscribing_needs_the_capability(case: Case) -> None:
    """resources/subscribe is sent to a server that does not declare it."""
    if case.features.has("resources.subscribe"):
        case.give_up("the server declares resources.subscribe")
    response = await case.conversation.request("resources/subscribe", {"uri": _any_uri(case)})
    case.expect_code("RS-11", response, METHOD_NOT_FOUND, "resources/subscribe, which is not declared,")
