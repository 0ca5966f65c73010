"""JSON-RPC, from the side of a client: good messages, odd ones, and lines that are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twopipes._codes import INVALID_REQUEST
from twopipes._tools.check.conversation import ABLE, LiveConversation, Unanswered
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.server_reply import Heard
from twopipes._wire import encode_line

_CALLS = 8
_TALKATIVE = {"ask", "sample", "roots_tool", "slow", "log"}  # as test servers call what asks and tells
# Numbers and texts that look alike, a negative one, and the greatest that every language can hold.
_IDS: Sequence[Any] = (700001, "700001", "a-b", -7, 9007199254740991)
_UNKNOWN = "notifications/twopipes-check-unknown"
# What needs params, so that an array instead of them cannot be right; with the capability that it belongs to.
_NEEDY = (("tools", "tools/call"), ("resources", "resources/read"), ("prompts", "prompts/get"))
_FIRST_WITHOUT_AN_ID = "2025-11-25"


@probe("JR-06")
async def ids_come_back_as_they_were(case: Case) -> None:
    """Five requests at once, with ids of both types: each answer has the id of its request, and there is one of each."""
    talk, before = case.talk, case.talk.position
    for each in _IDS:
        talk.start(case.harmless, request_id=each)
    came = await talk.until(lambda: _answered_ids(talk, before, len(_IDS)), case.waits.answer)
    found = [part.get("id") for part in _answers(talk.heard_lines[before:])] if came is None else came
    for each in _IDS:
        count = sum(_is_same(each, other) for other in found)
        told = "no answer" if not count else f"{count} answers"
        case.expect(
            "JR-06",
            count == 1,
            f"of five requests at once, the one with the id {each!r} got {told} with exactly that id; the ids that came: {found!r}",
            mend="Keep the id of a request as it was decoded, and write that: a number stays a number, a text stays a text.",
        )


@probe("JR-05")
async def an_id_may_come_again(case: Case) -> None:
    """The id of a request that has been answered is used for the next one, which is served."""
    talk = case.talk
    again = (await talk.request(case.harmless)).id
    before = len(talk.answers_to(again))
    talk.start(case.harmless, request_id=again)
    answer = await talk.until(lambda: next(iter(talk.answers_to(again)[before:]), None), case.waits.answer)
    case.expect(
        "JR-05",
        answer is not None and answer.is_result,
        f"{case.harmless} with the id of a request that had its answer got {'none' if answer is None else answer.told}",
        mend="Forget an id when its request is answered: from 2026-07-28 on only ids of requests that still wait are taken.",
        about=answer,
    )


@probe("JR-02", "JR-03", "JR-04", "JR-09", "JR-11", needs="call", can=ABLE)
async def what_the_server_says_by_itself_is_well_formed(case: Case) -> None:
    """Tools are called by a client that can answer everything and wants progress: what the server asks and tells is looked at."""
    talk = case.talk
    calls = sorted(case.features.safe_calls(case.permissions), key=lambda call: call.name not in _TALKATIVE)
    for number, call in enumerate(calls[:_CALLS]):
        try:
            await talk.request("tools/call", call.params, meta={"progressToken": f"check-{number}"})
        except Unanswered:
            break
    await talk.quiet()
    said = [(heard, part) for heard in talk.heard_lines for part in heard.parts if "method" in part]
    requests = [(heard, part) for heard, part in said if "id" in part and not _is_notification(part)]
    for heard, part in requests:
        _judge_id(case, heard, part["id"])
    ids = [(type(part["id"]), part["id"]) for _, part in requests if isinstance(part["id"], str | int)]
    for rule in ("JR-02", "JR-03", "JR-04"):
        if not requests:
            case.skip(rule, "no tool that may be called made the server send a request")
    if ids:
        case.expect(
            "JR-04",
            len(ids) == len(set(ids)),
            f"the server used an id for two of its requests: {[value for _, value in ids]!r}",
            mend="Count up; never begin again within a session.",
        )
    for heard, part in said:
        case.expect(
            "JR-11",
            isinstance(part.get("params", {}), dict),
            f"the params of {part['method']} are no object",
            mend="Leave params out where there are none; otherwise send an object.",
            about=heard,
        )
        if _is_notification(part):
            case.expect(
                "JR-09",
                "id" not in part,
                f"{part['method']} is a notification, and came with an id",
                mend="Leave the id out of notifications, also as null.",
                about=heard,
            )


@probe("JR-10")
async def notifications_are_not_answered(case: Case) -> None:
    """A notification that nobody knows, and one without the params it needs: nothing comes back."""
    talk, before = case.talk, case.talk.position
    talk.notify(_UNKNOWN, {"zz": 1})
    talk.notify("notifications/cancelled")
    # What has an id belongs to an earlier request that took its time.
    answered = [heard for heard in await talk.quiet(since=before) if any(part.get("id") is None for part in _answers([heard]))]
    case.expect(
        "JR-10",
        not answered,
        "a notification that is unknown, or lacks its params, was answered",
        mend="Answer what has an id; whatever is wrong with a message that has none, log it and go on.",
        about=answered[0] if answered else None,
    )


@probe("JR-18")
async def unknown_members_are_passed_over(case: Case) -> None:
    """A member that nobody knows, beside the params of requests that work: they still work."""
    for capability, method in (("", case.harmless), ("tools", "tools/list"), ("prompts", "prompts/list")):
        if capability and not case.features.has(capability):
            continue
        if not (await case.talk.request(method)).is_result:
            continue  # it does not work without it either
        answer = await case.talk.request(method, {"zz": 1})
        case.expect(
            "JR-18",
            answer.is_result,
            f"{method} works, and with a further member zz in its params got {answer.told}",
            mend="Let the schemas of params be open: read what you know, and pass over the rest.",
            about=answer,
        )


@probe("JR-01", "JR-03", "JR-11", "ER-02", judged=False)
async def what_is_no_request_is_refused(case: Case) -> None:
    """Five objects that are almost requests: none of them is served, and what can be told is told with -32600."""
    talk, before = case.talk, case.talk.position
    other_version = {**talk.message(case.harmless), "jsonrpc": "1.0"}
    no_id = {**talk.message(case.harmless), "id": None}
    needy = next((method for capability, method in _NEEDY if case.features.has(capability)), case.harmless)
    array = {**talk.message(needy), "params": [1]}
    odd_method = {**talk.message(case.harmless), "method": 5}
    no_method = {key: value for key, value in talk.message(case.harmless).items() if key != "method"}
    for message in (other_version, no_id, array, no_method):
        talk.send(message)
    await talk.quiet()
    # Alone, since JSON-RPC lets the error for it have the id null: then only its place tells what it is for.
    since = talk.position
    talk.send(odd_method)
    await talk.until_passed_over(lambda: talk.answers_to(odd_method["id"]) or _nameless_faults(talk, since) or None)
    if talk.is_over:
        case.give_up("the server ended at a message that is no request (see JR-20)")
    served = next((each for each in talk.answers_to(other_version["id"]) if each.is_result), None)
    case.expect(
        "JR-01",
        served is None,
        'a request that says "jsonrpc": "1.0" was served as if it were one of version 2.0',
        mend="Refuse with -32600 what names another version.",
        about=served,
    )
    nameless = next((heard for heard in talk.heard_lines[before:] if _is_result_for_null(heard)), None)
    case.expect(
        "JR-03",
        nameless is None,
        "a request with the id null was served, and its result has no id either",
        mend="Refuse it with -32600, or drop it; null is no id of a request.",
        about=nameless,
    )
    taken = next((each for each in talk.answers_to(array["id"]) if each.is_result), None)
    if case.is_modern or needy != case.harmless:
        case.expect(
            "JR-11",
            taken is None,
            f"{needy} was answered with a result, though its params were an array",
            mend="Refuse params that are no object with -32600 or -32602.",
            about=taken,
        )
    if _nameless_faults(talk, since):
        case.expect("ER-02", True, "")
    else:
        _judge_invalid_request(case, odd_method["id"], "whose method is a number", must_answer=True)
    _judge_invalid_request(case, no_method["id"], "without a method", must_answer=False)


def _nameless_faults(talk: LiveConversation, since: int) -> list[dict[str, Any]]:
    """Errors -32600 without an id."""
    errors = [part for heard in talk.heard_lines[since:] for part in _errors(heard) if part.get("id") is None]
    return [part for part in errors if part["error"].get("code") == INVALID_REQUEST]


def _judge_invalid_request(case: Case, request_id: Any, what: str, *, must_answer: bool) -> None:
    # What has no method may as well be an answer that lacks its result; nobody has to answer that.
    answer = next(iter(case.talk.answers_to(request_id)), None)
    if answer is None and not must_answer:
        return
    case.expect(
        "ER-02",
        answer is not None and answer.code == INVALID_REQUEST,
        f"a message {what} got {'no answer with its id' if answer is None else answer.told} instead of the error -32600",
        mend="Answer with the error -32600 (Invalid Request) and the id, where the id can be read.",
        about=answer,
    )


@probe("JR-20", "ER-01", judged=False)
async def a_broken_line_is_survived(case: Case) -> None:
    """Lines that break off, are no object, are no UTF-8, begin with a byte order mark: the first gets -32700, and life goes on."""
    talk, before = case.talk, case.talk.position
    talk.send(b'{"jsonrpc":\n')
    complaint: Heard | None = await talk.until_passed_over(lambda: next(filter(_is_complaint, talk.heard_lines[before:]), None))
    spoilt = encode_line(talk.message(case.harmless, {"padding": "?"}))
    for what, line in (
        ("that is no JSON", b""),
        ("that is no object", b'"text"\n'),
        ("that is no UTF-8", spoilt.replace(b"?", b"\xff\xfe")),
        # Whether it is passed over or refused is left to whoever reads it, by RFC 8259.
        ("that begins with a byte order mark", b"\xef\xbb\xbf" + encode_line(talk.message(case.harmless))),
    ):
        talk.send(line)
        if not case.expect(
            "JR-20",
            await _still_serves(case),
            f"after a line {what}, the next request got no result",
            mend="Catch what the decoders of UTF-8 and JSON raise for one line, and read the next.",
        ):
            break
    codes = [part["error"].get("code") for part in _errors(complaint)] if complaint is not None else []
    if not codes and case.revision < _FIRST_WITHOUT_AN_ID:
        case.skip("ER-01", "nothing was said about it, and in this revision every error must have an id, so that nothing could be")
        return
    case.expect(
        "ER-01",
        codes == [-32700],
        f"a line that is no JSON got {f'the code {codes[0]}' if codes else 'no answer'} instead of the error -32700",
        mend="Answer a line that cannot be parsed with the error -32700 (Parse error), without an id.",
        about=complaint,
    )


@probe("JR-15", judged=False)
async def arrays_are_refused(case: Case) -> None:
    """An array with one harmless request in it: the request is not served, and the next line is."""
    talk, before = case.talk, case.talk.position
    if case.revision == "2024-11-05":
        case.give_up("whether this revision has batches is not quite certain: its text says JSON-RPC, its schema knows none")
    member = talk.message(case.harmless)
    talk.send([member])
    await talk.quiet()
    sent = next((heard for heard in talk.heard_lines[before:] if isinstance(heard.message, list)), None)
    served = next((answer for answer in talk.answers_to(member["id"]) if answer.is_result), None)
    mend = "Refuse an array with one error -32600; batches exist in 2025-03-26 alone."
    case.expect("JR-15", sent is None, "the server wrote an array of messages", mend=mend, about=sent)
    case.expect("JR-15", served is None, "a request inside of an array was served", mend=mend, about=served)
    case.expect("JR-15", await _still_serves(case), "after an array, the next request got no result", mend=mend)


@probe("JR-12", "JR-13", revisions=("2025-03-26",))
async def batches_are_served(case: Case) -> None:
    """A batch with two requests, one of notifications alone, and an empty one."""
    talk, before = case.talk, case.talk.position
    one, two = talk.message(case.harmless), talk.message("tools/list" if case.features.has("tools") else case.harmless)
    notification = {"jsonrpc": "2.0", "method": _UNKNOWN}
    talk.send([one, notification, two])
    ids = one["id"], two["id"]
    await talk.until_passed_over(lambda: all(talk.answers_to(each) for each in ids) or None)
    answered = [each for each in ids if talk.answers_to(each)]
    case.expect(
        "JR-12",
        len(answered) == len(ids),
        f"of the two requests in a batch, {len(answered)} got an answer",
        mend="This revision has batches: take an array apart and serve each of its members. Or do not offer the revision.",
    )
    if len(answered) < len(ids):
        case.give_up("the server does not serve batches at all (see JR-12)")
    lines = [heard for heard in talk.heard_lines[before:] if any(part.get("id") in ids for part in _answers([heard]))]
    whole = lines[0].message if len(lines) == 1 else None
    case.expect(
        "JR-13",
        isinstance(whole, list) and len(whole) == len(ids),
        f"the answers to a batch of two requests and a notification came on {len(lines)} lines, not as one array of two",
        mend="Collect the answers of a batch, and write them as one array when the last is there.",
        about=lines[0],
    )
    said = await _quiet_after(talk, [notification, notification])
    told = [heard for heard in said if heard.message == [] or _answers([heard])]
    case.expect(
        "JR-13",
        not told,
        "a batch of notifications alone was answered",
        mend="Where there is nothing to answer, write nothing; not an empty array either.",
        about=told[0] if told else None,
    )
    start = talk.position
    talk.send([])
    complaint = await talk.heard(lambda heard: _errors(heard) or heard.message == [], since=start)
    case.expect(
        "JR-13",
        complaint is not None
        and isinstance(complaint.message, dict)
        and _errors(complaint)[0]["error"].get("code") == INVALID_REQUEST,
        "an empty array was not answered with one error -32600, as an object",
        mend="Answer [] with a single error -32600 (Invalid Request).",
        about=complaint,
    )


@probe("JR-19", judged=False)
async def stray_answers_do_no_harm(case: Case) -> None:
    """A result and an error for requests that the server never sent: the next request is served."""
    case.talk.send({"jsonrpc": "2.0", "id": "nobody-asked", "result": {}})
    case.talk.send({"jsonrpc": "2.0", "id": 987654, "error": {"code": -32603, "message": "nobody asked"}})
    case.expect(
        "JR-19",
        await _still_serves(case),
        "after answers to requests that the server never sent, the next request got no result",
        mend="Look up the id of an answer among the requests that wait; drop what is not there.",
    )


async def _still_serves(case: Case) -> bool:
    try:
        return (await case.talk.request(case.harmless)).is_result
    except Unanswered:
        return False


async def _quiet_after(talk: LiveConversation, message: Sequence[Any]) -> list[Heard]:
    before = talk.position
    talk.send(message)
    return await talk.quiet(since=before)


def _answers(lines: Sequence[Heard]) -> list[dict[str, Any]]:
    return [part for heard in lines for part in heard.parts if "method" not in part]


def _errors(heard: Heard) -> list[dict[str, Any]]:
    return [part for part in heard.parts if "method" not in part and isinstance(part.get("error"), dict)]


def _is_complaint(heard: Heard) -> bool:
    return any(part.get("id") is None for part in _errors(heard))


def _is_result_for_null(heard: Heard) -> bool:
    return any("result" in part and part.get("id") is None for part in _answers([heard]))


def _is_notification(part: dict[str, Any]) -> bool:
    return isinstance(part["method"], str) and part["method"].startswith("notifications/")


def _answered_ids(talk: LiveConversation, since: int, count: int) -> list[Any] | None:
    found = [part.get("id") for part in _answers(talk.heard_lines[since:])]
    return found if len(found) >= count else None


def _is_same(one: Any, other: Any) -> bool:
    # JSON has one type of numbers: 7.0 is 7.
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))
    return bool(one == other) if numbers else isinstance(other, str) and isinstance(one, str) and one == other


def _judge_id(case: Case, heard: Heard, value: Any) -> None:
    case.expect("JR-03", value is not None, "the id of a request is null", mend="Give each request an id of its own.", about=heard)
    is_whole = isinstance(value, str | int) and not isinstance(value, bool)
    if value is not None:
        case.expect(
            "JR-02",
            is_whole,
            f"the id of a request is {value!r}: neither a text nor a whole number",
            mend="Count up, or take a text.",
            about=heard,
        )
