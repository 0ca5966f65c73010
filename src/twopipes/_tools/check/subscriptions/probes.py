"""Subscriptions, from the side of a client that listens.

Changes are made by two tools that test servers have: ``mutate``, which adds or removes a tool, and ``touch``, which changes a
resource. Without them, or without leave to call them, only acknowledgements and silence are judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._process.exit_status import SIGTERM
from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import LiveConversation, NoResponse, ReceivedLine, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import shown
from twopipes._tools.check.resources.probes import changed_since, steady_contents, touch, watchable
from twopipes._tools.check.samples import walked
from twopipes._tools.check.verdict import Skip
from twopipes._wire import encode_line

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_CANCELLED = "notifications/cancelled"
_UPDATED = "notifications/resources/updated"
_TOOLS_CHANGED = "notifications/tools/list_changed"
_LISTS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
_CHANGES = {_UPDATED, *(f"notifications/{kind}/list_changed" for kind in _LISTS.values())}
_EVERYTHING: Mapping[str, Any] = dict.fromkeys(_LISTS, True)
# Two ids that only their JSON types tell apart.
_NUMBER, _TEXT = 707, "707"
_MANY = 400
_NO_SUCH_METHOD = -32601
_MEND_LEAVE = "Forget the listen that is cancelled, answer nothing, and leave the others as they are."
_MEND_UPDATES = "Tell of an update on the listens that name its URI in resourceSubscriptions, and on no others."
_MEND_TAG = f"Put the id of the listen request, with its JSON type, into _meta under {META_SUBSCRIPTION_ID}."


@probe("SU-02", "SU-04", "SU-05", "SU-10", "SU-11", needs=("call", "tools.listChanged"), section_only=True)
async def changes_are_told_to_those_who_listen(case: Case) -> None:
    """A tool comes or goes, before anybody listens, while three do, and when one of them has left."""
    # The first of the section, so there is no subscription yet.
    conversation, mutate = case.conversation, case.fixture("mutate")
    await conversation.request("tools/call", mutate)
    early = _first_change(await conversation.quiet(since=0))
    if early is not None:
        _judge_early(case, early)
    # In one piece with the change, so that a server that is in a hurry tells of it before it acknowledges.
    asked = conversation.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    change = conversation.message("tools/call", mutate)
    conversation.send(encode_line(asked) + encode_line(change))
    first = asked["id"]
    if await _opened(conversation, first) is None:
        raise Skip("the server did not acknowledge a listen")
    await conversation.response_to(change["id"])
    second = await _listening(conversation, {"toolsListChanged": True})
    other = await _listening(conversation, {"toolsListChanged": False, "promptsListChanged": True, "resourcesListChanged": True})
    begin = conversation.position
    await conversation.request("tools/call", mutate)
    told = {each: await _told(conversation, each, begin) for each in (first, second)}
    untagged = next((line for line in conversation.received_lines if line.method in _CHANGES and _tag(line) is None), None)
    case.expect("SU-04", untagged is None, "a change was told without the id of a listen", fix=_MEND_TAG, about=untagged)
    if not any(told.values()):
        raise Skip("nothing was told after a call of mutate, so the check does not know whether anything has changed")
    _judge_early(case, early)  # now it is known that there was something to tell
    case.expect(
        "SU-10",
        all(told.values()),
        "of two listens for the same changes, only one was told",
        fix="Send a copy of the notification for each listen that matches.",
    )
    respond_early = _of(conversation, first)
    case.expect(
        "SU-02",
        respond_early and respond_early[0].method == _ACKNOWLEDGED,
        "the first message of a subscription was not its acknowledgement",
        fix="Acknowledge a listen before anything is sent for it.",
        about=respond_early[0] if respond_early else None,
    )
    await conversation.quiet()
    wrong = next((line for line in _of(conversation, other) if line.method == _TOOLS_CHANGED), None)
    case.expect(
        "SU-05",
        wrong is None,
        "a listen for prompts and resources was told of a tool",
        fix="Compare each change with the filter of each listen.",
        about=wrong,
    )
    await _judge_leaving(case, first, second, mutate)
    _leave(conversation, second, other)


def _judge_early(case: Case, early: ReceivedLine | None) -> None:
    case.expect(
        "SU-05",
        early is None,
        f"{'' if early is None else early.method} came without a subscription",
        fix="Send changes on open listens alone.",
        about=early,
    )


@probe("SU-01", judged=False)
async def a_listen_for_nothing_in_particular_promises_nothing(case: Case) -> None:
    """A listen without ``notifications`` is refused, or acknowledged with nothing."""
    conversation = case.conversation
    request_id = conversation.start("subscriptions/listen", {})
    acknowledged = await _opened(conversation, request_id)
    response = next(iter(conversation.responses_to(request_id)), None)
    if acknowledged is not None:
        _leave(conversation, request_id)
    elif response is None:
        raise Skip("a listen without notifications was neither acknowledged nor refused")
    elif response.code == _NO_SUCH_METHOD:
        raise Skip(f"a listen got {response.summary}")
    promised = acknowledged.params.get("notifications") if acknowledged is not None else None
    fix = "Refuse a listen without notifications with -32602, and acknowledge nothing."
    case.expect(
        "SU-01",
        not promised,
        f"a listen that does not say what for was acknowledged, with {shown(promised)}",
        fix=fix,
        about=acknowledged,
    )
    case.expect(
        "SU-01",
        response is None or not response.is_result,
        "a listen that does not say what for was answered with a result",
        fix=fix,
        about=response,
    )


@probe("SU-02", "SU-04", "SU-06", "SU-11", "SU-12", "SU-17", section_only=True)
async def a_listen_is_acknowledged_and_stays_open(case: Case) -> None:
    """Two listens, for much and for little, whose ids differ in their JSON types alone, are acknowledged and stay open."""
    conversation, begin = case.conversation, case.conversation.position
    # Whether a kind is acknowledged that was not asked for is judged with everything else that was said.
    conversation.start("subscriptions/listen", {"notifications": {**_EVERYTHING, **_one_resource(case)}}, request_id=_NUMBER)
    conversation.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, request_id=_TEXT)
    for request_id in (_NUMBER, _TEXT):
        _judge_opening(case, request_id, await _opened(conversation, request_id), begin)
    await conversation.quiet()
    for request_id in (_NUMBER, _TEXT):
        response = next(iter(conversation.responses_to(request_id)), None)
        case.expect(
            "SU-12",
            response is None,
            f"a listen that was acknowledged was answered at once, with {'' if response is None else response.summary}",
            fix="Keep the request open; answer it when the subscription ends.",
            about=response,
        )
    left = [each for each in (_NUMBER, _TEXT) if _acknowledgement(conversation, each) and not conversation.responses_to(each)]
    begin = conversation.position
    _leave(conversation, _NUMBER, _TEXT)
    await conversation.quiet()
    for request_id in left:
        _judge_silence(case, request_id, begin)


@probe("SU-09", needs=("call", "resources.subscribe"), section_only=True)
async def only_watched_resources_are_told_of(case: Case) -> None:
    """A resource changes that one listen watches and another does not."""
    case.fixture("touch")  # or there is no need to begin
    listens: list[Any] = []
    try:
        await _judge_updates(case, watchable(case), listens)
    finally:
        _leave(case.conversation, *listens)


async def _judge_updates(case: Case, uris: list[str], listens: list[Any]) -> None:
    conversation = case.conversation
    first = await _update(case, uris, listens)
    if first is None:
        return
    uri = first.params.get("uri")
    others = [each for each in uris if not _is_within(str(uri), each)][:1]
    if uri not in uris or not others:
        raise Skip("the resource that a call of touch changed is not listed, or there is no other one to watch")
    another = await _listening(conversation, {"resourceSubscriptions": others})
    listens.append(another)
    if await _update(case, [uri], listens) is None:
        return
    await conversation.quiet()
    wrong = next((line for line in _of(conversation, another) if line.method == _UPDATED), None)
    why = f"a listen that names another resource was told that {uri} has changed"
    case.expect("SU-09", wrong is None, why, fix=_MEND_UPDATES, about=wrong)


async def _update(case: Case, watched: list[str], listens: list[Any]) -> ReceivedLine | None:
    """What one more listen, for these resources, is told when `touch` is called; ``None`` where that breaks the rule.

    Raises:
        Skip: Nothing has changed that the server has promised to tell of.
    """
    conversation = case.conversation
    listen = await _listening(conversation, {"resourceSubscriptions": watched})
    listens.append(listen)
    acknowledged = _acknowledgement(conversation, listen)
    promised = _uris(acknowledged.params.get("notifications")) if acknowledged is not None else []
    before = await steady_contents(conversation, [uri for uri in watched if uri in promised])
    since = await touch(case)

    def tells(line: ReceivedLine) -> bool:
        return line.method == _UPDATED and same_id(_tag(line), listen)

    found = await conversation.wait_for(tells, since=since, within=conversation.timeouts.grace)
    if found is not None:
        return found
    changed = await changed_since(conversation, before)
    if not changed:
        raise Skip("a call of touch changed nothing that was listened for and that resources/read shows")
    found = await conversation.wait_for(tells, since=since)  # some gather what there is to tell for a while
    case.expect("SU-09", found, f"{changed} has changed, and the listen that names it was not told", fix=_MEND_UPDATES)
    return found


@probe("SU-13", "SU-14", fresh_conversation=True, needs="process")
async def an_end_is_told(case: Case) -> None:
    """A server that is asked to terminate tells those who listen."""
    conversation = case.conversation
    ids = [await _listening(conversation, _EVERYTHING) for _ in range(2)]
    if conversation.child is None:
        raise Skip("there is no process to send a signal to")
    conversation.child.signal(SIGTERM)
    await conversation.ended()
    status = await conversation.exit()
    if status is None or status.code != 0:
        raise Skip("the signal ended the process at once, or not at all: nothing was ended in order")
    for request_id in ids:
        answers = conversation.responses_to(request_id)
        kept = bool(answers) and answers[0].result.get("resultType") == "complete" and _is_tagged(answers[0].result, request_id)
        case.expect(
            "SU-13",
            kept,
            f"the server ended in order while {request_id} was listening, "
            + (
                "and did not answer the listen"
                if not answers
                else "and its answer is no complete result with the subscription's id"
            ),
            fix="Before you exit, answer each open listen with resultType complete and the subscription's id in _meta.",
            about=answers[0] if answers else None,
        )
        cancels = [line for line in conversation.received_lines if line.method == _CANCELLED]
        mine = [line for line in cancels if same_id(line.params.get("requestId"), request_id)]
        if not cancels and not answers:
            case.skip("SU-14", "the end was not told in any way; see SU-13")
            continue
        late = [line for line in mine if answers and line.number > answers[0].received_line.number]
        case.expect(
            "SU-14",
            not late and (bool(mine) or not cancels),
            "the subscription was cancelled after its result"
            if late
            else f"notifications/cancelled came, and not for {request_id}",
            fix="Send notifications/cancelled with the listen's id first, and then the result.",
            about=next(iter(late or cancels), None),
        )


@probe("SU-16", fresh_conversation=True, needs=("tool:mutate", "tools.listChanged"))
async def nothing_is_left_of_a_connection(case: Case) -> None:
    """A listen of a connection that is gone is not served on the next one."""
    mutate = case.fixture("mutate")
    await _listening(case.conversation, {"toolsListChanged": True})
    await case.conversation.close()
    conversation = await case.open_conversation()
    before = await walked(conversation, "tools/list", "tools", "name")
    await conversation.request("tools/call", mutate)
    told = _first_change(await conversation.quiet(since=0))
    if told is None and await walked(conversation, "tools/list", "tools", "name") == before:
        raise Skip("the tool 'mutate' changed nothing that tools/list shows")
    case.expect(
        "SU-16",
        told is None,
        f"on a new connection, {'' if told is None else told.method} came for a listen of the one before",
        fix="Forget a connection's listens when it ends.",
        about=told,
    )


@probe("SU-18", fresh_conversation=True)
async def very_many_listens_are_acknowledged_or_refused(case: Case) -> None:
    """Some hundred listens at once; each has to hear something, and the server has to go on."""
    conversation = case.conversation
    await _listening(conversation, {"toolsListChanged": True})
    ids = [conversation.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) for _ in range(_MANY)]
    for request_id in ids:
        if await _opened(conversation, request_id) is None and not conversation.responses_to(request_id):
            break
    told = [_tag(line) for line in _acknowledgements(conversation)]
    silent = [each for each in ids if each not in told and not conversation.responses_to(each)]
    fix = "Refuse a listen that is one too many with an error, before its acknowledgement."
    case.expect("SU-18", not silent, f"of {_MANY} listens, {len(silent)} were neither acknowledged nor refused", fix=fix)
    try:
        await conversation.request(case.harmless)
    except NoResponse as error:
        case.expect("SU-18", condition=False, why=f"after {_MANY} listens, the server does not go on: {error}", fix=fix)


def _judge_opening(case: Case, request_id: Any, acknowledged: ReceivedLine | None, begin: int) -> None:
    conversation, capabilities = case.conversation, case.features.capabilities
    shown = repr(request_id).replace("'", '"')
    response = next(iter(conversation.responses_to(request_id)), None)
    if acknowledged is None and response is not None:
        announces = any(case.features.has(f"{kind}.listChanged") for kind in _LISTS.values())
        if response.is_result:
            case.expect(
                "SU-12",
                condition=False,
                why="a listen was answered with a result, and not acknowledged",
                fix="Acknowledge a listen by a notification; answer it when the subscription ends.",
                about=response,
            )
        elif response.code == _NO_SUCH_METHOD:
            case.expect(
                "SU-17",
                not announces,
                f"the server declares that its lists change, and a listen got {response.summary}",
                fix="Serve subscriptions/listen: acknowledge what you can tell, and leave the request open.",
                about=response,
            )
        raise Skip(f"a listen got {response.summary}")
    came = [line for line in _acknowledgements(conversation) if line.number >= begin]
    mistagged = next((line for line in came if not _is_known(_tag(line))), None)
    if acknowledged is None and (mistagged is not None or len(came) > 1):
        why = f"a listen with the id {shown} was acknowledged without that id: its type is a part of it"
        case.expect("SU-04", condition=False, why=why, fix=_MEND_TAG, about=mistagged or came[0])
        return
    case.expect("SU-17", acknowledged, "a listen was neither acknowledged nor refused")
    why = f"the listen {shown} was not acknowledged, or its first message was another one"
    first = next(iter(_of(conversation, request_id)), None)
    kept = first is not None and first is acknowledged and isinstance(first.params.get("notifications"), dict)
    fix = "Answer a listen with notifications/subscriptions/acknowledged, with notifications in its params."
    if not case.expect("SU-02", kept, why, fix=fix, about=first) or acknowledged is None:
        return
    case.expect("SU-04", condition=True, why="")
    given = acknowledged.params["notifications"]
    wrong = [name for name, kind in _LISTS.items() if given.get(name) and _cannot_change(capabilities, kind)]
    promised = _uris(given)
    if promised and _cannot_change(capabilities, "resources", "subscribe"):
        wrong.append("resourceSubscriptions")
    strange = sorted(set(map(_plain, promised)) - set(map(_plain, _uris(_one_resource(case)))))
    if strange and same_id(request_id, _NUMBER):
        why = f"{strange[0]!r} was acknowledged in resourceSubscriptions, and not asked for"
        case.expect("SU-06", condition=False, why=why, fix="Acknowledge the URIs that were asked for.", about=acknowledged)
    case.expect(
        "SU-06",
        not wrong,
        f"{' and '.join(wrong)} was acknowledged, which the server does not declare to support",
        fix="Leave out of the acknowledgement what the server has not got.",
        about=acknowledged,
    )


async def _judge_leaving(case: Case, first: Any, second: Any, mutate: dict[str, Any]) -> None:
    conversation = case.conversation
    conversation.notify(_CANCELLED, {"requestId": first})
    await conversation.quiet()
    begin = conversation.position
    await conversation.request("tools/call", mutate)
    alive = await _told(conversation, second, begin)
    await conversation.quiet()
    _judge_silence(case, first, begin)
    case.expect("SU-11", alive, "after one listen was cancelled, another one was told nothing any more", fix=_MEND_LEAVE)


def _judge_silence(case: Case, request_id: Any, since: int) -> None:
    """Nothing comes for a listen that was cancelled."""
    conversation = case.conversation
    late = next((line for line in _of(conversation, request_id) if line.number >= since), None)
    why = f"a listen that the client has cancelled was still sent {'' if late is None else late.method}"
    case.expect("SU-11", late is None, why, fix=_MEND_LEAVE, about=late)
    response = next(iter(conversation.responses_to(request_id)), None)
    case.expect("SU-11", response is None, "a listen that the client has cancelled was answered", fix=_MEND_LEAVE, about=response)


async def _listening(conversation: LiveConversation, wanted: Mapping[str, Any]) -> Any:
    """The id of a listen that is acknowledged.

    Raises:
        Skip: It is not.
    """
    request_id = conversation.start("subscriptions/listen", {"notifications": wanted})
    if await _opened(conversation, request_id) is None:
        raise Skip("the server did not acknowledge a listen")
    return request_id


def _leave(conversation: LiveConversation, *ids: Any) -> None:
    """Ends listens, so that the next probe hears nothing of them."""
    for each in ids:
        conversation.notify(_CANCELLED, {"requestId": each})


async def _opened(conversation: LiveConversation, request_id: Any) -> ReceivedLine | None:
    """The acknowledgement of a listen, as soon as it or an answer has come."""

    def look() -> Any:
        return _acknowledgement(conversation, request_id) or conversation.responses_to(request_id) or None

    await conversation.until(look, conversation.timeouts.response)
    return _acknowledgement(conversation, request_id)


async def _told(conversation: LiveConversation, request_id: Any, since: int) -> ReceivedLine | None:
    return await conversation.wait_for(lambda line: line.method == _TOOLS_CHANGED and same_id(_tag(line), request_id), since=since)


def _acknowledgements(conversation: LiveConversation) -> list[ReceivedLine]:
    return [line for line in conversation.received_lines if line.method == _ACKNOWLEDGED]


def _acknowledgement(conversation: LiveConversation, request_id: Any) -> ReceivedLine | None:
    return next((line for line in _acknowledgements(conversation) if same_id(_tag(line), request_id)), None)


def _of(conversation: LiveConversation, request_id: Any) -> list[ReceivedLine]:
    """The notifications that carry the id of a listen."""
    return [line for line in conversation.received_lines if line.method is not None and same_id(_tag(line), request_id)]


def _tag(line: ReceivedLine) -> Any:
    meta = line.params.get("_meta")
    return meta.get(META_SUBSCRIPTION_ID) if isinstance(meta, dict) else None


def _is_known(tag: Any) -> bool:
    return same_id(tag, _NUMBER) or same_id(tag, _TEXT)


def _is_tagged(result: Mapping[str, Any], request_id: Any) -> bool:
    meta = result.get("_meta")
    return isinstance(meta, dict) and same_id(meta.get(META_SUBSCRIPTION_ID), request_id)


def _first_change(line: list[ReceivedLine]) -> ReceivedLine | None:
    return next((each for each in line if each.method in _CHANGES), None)


def _cannot_change(capabilities: Mapping[str, Any], kind: str, flag: str = "listChanged") -> bool:
    """Whether a server says that it has not got something, or that it never changes. One that says neither is not accused."""
    declared = capabilities.get(kind)
    return declared is None or (isinstance(declared, dict) and declared.get(flag) is False)


def _one_resource(case: Case) -> dict[str, list[str]]:
    """A filter with one of the listed resources, if there is any."""
    listed = [each["uri"] for each in case.features.resources if isinstance(each.get("uri"), str)]
    return {"resourceSubscriptions": listed[:1]} if listed else {}


def _uris(filters: Any) -> list[str]:
    found = filters.get("resourceSubscriptions") if isinstance(filters, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _plain(uri: str) -> str:
    """A URI as it may have been written before a library read and wrote it."""
    return uri.rstrip("/").lower()


def _is_within(uri: str, watched: str) -> bool:
    return uri == watched or uri.startswith(watched.rstrip("/") + "/")
