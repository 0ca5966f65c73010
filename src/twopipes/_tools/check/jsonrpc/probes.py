"""JSON-RPC, from the side of a client: good messages, odd ones, and lines that are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twopipes._codes import INVALID_REQUEST
from twopipes._rules.table import RULES
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation, NoResponse
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.server_reply import ReceivedLine
from twopipes._wire import encode_line

_CALLS = 8
_TALKATIVE = {"ask", "sample", "roots_tool", "slow", "log"}  # as test servers call what asks and tells
# Numbers and texts that look alike, a negative one, and the greatest that every language can hold.
_IDS: Sequence[Any] = (700001, "700001", "a-b", -7, 9007199254740991)
_UNKNOWN = "notifications/twopipes-check-unknown"
# What needs params, so that an array instead of them cannot be right; with the capability that it belongs to.
_NEEDY = (("tools", "tools/call"), ("resources", "resources/read"), ("prompts", "prompts/get"))


@probe("JR-06")
async def ids_come_back_as_they_were(case: Case) -> None:
    """Five requests at once, with ids of both types: each answer has the id of its request, and there is one of each."""
    conversation, before = case.conversation, case.conversation.position
    for each in _IDS:
        conversation.start(case.harmless, request_id=each)
    came = await conversation.until(lambda: _answered_ids(conversation, before, len(_IDS)), case.timeouts.response)
    found = [part.get("id") for part in _answers(conversation.received_lines[before:])] if came is None else came
    for each in _IDS:
        count = sum(_is_same(each, other) for other in found)
        why = "no answer" if not count else f"{count} answers"
        case.expect(
            "JR-06",
            count == 1,
            f"of five requests at once, the one with the id {each!r} got {why} with exactly that id; the ids that came: {found!r}",
            fix="Keep the id of a request as it was decoded, and write that: a number stays a number, a text stays a text.",
        )


@probe("JR-05")
async def an_id_may_come_again(case: Case) -> None:
    """The id of a request that has been answered is used for the next one, which is served."""
    conversation = case.conversation
    again = (await conversation.request(case.harmless)).id
    before = len(conversation.responses_to(again))
    conversation.start(case.harmless, request_id=again)
    response = await conversation.until(lambda: next(iter(conversation.responses_to(again)[before:]), None), case.timeouts.response)
    case.expect(
        "JR-05",
        response is not None and response.is_result,
        f"{case.harmless} with the id of a request that had its answer got {'none' if response is None else response.summary}",
        fix="Forget an id when its request is answered: from 2026-07-28 on only ids of requests that still wait are taken.",
        about=response,
    )


@probe("JR-02", "JR-03", "JR-04", "JR-09", "JR-11", needs="call", client_capabilities=ALL_CAPABILITIES)
async def what_the_server_says_by_itself_is_well_formed(case: Case) -> None:
    """Tools are called by a client that can answer everything and wants progress: what the server asks and tells is looked at."""
    conversation = case.conversation
    calls = sorted(case.features.safe_calls(case.permissions), key=lambda call: call.name not in _TALKATIVE)
    for number, call in enumerate(calls[:_CALLS]):
        try:
            await conversation.request("tools/call", call.params, meta={"progressToken": f"check-{number}"})
        except NoResponse:
            break
    await conversation.quiet()
    message = [(line, part) for line in conversation.received_lines for part in line.parts if "method" in part]
    requests = [(line, part) for line, part in message if "id" in part and not _is_notification(part)]
    for line, part in requests:
        _judge_id(case, line, part["id"])
    ids = [(type(part["id"]), part["id"]) for _, part in requests if isinstance(part["id"], str | int)]
    for rule in ("JR-02", "JR-03", "JR-04"):
        if not requests:
            case.skip(rule, "no tool that may be called made the server send a request")
    if ids:
        case.expect(
            "JR-04",
            len(ids) == len(set(ids)),
            f"the server used an id for two of its requests: {[value for _, value in ids]!r}",
            fix="Count up; never begin again within a session.",
        )
    for line, part in message:
        case.expect(
            "JR-11",
            isinstance(part.get("params", {}), dict),
            f"the params of {part['method']} are no object",
            fix="Leave params out where there are none; otherwise send an object.",
            about=line,
        )
        if _is_notification(part):
            case.expect(
                "JR-09",
                "id" not in part,
                f"{part['method']} is a notification, and came with an id",
                fix="Leave the id out of notifications, also as null.",
                about=line,
            )


@probe("JR-10")
async def notifications_are_not_answered(case: Case) -> None:
    """An unknown notification, and one without the params it needs: nothing comes back."""
    conversation, before = case.conversation, case.conversation.position
    conversation.notify(_UNKNOWN, {"zz": 1})
    conversation.notify("notifications/cancelled")
    # What has an id belongs to an earlier request that took its time.
    answered = [line for line in await conversation.quiet(since=before) if any(part.get("id") is None for part in _answers([line]))]
    case.expect(
        "JR-10",
        not answered,
        "a notification that is unknown, or lacks its params, was answered",
        fix="Answer what has an id; whatever is wrong with a message that has none, log it and go on.",
        about=answered[0] if answered else None,
    )


@probe("JR-18")
async def unknown_members_are_passed_over(case: Case) -> None:
    """An unknown member, beside the params of requests that work: they still work."""
    for capability, method in (("", case.harmless), ("tools", "tools/list"), ("prompts", "prompts/list")):
        if capability and not case.features.has(capability):
            continue
        if not (await case.conversation.request(method)).is_result:
            continue  # it does not work without it either
        response = await case.conversation.request(method, {"zz": 1})
        case.expect(
            "JR-18",
            response.is_result,
            f"{method} works, and with a further member zz in its params got {response.summary}",
            fix="Let the schemas of params be open: read what you know, and pass over the rest.",
            about=response,
        )


@probe("JR-01", "JR-03", "JR-11", "ER-02", judged=False)
async def what_is_no_request_is_refused(case: Case) -> None:
    """Five objects that are almost requests: none of them is served, and what can be told is told with -32600."""
    conversation, before = case.conversation, case.conversation.position
    other_version = {**conversation.message(case.harmless), "jsonrpc": "1.0"}
    no_id = {**conversation.message(case.harmless), "id": None}
    needy = next((method for capability, method in _NEEDY if case.features.has(capability)), case.harmless)
    array = {**conversation.message(needy), "params": [1]}
    odd_method = {**conversation.message(case.harmless), "method": 5}
    no_method = {key: value for key, value in conversation.message(case.harmless).items() if key != "method"}
    for message in (other_version, no_id, array, no_method):
        conversation.send(message)
    await conversation.quiet()
    # Alone, since JSON-RPC lets the error for it have the id null: then only its place tells what it is for.
    since = conversation.position
    conversation.send(odd_method)
    await conversation.until_ignored(
        lambda: conversation.responses_to(odd_method["id"]) or _nameless_faults(conversation, since) or None
    )
    if conversation.is_over:
        case.give_up("the server ended at a message that is no request (see JR-20)")
    served = next((each for each in conversation.responses_to(other_version["id"]) if each.is_result), None)
    case.expect(
        "JR-01",
        served is None,
        'a request that says "jsonrpc": "1.0" was served as if it were one of version 2.0',
        fix="Refuse with -32600 what names another version.",
        about=served,
    )
    nameless = next((line for line in conversation.received_lines[before:] if _is_result_for_null(line)), None)
    case.expect(
        "JR-03",
        nameless is None,
        "a request with the id null was served, and its result has no id either",
        fix="Refuse it with -32600, or drop it; null is no id of a request.",
        about=nameless,
    )
    taken = next((each for each in conversation.responses_to(array["id"]) if each.is_result), None)
    if case.is_modern or needy != case.harmless:
        case.expect(
            "JR-11",
            taken is None,
            f"{needy} was answered with a result, though its params were an array",
            fix="Refuse params that are no object with -32600 or -32602.",
            about=taken,
        )
    if _nameless_faults(conversation, since):
        case.expect("ER-02", True, "")
    else:
        _judge_invalid_request(case, odd_method["id"], "whose method is a number", must_answer=True)
    _judge_invalid_request(case, no_method["id"], "without a method", must_answer=False)


def _nameless_faults(conversation: LiveConversation, since: int) -> list[dict[str, Any]]:
    """Errors -32600 without an id."""
    errors = [part for line in conversation.received_lines[since:] for part in _errors(line) if part.get("id") is None]
    return [part for part in errors if part["error"].get("code") == INVALID_REQUEST]


def _judge_invalid_request(case: Case, request_id: Any, what: str, *, must_answer: bool) -> None:
    # What has no method may as well be an answer that lacks its result; it needs no response.
    response = next(iter(case.conversation.responses_to(request_id)), None)
    if response is None and not must_answer:
        return
    case.expect(
        "ER-02",
        response is not None and response.code == INVALID_REQUEST,
        f"a message {what} got {'no answer with its id' if response is None else response.summary} instead of the error -32600",
        fix="Answer with the error -32600 (Invalid Request) and the id, where the id can be read.",
        about=response,
    )


@probe("JR-20", "ER-01", judged=False)
async def a_broken_line_is_survived(case: Case) -> None:
    """Lines that break off, are no object, are no UTF-8, begin with a byte order mark: the first gets -32700, and life goes on."""
    conversation, before = case.conversation, case.conversation.position
    conversation.send(b'{"jsonrpc":\n')
    complaint: ReceivedLine | None = await conversation.until_ignored(
        lambda: next(filter(_is_complaint, conversation.received_lines[before:]), None)
    )
    spoilt = encode_line(conversation.message(case.harmless, {"padding": "?"}))
    for what, line in (
        ("that is no JSON", b""),
        ("that is no object", b'"text"\n'),
        ("that is no UTF-8", spoilt.replace(b"?", b"\xff\xfe")),
        # Whether it is passed over or refused is left to whoever reads it, by RFC 8259.
        ("that begins with a byte order mark", b"\xef\xbb\xbf" + encode_line(conversation.message(case.harmless))),
    ):
        conversation.send(line)
        if not case.expect(
            "JR-20",
            await _still_serves(case),
            f"after a line {what}, the next request got no result",
            fix="Catch what the decoders of UTF-8 and JSON raise for one line, and read the next.",
        ):
            break
    codes = [part["error"].get("code") for part in _errors(complaint)] if complaint is not None else []
    if not codes and not RULES["JR-17"].applies_in(case.revision):
        case.skip("ER-01", "nothing was said about it, and in this revision every error must have an id, so that nothing could be")
        return
    case.expect(
        "ER-01",
        codes == [-32700],
        f"a line that is no JSON got {f'the code {codes[0]}' if codes else 'no answer'} instead of the error -32700",
        fix="Answer a line that cannot be parsed with the error -32700 (Parse error), without an id.",
        about=complaint,
    )


@probe("JR-15", judged=False)
async def arrays_are_refused(case: Case) -> None:
    """An array with one harmless request in it: the request is not served, and the next line is."""
    conversation, before = case.conversation, case.conversation.position
    if case.revision == "2024-11-05":
        case.give_up("whether this revision has batches is not quite certain: its text says JSON-RPC, its schema knows none")
    member = conversation.message(case.harmless)
    conversation.send([member])
    await conversation.quiet()
    sent = next((line for line in conversation.received_lines[before:] if isinstance(line.message, list)), None)
    served = next((response for response in conversation.responses_to(member["id"]) if response.is_result), None)
    fix = "Refuse an array with one error -32600; batches exist in 2025-03-26 alone."
    case.expect("JR-15", sent is None, "the server wrote an array of messages", fix=fix, about=sent)
    case.expect("JR-15", served is None, "a request inside of an array was served", fix=fix, about=served)
    case.expect("JR-15", await _still_serves(case), "after an array, the next request got no result", fix=fix)


@probe("JR-12", "JR-13", revisions="each")
async def batches_are_served(case: Case) -> None:
    """A batch with two requests, one of notifications alone, and an empty one."""
    conversation, before = case.conversation, case.conversation.position
    one, two = (
        conversation.message(case.harmless),
        conversation.message("tools/list" if case.features.has("tools") else case.harmless),
    )
    notification = {"jsonrpc": "2.0", "method": _UNKNOWN}
    conversation.send([one, notification, two])
    ids = one["id"], two["id"]
    await conversation.until_ignored(lambda: all(conversation.responses_to(each) for each in ids) or None)
    answered = [each for each in ids if conversation.responses_to(each)]
    case.expect(
        "JR-12",
        len(answered) == len(ids),
        f"of the two requests in a batch, {len(answered)} got an answer",
        fix="This revision has batches: take an array apart and serve each of its members. Or do not offer the revision.",
    )
    if len(answered) < len(ids):
        case.give_up("the server does not serve batches at all (see JR-12)")
    lines = [line for line in conversation.received_lines[before:] if any(part.get("id") in ids for part in _answers([line]))]
    whole = lines[0].message if len(lines) == 1 else None
    case.expect(
        "JR-13",
        isinstance(whole, list) and len(whole) == len(ids),
        f"the answers to a batch of two requests and a notification came on {len(lines)} lines, not as one array of two",
        fix="Collect the answers of a batch, and write them as one array when the last is there.",
        about=lines[0],
    )
    message = await _quiet_after(conversation, [notification, notification])
    told = [line for line in message if line.message == [] or _answers([line])]
    case.expect(
        "JR-13",
        not told,
        "a batch of notifications alone was answered",
        fix="Where there is nothing to answer, write nothing; not an empty array either.",
        about=told[0] if told else None,
    )
    start = conversation.position
    conversation.send([])
    complaint = await conversation.wait_for(lambda line: _errors(line) or line.message == [], since=start)
    case.expect(
        "JR-13",
        complaint is not None
        and isinstance(complaint.message, dict)
        and _errors(complaint)[0]["error"].get("code") == INVALID_REQUEST,
        "an empty array was not answered with one error -32600, as an object",
        fix="Answer [] with a single error -32600 (Invalid Request).",
        about=complaint,
    )


@probe("JR-19", judged=False)
async def stray_answers_do_no_harm(case: Case) -> None:
    """A result and an error for requests that the server never sent: the next request is served."""
    case.conversation.send({"jsonrpc": "2.0", "id": "nobody-asked", "result": {}})
    case.conversation.send({"jsonrpc": "2.0", "id": 987654, "error": {"code": -32603, "message": "nobody asked"}})
    case.expect(
        "JR-19",
        await _still_serves(case),
        "after answers to requests that the server never sent, the next request got no result",
        fix="Look up the id of an answer among the requests that wait; drop what is not there.",
    )


async def _still_serves(case: Case) -> bool:
    try:
        return (await case.conversation.request(case.harmless)).is_result
    except NoResponse:
        return False


async def _quiet_after(conversation: LiveConversation, message: Sequence[Any]) -> list[ReceivedLine]:
    before = conversation.position
    conversation.send(message)
    return await conversation.quiet(since=before)


def _answers(lines: Sequence[ReceivedLine]) -> list[dict[str, Any]]:
    return [part for line in lines for part in line.parts if "method" not in part]


def _errors(line: ReceivedLine) -> list[dict[str, Any]]:
    return [part for part in line.parts if "method" not in part and isinstance(part.get("error"), dict)]


def _is_complaint(line: ReceivedLine) -> bool:
    return any(part.get("id") is None for part in _errors(line))


def _is_result_for_null(line: ReceivedLine) -> bool:
    return any("result" in part and part.get("id") is None for part in _answers([line]))


def _is_notification(part: dict[str, Any]) -> bool:
    return isinstance(part["method"], str) and part["method"].startswith("notifications/")


def _answered_ids(conversation: LiveConversation, since: int, count: int) -> list[Any] | None:
    found = [part.get("id") for part in _answers(conversation.received_lines[since:])]
    return found if len(found) >= count else None


def _is_same(one: Any, other: Any) -> bool:
    # JSON has one type of numbers: 7.0 is 7.
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))
    return bool(one == other) if numbers else isinstance(other, str) and isinstance(one, str) and one == other


def _judge_id(case: Case, line: ReceivedLine, value: Any) -> None:
    case.expect("JR-03", value is not None, "the id of a request is null", fix="Give each request an id of its own.", about=line)
    is_whole = isinstance(value, str | int) and not isinstance(value, bool)
    if value is not None:
        case.expect(
            "JR-02",
            is_whole,
            f"the id of a request is {value!r}: neither a text nor a whole number",
            fix="Count up, or take a text.",
            about=line,
        )
