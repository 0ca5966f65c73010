"""Subscriptions, from the side of a client that listens.

Changes are made by two tools that test servers have: ``mutate``, which adds or removes a tool, and ``touch``, which changes a
resource. Without them, or without leave to call them, only acknowledgements and silence are judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopipes._process.exit_status import SIGTERM
from twopipes._protocol.revisions import META_SUBSCRIPTION_ID
from twopipes._tools.check.conversation import Heard, LiveConversation, Unanswered, same_id
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.questions import told
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


@probe("SU-02", "SU-04", "SU-05", "SU-10", "SU-11", needs=("call", "tools.listChanged"), apart=True)
async def changes_are_told_to_those_who_listen(case: Case) -> None:
    """A tool comes or goes, before anybody listens, while three do, and when one of them has left."""
    # The first of the section, so that nobody listens yet.
    talk, mutate = case.talk, case.fixture("mutate")
    await talk.request("tools/call", mutate)
    early = _first_change(await talk.quiet(since=0))
    if early is not None:
        _judge_early(case, early)
    # In one piece with the change, so that a server that is in a hurry tells of it before it acknowledges.
    asked = talk.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    change = talk.message("tools/call", mutate)
    talk.send(encode_line(asked) + encode_line(change))
    first = asked["id"]
    if await _opened(talk, first) is None:
        raise Skip("the server did not acknowledge a listen")
    await talk.answer_to(change["id"])
    second = await _listening(talk, {"toolsListChanged": True})
    other = await _listening(talk, {"toolsListChanged": False, "promptsListChanged": True, "resourcesListChanged": True})
    begin = talk.position
    await talk.request("tools/call", mutate)
    told = {each: await _told(talk, each, begin) for each in (first, second)}
    untagged = next((heard for heard in talk.heard_lines if heard.method in _CHANGES and _tag(heard) is None), None)
    case.expect("SU-04", untagged is None, "a change was told without the id of a listen", mend=_MEND_TAG, about=untagged)
    if not any(told.values()):
        raise Skip("nothing was told after a call of mutate, so that nobody knows whether anything has changed")
    _judge_early(case, early)  # now it is known that there was something to tell
    case.expect(
        "SU-10",
        all(told.values()),
        "of two listens for the same changes, only one was told",
        mend="Send a copy of the notification for each listen that matches.",
    )
    respond_early = _of(talk, first)
    case.expect(
        "SU-02",
        respond_early and respond_early[0].method == _ACKNOWLEDGED,
        "the first message of a subscription was not its acknowledgement",
        mend="Acknowledge a listen before anything is sent for it.",
        about=respond_early[0] if respond_early else None,
    )
    await talk.quiet()
    wrong = next((heard for heard in _of(talk, other) if heard.method == _TOOLS_CHANGED), None)
    case.expect(
        "SU-05",
        wrong is None,
        "a listen for prompts and resources was told of a tool",
        mend="Compare each change with the filter of each listen.",
        about=wrong,
    )
    await _judge_leaving(case, first, second, mutate)
    _leave(talk, second, other)


def _judge_early(case: Case, early: Heard | None) -> None:
    case.expect(
        "SU-05",
        early is None,
        f"{'' if early is None else early.method} came, and nobody listens",
        mend="Send changes on open listens alone.",
        about=early,
    )


@probe("SU-01", judged=False)
async def a_listen_for_nothing_in_particular_promises_nothing(case: Case) -> None:
    """A listen without ``notifications`` is refused, or acknowledged with nothing."""
    talk = case.talk
    request_id = talk.start("subscriptions/listen", {})
    acknowledged = await _opened(talk, request_id)
    answer = next(iter(talk.answers_to(request_id)), None)
    if acknowledged is not None:
        _leave(talk, request_id)
    elif answer is None:
        raise Skip("a listen without notifications was neither acknowledged nor refused")
    elif answer.code == _NO_SUCH_METHOD:
        raise Skip(f"a listen got {answer.told}")
    promised = acknowledged.params.get("notifications") if acknowledged is not None else None
    mend = "Refuse a listen without notifications with -32602, and acknowledge nothing."
    case.expect(
        "SU-01",
        not promised,
        f"a listen that does not say what for was acknowledged, with {told(promised)}",
        mend=mend,
        about=acknowledged,
    )
    case.expect(
        "SU-01",
        answer is None or not answer.is_result,
        "a listen that does not say what for was answered with a result",
        mend=mend,
        about=answer,
    )


@probe("SU-02", "SU-04", "SU-06", "SU-11", "SU-12", "SU-17", apart=True)
async def a_listen_is_acknowledged_and_stays_open(case: Case) -> None:
    """Two listens, for much and for little, whose ids differ in their JSON types alone, are acknowledged and stay open."""
    talk, begin = case.talk, case.talk.position
    # Whether a kind is acknowledged that was not asked for is judged with everything else that was said.
    talk.start("subscriptions/listen", {"notifications": {**_EVERYTHING, **_one_resource(case)}}, request_id=_NUMBER)
    talk.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, request_id=_TEXT)
    for request_id in (_NUMBER, _TEXT):
        _judge_opening(case, request_id, await _opened(talk, request_id), begin)
    await talk.quiet()
    for request_id in (_NUMBER, _TEXT):
        answer = next(iter(talk.answers_to(request_id)), None)
        case.expect(
            "SU-12",
            answer is None,
            f"a listen that was acknowledged was answered at once, with {'' if answer is None else answer.told}",
            mend="Keep the request open; answer it when the subscription ends.",
            about=answer,
        )
    left = [each for each in (_NUMBER, _TEXT) if _acknowledgement(talk, each) and not talk.answers_to(each)]
    begin = talk.position
    _leave(talk, _NUMBER, _TEXT)
    await talk.quiet()
    for request_id in left:
        _judge_silence(case, request_id, begin)


@probe("SU-09", needs=("call", "resources.subscribe"), apart=True)
async def only_watched_resources_are_told_of(case: Case) -> None:
    """A resource changes that one listen watches and another does not."""
    case.fixture("touch")  # or there is no need to begin
    listens: list[Any] = []
    try:
        await _judge_updates(case, watchable(case), listens)
    finally:
        _leave(case.talk, *listens)


async def _judge_updates(case: Case, uris: list[str], listens: list[Any]) -> None:
    talk = case.talk
    first = await _update(case, uris, listens)
    if first is None:
        return
    uri = first.params.get("uri")
    others = [each for each in uris if not _is_within(str(uri), each)][:1]
    if uri not in uris or not others:
        raise Skip("the resource that a call of touch changed is not listed, or there is no other one to watch")
    another = await _listening(talk, {"resourceSubscriptions": others})
    listens.append(another)
    if await _update(case, [uri], listens) is None:
        return
    await talk.quiet()
    wrong = next((heard for heard in _of(talk, another) if heard.method == _UPDATED), None)
    why = f"a listen that names another resource was told that {uri} has changed"
    case.expect("SU-09", wrong is None, why, mend=_MEND_UPDATES, about=wrong)


async def _update(case: Case, watched: list[str], listens: list[Any]) -> Heard | None:
    """What one more listen, for these resources, is told when `touch` is called; ``None`` where that breaks the rule.

    Raises:
        Skip: Nothing has changed that the server has promised to tell of.
    """
    talk = case.talk
    listen = await _listening(talk, {"resourceSubscriptions": watched})
    listens.append(listen)
    acknowledged = _acknowledgement(talk, listen)
    promised = _uris(acknowledged.params.get("notifications")) if acknowledged is not None else []
    before = await steady_contents(talk, [uri for uri in watched if uri in promised])
    since = await touch(case)

    def tells(heard: Heard) -> bool:
        return heard.method == _UPDATED and same_id(_tag(heard), listen)

    found = await talk.heard(tells, since=since, within=talk.waits.grace)
    if found is not None:
        return found
    changed = await changed_since(talk, before)
    if not changed:
        raise Skip("a call of touch changed nothing that was listened for and that resources/read shows")
    found = await talk.heard(tells, since=since)  # some gather what there is to tell for a while
    case.expect("SU-09", found, f"{changed} has changed, and the listen that names it was not told", mend=_MEND_UPDATES)
    return found


@probe("SU-13", "SU-14", fresh=True, needs="process")
async def an_end_is_told(case: Case) -> None:
    """A server that is asked to terminate tells those who listen."""
    talk = case.talk
    ids = [await _listening(talk, _EVERYTHING) for _ in range(2)]
    if talk.child is None:
        raise Skip("there is no process to send a signal to")
    talk.child.signal(SIGTERM)
    await talk.ended()
    status = await talk.exit()
    if status is None or status.code != 0:
        raise Skip("the signal ended the process at once, or not at all: nothing was ended in order")
    for request_id in ids:
        answers = talk.answers_to(request_id)
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
            mend="Before you exit, answer each open listen with resultType complete and the subscription's id in _meta.",
            about=answers[0] if answers else None,
        )
        cancels = [heard for heard in talk.heard_lines if heard.method == _CANCELLED]
        mine = [heard for heard in cancels if same_id(heard.params.get("requestId"), request_id)]
        if not cancels and not answers:
            case.skip("SU-14", "the end was not told in any way; see SU-13")
            continue
        late = [heard for heard in mine if answers and heard.number > answers[0].heard.number]
        case.expect(
            "SU-14",
            not late and (bool(mine) or not cancels),
            "the subscription was cancelled after its result"
            if late
            else f"notifications/cancelled came, and not for {request_id}",
            mend="Send notifications/cancelled with the listen's id first, and then the result.",
            about=next(iter(late or cancels), None),
        )


@probe("SU-16", fresh=True, needs=("tool:mutate", "tools.listChanged"))
async def nothing_is_left_of_a_connection(case: Case) -> None:
    """A listen of a connection that is gone is not served on the next one."""
    mutate = case.fixture("mutate")
    await _listening(case.talk, {"toolsListChanged": True})
    await case.talk.close()
    talk = await case.fresh_talk()
    before = await walked(talk, "tools/list", "tools", "name")
    await talk.request("tools/call", mutate)
    told = _first_change(await talk.quiet(since=0))
    if told is None and await walked(talk, "tools/list", "tools", "name") == before:
        raise Skip("the tool 'mutate' changed nothing that tools/list shows")
    case.expect(
        "SU-16",
        told is None,
        f"on a new connection, {'' if told is None else told.method} came for a listen of the one before",
        mend="Forget a connection's listens when it ends.",
        about=told,
    )


@probe("SU-18", fresh=True)
async def very_many_listens_are_acknowledged_or_refused(case: Case) -> None:
    """Some hundred listens at once; each has to hear something, and the server has to go on."""
    talk = case.talk
    await _listening(talk, {"toolsListChanged": True})
    ids = [talk.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}}) for _ in range(_MANY)]
    for request_id in ids:
        if await _opened(talk, request_id) is None and not talk.answers_to(request_id):
            break
    told = [_tag(heard) for heard in _acknowledgements(talk)]
    silent = [each for each in ids if each not in told and not talk.answers_to(each)]
    mend = "Refuse a listen that is one too many with an error, before its acknowledgement."
    case.expect("SU-18", not silent, f"of {_MANY} listens, {len(silent)} were neither acknowledged nor refused", mend=mend)
    try:
        await talk.request(case.harmless)
    except Unanswered as error:
        case.expect("SU-18", condition=False, why=f"after {_MANY} listens, the server does not go on: {error}", mend=mend)


def _judge_opening(case: Case, request_id: Any, acknowledged: Heard | None, begin: int) -> None:
    talk, capabilities = case.talk, case.features.capabilities
    shown = repr(request_id).replace("'", '"')
    answer = next(iter(talk.answers_to(request_id)), None)
    if acknowledged is None and answer is not None:
        announces = any(case.features.has(f"{kind}.listChanged") for kind in _LISTS.values())
        if answer.is_result:
            case.expect(
                "SU-12",
                condition=False,
                why="a listen was answered with a result, and not acknowledged",
                mend="Acknowledge a listen by a notification; answer it when the subscription ends.",
                about=answer,
            )
        elif answer.code == _NO_SUCH_METHOD:
            case.expect(
                "SU-17",
                not announces,
                f"the server declares that its lists change, and a listen got {answer.told}",
                mend="Serve subscriptions/listen: acknowledge what you can tell, and leave the request open.",
                about=answer,
            )
        raise Skip(f"a listen got {answer.told}")
    came = [heard for heard in _acknowledgements(talk) if heard.number >= begin]
    mistagged = next((heard for heard in came if not _is_known(_tag(heard))), None)
    if acknowledged is None and (mistagged is not None or len(came) > 1):
        why = f"a listen with the id {shown} was acknowledged without that id: its type is a part of it"
        case.expect("SU-04", condition=False, why=why, mend=_MEND_TAG, about=mistagged or came[0])
        return
    case.expect("SU-17", acknowledged, "a listen was neither acknowledged nor refused")
    why = f"the listen {shown} was not acknowledged, or its first message was another one"
    first = next(iter(_of(talk, request_id)), None)
    kept = first is not None and first is acknowledged and isinstance(first.params.get("notifications"), dict)
    mend = "Answer a listen with notifications/subscriptions/acknowledged, with notifications in its params."
    if not case.expect("SU-02", kept, why, mend=mend, about=first) or acknowledged is None:
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
        case.expect("SU-06", condition=False, why=why, mend="Acknowledge the URIs that were asked for.", about=acknowledged)
    case.expect(
        "SU-06",
        not wrong,
        f"{' and '.join(wrong)} was acknowledged, which the server does not declare to support",
        mend="Leave out of the acknowledgement what the server has not got.",
        about=acknowledged,
    )


async def _judge_leaving(case: Case, first: Any, second: Any, mutate: dict[str, Any]) -> None:
    talk = case.talk
    talk.notify(_CANCELLED, {"requestId": first})
    await talk.quiet()
    begin = talk.position
    await talk.request("tools/call", mutate)
    alive = await _told(talk, second, begin)
    await talk.quiet()
    _judge_silence(case, first, begin)
    case.expect("SU-11", alive, "after one listen was cancelled, another one was told nothing any more", mend=_MEND_LEAVE)


def _judge_silence(case: Case, request_id: Any, since: int) -> None:
    """Nothing comes for a listen that was cancelled."""
    talk = case.talk
    late = next((heard for heard in _of(talk, request_id) if heard.number >= since), None)
    why = f"a listen that the client has cancelled was still sent {'' if late is None else late.method}"
    case.expect("SU-11", late is None, why, mend=_MEND_LEAVE, about=late)
    answer = next(iter(talk.answers_to(request_id)), None)
    case.expect("SU-11", answer is None, "a listen that the client has cancelled was answered", mend=_MEND_LEAVE, about=answer)


async def _listening(talk: LiveConversation, wanted: Mapping[str, Any]) -> Any:
    """The id of a listen that is acknowledged.

    Raises:
        Skip: It is not.
    """
    request_id = talk.start("subscriptions/listen", {"notifications": wanted})
    if await _opened(talk, request_id) is None:
        raise Skip("the server did not acknowledge a listen")
    return request_id


def _leave(talk: LiveConversation, *ids: Any) -> None:
    """Ends listens, so that the next probe hears nothing of them."""
    for each in ids:
        talk.notify(_CANCELLED, {"requestId": each})


async def _opened(talk: LiveConversation, request_id: Any) -> Heard | None:
    """The acknowledgement of a listen, as soon as it or an answer has come."""

    def look() -> Any:
        return _acknowledgement(talk, request_id) or talk.answers_to(request_id) or None

    await talk.until(look, talk.waits.answer)
    return _acknowledgement(talk, request_id)


async def _told(talk: LiveConversation, request_id: Any, since: int) -> Heard | None:
    return await talk.heard(lambda heard: heard.method == _TOOLS_CHANGED and same_id(_tag(heard), request_id), since=since)


def _acknowledgements(talk: LiveConversation) -> list[Heard]:
    return [heard for heard in talk.heard_lines if heard.method == _ACKNOWLEDGED]


def _acknowledgement(talk: LiveConversation, request_id: Any) -> Heard | None:
    return next((heard for heard in _acknowledgements(talk) if same_id(_tag(heard), request_id)), None)


def _of(talk: LiveConversation, request_id: Any) -> list[Heard]:
    """The notifications that carry the id of a listen."""
    return [heard for heard in talk.heard_lines if heard.method is not None and same_id(_tag(heard), request_id)]


def _tag(heard: Heard) -> Any:
    meta = heard.params.get("_meta")
    return meta.get(META_SUBSCRIPTION_ID) if isinstance(meta, dict) else None


def _is_known(tag: Any) -> bool:
    return same_id(tag, _NUMBER) or same_id(tag, _TEXT)


def _is_tagged(result: Mapping[str, Any], request_id: Any) -> bool:
    meta = result.get("_meta")
    return isinstance(meta, dict) and same_id(meta.get(META_SUBSCRIPTION_ID), request_id)


def _first_change(heard: list[Heard]) -> Heard | None:
    return next((each for each in heard if each.method in _CHANGES), None)


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
