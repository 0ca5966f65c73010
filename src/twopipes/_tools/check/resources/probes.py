"""Resources, from the side of a client."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from twopipes._tools.check.content.blocks import faults_of_contents
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.samples import is_complete, named, quoted, read
from twopipes._tools.check.server_reply import ReceivedLine, Response

_METHOD_NOT_FOUND = -32601
_UPDATED = "notifications/resources/updated"
_NOBODY = "twopipes-check-no-such-resource"
# What an empty result may have all the same: servers of both eras put a type into all of theirs.
_ALWAYS_ALLOWED = {"_meta", "resultType"}
# As many as are subscribed to, to find the one that the test server's tool `touch` changes.
_WATCHED = 20
_PERCENT = r"%[0-9A-Fa-f]{2}"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|{_PERCENT})*")
# Schemes that are not the server's own: people write what they like into those, and everybody reads it.
_KNOWN_SCHEMES = ("file:", "http:", "https:", "git:")
# RFC 6570 has no hyphen in names; everybody reads one, so it is accepted.
_NAME = rf"(?:[A-Za-z0-9_.\-]|{_PERCENT})+(?::[1-9][0-9]{{0,3}}|\*)?"
_EXPRESSION = re.compile(rf"\{{[+#./;?&=,!@|]?{_NAME}(?:,{_NAME})*\}}")
# What stands in files that everybody can read and no server gives away: where a reader has climbed to, it shows.
_SECRETS = (re.compile(r"^root:[^:\n]*:0:0:", re.MULTILINE), re.compile(r"^\[fonts\]|^; for 16-bit app support", re.MULTILINE))
_CLIMBS = ("../" * 12 + "etc/passwd", "%2e%2e%2f" * 12 + "etc%2fpasswd", "..\\" * 12 + "windows\\win.ini")
_NO_URIS = ("", "no uri at all", "\x00")
_HERE = "twopipes-check-here"
_PLACES = 3


@probe("RS-01", needs="resources")
async def templates_are_written_as_rfc_6570_asks(case: Case) -> None:
    """The braces of each listed template hold names of variables."""
    templates = [each for each in case.features.templates if isinstance(each.get("uriTemplate"), str)]
    if not templates:
        case.give_up("the server lists no templates")
    odd = [each for each in templates if {"{", "}"} & set(_EXPRESSION.sub("", each["uriTemplate"]))]
    case.expect(
        "RS-01",
        not odd,
        f"resources/templates/list has what is no URI template: {named([each['uriTemplate'] for each in odd])}",
        fix="Write variables as {name}; RFC 6570 says what else may stand in the braces.",
        about=quoted(odd),
    )


@probe("RS-02", needs="resources")
async def resources_can_be_read(case: Case) -> None:
    """Some of the listed resources are read."""
    for resource, response in await read(case):
        if not is_complete(response):
            continue
        contents = response.result.get("contents")
        faults = [] if isinstance(contents, list) else ["contents is no array"]
        for item in contents if isinstance(contents, list) else ():
            faults += [what for rule, what in faults_of_contents(item, "RS-02") if rule == "RS-02"]
        case.expect(
            "RS-02",
            not faults,
            f"resources/read of {resource['uri']!r}: {faults[0] if faults else ''}",
            fix="Answer with contents, an array of objects with uri and text, or blob for bytes.",
            about=response,
        )
    case.give_up("no listed resource could be read")


@probe("RS-03", section_only=True, needs="resources.subscribe")
async def subscribers_are_told(case: Case) -> None:
    """The test server's tool `touch` changes a resource during a subscription to all that are listed, and after it."""
    conversation, touches = case.conversation, _may_touch(case)
    uris = watchable(case)[: None if touches else 1]
    before = await steady_contents(conversation, uris) if touches else {}
    for uri in uris:
        _judge_confirmation(case, "subscribe", uri, await conversation.request("resources/subscribe", {"uri": uri}))
    has_changed = False
    if touches:
        since = await touch(case)
        told = await _told_at_once(case, since)
        changed = "" if told is not None else await changed_since(conversation, before)
        if changed:  # some gather what there is to tell for a while
            told = await conversation.wait_for(_UPDATED, since=since)
        has_changed = told is not None or bool(changed)
        case.expect(
            "RS-03",
            not changed or told is not None,
            f"{changed!r} was subscribed to and reads differently than before, and no {_UPDATED} came",
            fix=f"Send {_UPDATED} with the uri when a resource changes, to those who have subscribed to it.",
        )
        case.expect(
            "RS-03",
            told is None or isinstance(told.params.get("uri"), str),
            f"{_UPDATED} came without the uri of the resource",
            fix="Put the uri into its params.",
            about=told,
        )
    for uri in uris:
        _judge_confirmation(case, "unsubscribe", uri, await conversation.request("resources/unsubscribe", {"uri": uri}))
    if has_changed:  # and so there is something again that nobody should be told of any more
        told = await _told_at_once(case, await touch(case))
        case.expect(
            "RS-03",
            told is None,
            f"{_UPDATED} came after all subscriptions had been ended",
            fix="Forget a subscription when resources/unsubscribe comes.",
            about=told,
        )


@probe("RS-04", section_only=True, needs="resources.subscribe")
async def others_are_not_told(case: Case) -> None:
    """The test server's tool `touch` changes a resource, without a subscription."""
    case.fixture("touch")  # or there is no need to begin
    before = await steady_contents(case.conversation, watchable(case))
    told = await _told_at_once(case, await touch(case))
    if told is None and not await changed_since(case.conversation, before):
        case.give_up("the tool 'touch' changed nothing that resources/read shows")
    case.expect(
        "RS-04",
        told is None,
        f"{_UPDATED} came to a client that has subscribed to nothing",
        fix="Keep the subscriptions of each connection, and tell only those who have subscribed to the resource.",
        about=told,
    )


def watchable(case: Case) -> list[str]:
    """The addresses that are listed, as many as are watched to find the one that the test server's tool `touch` changes.

    Raises:
        Skip: There are none.
    """
    found = [each["uri"] for each in case.features.resources if isinstance(each.get("uri"), str)]
    if not found:
        case.give_up("the server lists no resources")
    return found[:_WATCHED]


def _judge_confirmation(case: Case, what: str, uri: str, response: Response) -> None:
    more = sorted(response.result.keys() - _ALWAYS_ALLOWED)
    case.expect(
        "RS-03",
        response.is_result and not more,
        f"resources/{what} of {uri!r}, which is listed, got {response.summary}{f' with {named(more)}' if more else ''}, "
        "and not an empty result",
        fix="Answer with an empty result, or do not declare resources.subscribe.",
        about=response,
    )


def _may_touch(case: Case) -> bool:
    return any(call.name == "touch" for call in case.features.safe_calls(case.permissions))


async def touch(case: Case) -> int:
    """Calls the test server's tool `touch`, with a new text where it takes one; gives the first line that may tell of it.

    Raises:
        Skip: The server has no such tool, or it may not be called.
    """
    position = case.conversation.position
    params = case.fixture("touch")
    listed = case.features.tool("touch")
    if listed is not None and "text" in SafeCall(name="touch", arguments={}, tool=listed, why="").texts:
        params["arguments"]["text"] = (
            f"changed by the check, {case.conversation.number}.{position}"  # or the second time would change nothing
        )
    await case.conversation.request("tools/call", params)
    return position


async def _told_at_once(case: Case, since: int) -> ReceivedLine | None:
    return next((line for line in await case.conversation.quiet(since=since) if line.method == _UPDATED), None)


async def _contents(conversation: LiveConversation, uris: list[str]) -> dict[str, Any]:
    return {uri: (await conversation.request("resources/read", {"uri": uri})).result.get("contents") for uri in uris}


async def steady_contents(conversation: LiveConversation, uris: list[str]) -> dict[str, Any]:
    """What is read, of those resources that read the same twice: a clock changes all the time, and nobody is told."""
    once, again = await _contents(conversation, uris), await _contents(conversation, uris)
    return {uri: contents for uri, contents in once.items() if contents == again[uri]}


async def changed_since(conversation: LiveConversation, before: Mapping[str, Any]) -> str:
    """The first of these resources that reads differently than before; an empty text if none does."""
    after = await _contents(conversation, list(before))
    return next((uri for uri, contents in after.items() if contents != before[uri]), "")


@probe("RS-05", needs="resources", silence_fails=True)
async def the_old_subscriptions_are_gone(case: Case) -> None:
    """Both methods of the revisions with a handshake are unknown on the stateless wire."""
    uri = next((each["uri"] for each in case.features.resources if isinstance(each.get("uri"), str)), f"{_NOBODY}://")
    for method in ("resources/subscribe", "resources/unsubscribe"):
        response = await case.conversation.request(method, {"uri": uri})
        case.expect(
            "RS-05",
            response.code == _METHOD_NOT_FOUND,
            f"{method} got {response.summary}, and does not exist in {case.revision}",
            fix="Answer with -32601; subscriptions are made by subscriptions/listen with resourceSubscriptions.",
            about=response,
        )


@probe("RS-06", needs="resources", silence_fails=True)
async def what_is_not_there_is_not_empty(case: Case) -> None:
    """A resource is read that does not exist: of an unknown scheme, and beside one that does."""
    listed = [each["uri"] for each in case.features.resources if isinstance(each.get("uri"), str)]
    for uri in (f"{_NOBODY}://nowhere/nothing", *(f"{uri}/{_NOBODY}" for uri in listed[:1])):
        response = await case.conversation.request("resources/read", {"uri": uri})
        case.expect(
            "RS-06",
            not is_complete(response) or response.result.get("contents") != [],
            f"resources/read of {uri!r}, which does not exist, got a result with empty contents",
            fix="Answer with the error -32602, with the uri in its data.",
            about=response,
        )


@probe("RS-08", needs="resources")
async def climbing_leads_nowhere(case: Case) -> None:
    """URIs that climb out of every folder and those that are none give no content."""
    for uri in _NO_URIS:
        response = await case.conversation.request("resources/read", {"uri": uri})
        case.expect(
            "RS-08",
            not is_complete(response) or not _texts(response),
            f"resources/read of {uri!r}, which is no URI, gave content",
            fix="Look URIs up among those that exist, and refuse all others.",
            about=response,
        )
    if _holds_a_secret(await case.conversation.request("resources/read", {"uri": "file:///etc/passwd"})):
        return  # it serves all files there are, and means to
    for uri in _climbing(case):
        response = await case.conversation.request("resources/read", {"uri": uri})
        case.expect(
            "RS-08",
            not _holds_a_secret(response),
            "resources/read of a URI that climbs by .. gave a file of the system",
            fix="Resolve the path of a URI, links included, and refuse what does not lie below the folder that is served.",
            about=response,
        )


def _climbing(case: Case) -> list[str]:
    listed = [each["uri"] for each in case.features.resources if isinstance(each.get("uri"), str)]
    bases = sorted({uri[: uri.rfind("/") + 1] for uri in listed if "/" in uri})
    templates = [each["uriTemplate"] for each in case.features.templates if isinstance(each.get("uriTemplate"), str)]
    places = [base + _HERE for base in bases[:_PLACES]] + [_EXPRESSION.sub(_HERE, each) for each in templates[:_PLACES]]
    return [place.replace(_HERE, climb) for place in places for climb in _CLIMBS]


def _holds_a_secret(response: Response) -> bool:
    return any(secret.search(text) for secret in _SECRETS for text in _texts(response))


def _texts(response: Response) -> list[str]:
    contents = response.result.get("contents")
    items = [each for each in contents if isinstance(each, dict)] if isinstance(contents, list) else []
    found = [item["text"] for item in items if isinstance(item.get("text"), str)]
    for item in items:
        if isinstance(item.get("blob"), str):
            with suppress(ValueError):
                found.append(b64decode(item["blob"]).decode("latin-1"))
    return found


@probe("RS-09", needs="resources")
async def listed_uris_are_uris(case: Case) -> None:
    """Each listed URI has a scheme and, where that is the server's own, nothing but the characters of a URI."""
    resources = [each for each in case.features.resources if isinstance(each.get("uri"), str)]
    if not resources:
        case.give_up("the server lists no resources")
    odd = [each for each in resources if not _is_uri(each["uri"])]
    case.expect(
        "RS-09",
        not odd,
        f"resources/list has what is no URI as RFC 3986 has them: {named([each['uri'] for each in odd])}",
        fix="Begin with a scheme, and encode all that is no letter, digit or mark of a URI by percent signs.",
        about=quoted(odd),
    )


def _is_uri(text: str) -> bool:
    return text.lower().startswith(_KNOWN_SCHEMES) or _URI.fullmatch(text) is not None


@probe("RS-11", needs="resources")
async def subscribing_takes_the_capability(case: Case) -> None:
    """A server that has not declared subscribe is asked for it."""
    if case.features.has("resources.subscribe"):
        case.give_up("the server declares resources.subscribe")
    uri = next((each["uri"] for each in case.features.resources if isinstance(each.get("uri"), str)), f"{_NOBODY}://")
    response = await case.conversation.request("resources/subscribe", {"uri": uri})
    case.expect(
        "RS-11",
        response.code == _METHOD_NOT_FOUND,
        f"resources/subscribe, which was not declared, got {response.summary}",
        fix="Answer with -32601, or declare resources.subscribe.",
        about=response,
    )
