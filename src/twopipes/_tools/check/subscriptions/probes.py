"""Subscriptions of servers.

Changes are made by two tools of test servers: ``mutate`` adds or removes a tool, and ``touch`` changes a resource. If the check
may not call them, only acknowledgements and silence are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopipes._codes import METHOD_NOT_FOUND
from twopipes._process.exit_status import SIGTERM
from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import ReceivedLine, members, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.resources.probes import changed_since, steady_contents, touch, watchable
from twopipes._tools.check.samples import walked
from twopipes._tools.check.setups import acknowledgement, acknowledgements, listening, opened_listen, stop_listening
from twopipes._tools.check.verdict import Skip
from twopipes._trace.judges.values import shown
from twopipes._wire import encode_line

_CANCELLED = "notifications/cancelled"
_UPDATED = "notifications/resources/updated"
_TOOLS_CHANGED = "notifications/tools/list_changed"
_LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
_CHANGES = {_UPDATED, *(f"notifications/{kind}/list_changed" for kind in _LISTS.values())}
_EVERYTHING: Mapping[str, Any] = dict.fromkeys(_LISTS, True)
_TOOLS: Mapping[str, Any] = {"toolsListChanged": True}
# Two ids that differ only in their JSON types.
_NUMBER, _TEXT = 707, "707"
_MANY = 400


def _tag(line: ReceivedLine) -> Any:
    return line.meta.get(META_SUBSCRIPTION_ID)


def _lines_of(conversation: LiveConversation, request_id: Any) -> list[ReceivedLine]:
    """Return the notifications that carry the id of a listen."""
    return [line for line in conversation.received_lines if line.method is not None and same_id(_tag(line), request_id)]


def _changes(lines: Sequence[ReceivedLine]) -> list[ReceivedLine]:
    return [line for line in lines if line.method in _CHANGES]


async def _tools_change(conversation: LiveConversation, request_id: Any, since: int) -> ReceivedLine | None:
    """Wait for the notification of a listen that the tools have changed."""
    return await conversation.wait_for(lambda line: line.method == _TOOLS_CHANGED and same_id(_tag(line), request_id), since=since)


@probe("SU-02", "SU-04", "SU-05", "SU-10", "SU-11", needs=("call", "tools.listChanged"), section_only=True)
async def changes_are_announced_to_listens(case: Case) -> None:
    """The tools change before there is a listen, with three listens, and after one of them has ended."""
    # The first probe of the section, so there is no subscription yet.
    conversation, mutate = case.conversation, case.fixture("mutate")
    await conversation.request("tools/call", mutate)
    early = _changes(await conversation.quiet(since=0))
    if early:
        _judge_stray(case, early)
    # Together with the change, so that a hasty server announces it before the acknowledgement.
    asked = conversation.message("subscriptions/listen", {"notifications": _TOOLS})
    change = conversation.message("tools/call", mutate)
    conversation.send(encode_line(asked) + encode_line(change))
    first = asked["id"]
    if await opened_listen(conversation, first) is None:
        raise Skip("the server did not acknowledge a listen")
    await conversation.response_to(change["id"])
    second = await listening(conversation, _TOOLS)
    other = await listening(conversation, {**_EVERYTHING, "toolsListChanged": False})
    since = conversation.position
    await conversation.request("tools/call", mutate)
    announced = [await _tools_change(conversation, each, since) for each in (first, second)]
    untagged = [line for line in _changes(conversation.received_lines) if _tag(line) is None]
    case.forbid("SU-04", untagged, "a change was announced without the id of a listen")
    if not any(announced):
        raise Skip("nothing was announced after a call of mutate, so the check cannot tell whether anything has changed")
    _judge_stray(case, early)  # it is known by now that there was something to announce
    case.expect("SU-10", all(announced), "of two listens for the same changes, only one got the notification")
    opening = _lines_of(conversation, first)[0]
    is_first = opening is acknowledgement(conversation, first)
    case.expect("SU-02", is_first, "the first message of a subscription was not its acknowledgement", about=opening)
    await conversation.quiet()
    wrong = [line for line in _lines_of(conversation, other) if line.method == _TOOLS_CHANGED]
    case.forbid("SU-05", wrong, "a change of tools was announced to a listen for prompts and resources")
    await _judge_cancelled(case, first, second, mutate)
    stop_listening(conversation, second, other)


def _judge_stray(case: Case, lines: Sequence[ReceivedLine]) -> None:
    case.forbid("SU-05", lines, lambda line: f"{line.method} was sent without a subscription")


async def _judge_cancelled(case: Case, first: Any, second: Any, mutate: dict[str, Any]) -> None:
    conversation = case.conversation
    stop_listening(conversation, first)
    await conversation.quiet()
    since = conversation.position
    await conversation.request("tools/call", mutate)
    announced = await _tools_change(conversation, second, since)
    await conversation.quiet()
    _judge_silence(case, first, since)
    case.expect("SU-11", announced, "after one listen was cancelled, another one got no notifications any more")


def _judge_silence(case: Case, request_id: Any, since: int) -> None:
    late = [line for line in _lines_of(case.conversation, request_id) if line.number >= since]
    case.forbid("SU-11", late, lambda line: f"{line.method} was sent for a cancelled listen")
    case.forbid("SU-11", case.conversation.responses_to(request_id), "a cancelled listen got a response")


@probe("SU-01", judged=False)
async def a_listen_without_notifications_promises_nothing(case: Case) -> None:
    """A listen without ``notifications`` is rejected, or acknowledged with nothing."""
    conversation = case.conversation
    request_id = conversation.start("subscriptions/listen", {})
    acknowledged = await opened_listen(conversation, request_id)
    response = conversation.response(request_id)
    if acknowledged is not None:
        stop_listening(conversation, request_id)
    elif response is None:
        raise Skip("a listen without notifications was neither acknowledged nor rejected")
    elif response.code == METHOD_NOT_FOUND:
        raise Skip(f"a listen got {response.summary}")
    promised = acknowledged.params.get("notifications") if acknowledged is not None else None
    case.expect("SU-01", not promised, f"a listen without notifications was promised {shown(promised)}", about=acknowledged)
    has_result = response is not None and response.is_result
    case.expect("SU-01", not has_result, "a listen without notifications got a result", about=response)


@probe("SU-02", "SU-04", "SU-06", "SU-11", "SU-12", "SU-17", section_only=True)
async def a_listen_is_acknowledged_and_stays_open(case: Case) -> None:
    """Two listens, whose ids differ only in their JSON types, are acknowledged and stay open."""
    conversation, since = case.conversation, case.conversation.position
    # Whether a kind is acknowledged that was not asked for is judged passively.
    conversation.start("subscriptions/listen", {"notifications": {**_EVERYTHING, **_one_resource(case)}}, request_id=_NUMBER)
    conversation.start("subscriptions/listen", {"notifications": _TOOLS}, request_id=_TEXT)
    for request_id in (_NUMBER, _TEXT):
        acknowledged = await opened_listen(conversation, request_id)
        if acknowledged is None:
            _judge_refusal(case, request_id, acknowledgements(conversation, since))
        else:
            _judge_acknowledgement(case, request_id, acknowledged)
    await conversation.quiet()
    responses = [*conversation.responses_to(_NUMBER), *conversation.responses_to(_TEXT)]
    case.forbid("SU-12", responses, lambda response: f"a listen that was acknowledged got a response at once: {response.summary}")
    still_open = [each for each in (_NUMBER, _TEXT) if acknowledgement(conversation, each) and not conversation.response(each)]
    since = conversation.position
    stop_listening(conversation, _NUMBER, _TEXT)
    await conversation.quiet()
    for request_id in still_open:
        _judge_silence(case, request_id, since)


def _judge_refusal(case: Case, request_id: Any, found: list[ReceivedLine]) -> None:
    """Judge a listen that was not acknowledged under its id; ``found`` has the acknowledgements of both listens."""
    response = case.conversation.response(request_id)
    if response is not None:
        if response.is_result:
            case.expect("SU-12", False, "a listen got a result instead of an acknowledgement", about=response)
        elif response.code == METHOD_NOT_FOUND:
            announces = any(case.features.has(f"{kind}.listChanged") for kind in _LISTS.values())
            case.expect("SU-17", not announces, f"listChanged is declared, and a listen got {response.summary}", about=response)
        raise Skip(f"a listen got {response.summary}")
    mistagged = [line for line in found if not same_id(_tag(line), _NUMBER) and not same_id(_tag(line), _TEXT)]
    if mistagged or len(found) > 1:
        case.forbid("SU-04", mistagged or found, f"the acknowledgement of the listen {shown(request_id)} has another id or type")
        return
    case.expect("SU-17", False, "a listen was neither acknowledged nor rejected")
    case.expect("SU-02", False, f"the listen {shown(request_id)} was not acknowledged")


def _judge_acknowledgement(case: Case, request_id: Any, acknowledged: ReceivedLine) -> None:
    case.expect("SU-17", True)
    first = _lines_of(case.conversation, request_id)[0]
    given = acknowledged.params.get("notifications")
    why = f"the first message of the listen {shown(request_id)} was not an acknowledgement with notifications"
    if not case.expect("SU-02", first is acknowledged and isinstance(given, dict), why, about=first) or given is None:
        return
    case.expect("SU-04", True)
    capabilities = case.features.capabilities
    promised = _uris(given)
    wrong = [name for name, kind in _LISTS.items() if given.get(name) and _cannot_change(capabilities, kind)]
    if promised and _cannot_change(capabilities, "resources", "subscribe"):
        wrong.append("resourceSubscriptions")
    strange = sorted(set(map(_plain, promised)) - set(map(_plain, _uris(_one_resource(case)))))
    if strange and same_id(request_id, _NUMBER):
        case.expect("SU-06", False, f"the URI {strange[0]!r} was acknowledged, and not asked for", about=acknowledged)
    case.expect("SU-06", not wrong, f"{' and '.join(wrong)} was acknowledged, but is not declared", about=acknowledged)


@probe("SU-09", needs=("call", "resources.subscribe"), section_only=True)
async def updates_are_announced_for_watched_resources(case: Case) -> None:
    """A resource changes that one listen watches and another does not."""
    case.fixture("touch")  # skips early if there is no such tool
    listens: list[Any] = []
    try:
        await _judge_updates(case, watchable(case), listens)
    finally:
        stop_listening(case.conversation, *listens)


async def _judge_updates(case: Case, uris: list[str], listens: list[Any]) -> None:
    conversation = case.conversation
    first = await _update(case, uris, listens)
    if first is None:
        return
    uri = first.params.get("uri")
    others = [each for each in uris if uri != each and not str(uri).startswith(each.rstrip("/") + "/")][:1]
    if uri not in uris or not others:
        raise Skip("the resource that a call of touch changed is not listed, or there is no other one to watch")
    listens.append(await listening(conversation, {"resourceSubscriptions": others}))
    another = listens[-1]
    if await _update(case, [uri], listens) is not None:
        await conversation.quiet()
        wrong = [line for line in _lines_of(conversation, another) if line.method == _UPDATED]
        case.forbid("SU-09", wrong, f"a change of {uri} was announced to a listen that names another resource")


async def _update(case: Case, watched: list[str], listens: list[Any]) -> ReceivedLine | None:
    """Call `touch` with one more listen, and return its notification; ``None`` if its absence breaks the rule."""
    conversation = case.conversation
    listen = await listening(conversation, {"resourceSubscriptions": watched})
    listens.append(listen)
    acknowledged = acknowledgement(conversation, listen)
    promised = _uris(acknowledged.params.get("notifications")) if acknowledged is not None else []
    before = await steady_contents(conversation, [uri for uri in watched if uri in promised])
    since = await touch(case)

    def is_update(line: ReceivedLine) -> bool:
        return line.method == _UPDATED and same_id(_tag(line), listen)

    found = await conversation.wait_for(is_update, since=since, within=conversation.timeouts.grace)
    if found is None:
        changed = await changed_since(conversation, before)
        if not changed:
            raise Skip("a call of touch changed nothing that was listened for and that resources/read shows")
        found = await conversation.wait_for(is_update, since=since)  # some servers collect notifications for a while
        case.expect("SU-09", found, f"{changed} has changed, and this was not announced to the listen that names it")
    return found


@probe("SU-13", "SU-14", fresh_conversation=True, needs="process")
async def an_end_is_announced(case: Case) -> None:
    """A server that is asked to terminate ends its subscriptions."""
    conversation = case.conversation
    listens = [await listening(conversation, _EVERYTHING) for _ in range(2)]
    if conversation.child is None:
        raise Skip("there is no process to send a signal to")
    conversation.child.signal(SIGTERM)
    await conversation.ended()
    status = await conversation.exit()
    if status is None or status.code != 0:
        raise Skip("the signal ended the process at once, or not at all: it was not shut down in order")
    for request_id in listens:
        _judge_end(case, request_id)


def _judge_end(case: Case, request_id: Any) -> None:
    conversation = case.conversation
    response = conversation.response(request_id)
    result = response.result if response is not None else {}
    is_tagged = same_id(members(result.get("_meta")).get(META_SUBSCRIPTION_ID), request_id)
    got = "no response" if response is None else "a response that is not a complete result with its id"
    why = f"the server was shut down in order, and the open listen {request_id} got {got}"
    case.expect("SU-13", result.get("resultType") == "complete" and is_tagged, why, about=response)
    cancels = [line for line in conversation.received_lines if line.method == _CANCELLED]
    mine = [line for line in cancels if same_id(line.params.get("requestId"), request_id)]
    if not cancels and response is None:
        case.skip("SU-14", "the end was not announced in any way; see SU-13")
    elif late := [line for line in mine if response is not None and line.number > response.received_line.number]:
        case.forbid("SU-14", late, "a subscription was cancelled after its result")
    else:
        case.forbid("SU-14", cancels if not mine else None, f"notifications/cancelled was sent, but not for {request_id}")


@probe("SU-16", fresh_conversation=True, needs=("tool:mutate", "tools.listChanged"))
async def a_connection_leaves_no_listens(case: Case) -> None:
    """A listen of a closed connection is not served on the next one."""
    mutate = case.fixture("mutate")
    await listening(case.conversation, _TOOLS)
    await case.conversation.close()
    conversation = await case.open_conversation()
    before = await walked(conversation, "tools")
    await conversation.request("tools/call", mutate)
    stray = _changes(await conversation.quiet(since=0))
    if not stray and await walked(conversation, "tools") == before:
        raise Skip("the tool 'mutate' changed nothing that tools/list shows")
    case.forbid("SU-16", stray, lambda line: f"on a new connection, {line.method} was sent for a listen of the previous one")


@probe("SU-18", fresh_conversation=True)
async def very_many_listens_are_acknowledged_or_rejected(case: Case) -> None:
    """Each of some hundred listens gets an acknowledgement or a response, and the server continues."""
    conversation = case.conversation
    await listening(conversation, _TOOLS)
    ids = [conversation.start("subscriptions/listen", {"notifications": _TOOLS}) for _ in range(_MANY)]
    for request_id in ids:
        if await opened_listen(conversation, request_id) is None and conversation.response(request_id) is None:
            break
    acknowledged = [_tag(line) for line in acknowledgements(conversation)]
    silent = [each for each in ids if each not in acknowledged and conversation.response(each) is None]
    case.expect("SU-18", not silent, f"of {_MANY} listens, {len(silent)} were neither acknowledged nor rejected")
    later = await conversation.try_request(case.harmless)
    if later.silence:
        case.expect("SU-18", False, f"after {_MANY} listens, {case.harmless} got {later.summary}")


def _cannot_change(capabilities: Mapping[str, Any], kind: str, flag: str = "listChanged") -> bool:
    """Return whether a server does not declare a feature, or denies that it changes. One that is silent is not judged."""
    declared = capabilities.get(kind)
    return declared is None or (isinstance(declared, dict) and declared.get(flag) is False)


def _one_resource(case: Case) -> dict[str, list[str]]:
    return {"resourceSubscriptions": case.features.uris[:1]} if case.features.uris else {}


def _uris(filters: Any) -> list[str]:
    found = members(filters).get("resourceSubscriptions")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _plain(uri: str) -> str:
    """Return a URI without the differences that a library may cause."""
    return uri.rstrip("/").lower()
