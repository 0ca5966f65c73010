"""JSON-RPC messages of servers, and how they handle invalid ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twopipes._codes import INVALID_REQUEST, PARSE_ERROR
from twopipes._rules.table import RULES
from twopipes._tools.check.conversation import ALL_CAPABILITIES, LiveConversation
from twopipes._tools.check.messages import ReceivedLine
from twopipes._tools.check.probe import Case, probe
from twopipes._wire import encode_line

_CALLS = 8
_TALKATIVE = {"ask", "sample", "roots_tool", "slow", "log"}  # the tools of test servers that send requests or notifications
# Numbers and strings that look alike, a negative number, and the largest one that every language can hold.
_IDS: Sequence[Any] = (700001, "700001", "a-b", -7, 9007199254740991)
_UNKNOWN = "notifications/twopipes-check-unknown"
# Methods that require params, by capability: an array instead of them cannot be right.
_WITH_PARAMS = {"tools": "tools/call", "resources": "resources/read", "prompts": "prompts/get"}


@probe("JR-06")
async def ids_are_returned_unchanged(case: Case) -> None:
    """Sends five requests at once, with ids of both types."""
    conversation, before = case.conversation, case.conversation.position
    for each in _IDS:
        conversation.start(case.harmless, request_id=each)

    def ids() -> list[Any]:
        return [part.get("id") for part in _responses(*conversation.received_lines[before:])]

    await conversation.until(lambda: len(ids()) >= len(_IDS) or None, case.timeouts.response)
    for each in _IDS:
        count = sum(_is_same(each, other) for other in ids())
        why = f"of five requests at once, the one with the id {each!r} got {count} responses; the ids of the responses: {ids()!r}"
        case.expect("JR-06", count == 1, why)


def _is_same(one: Any, other: Any) -> bool:
    # JSON has one type of numbers: 7.0 is 7.
    are_numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))
    return (are_numbers or (isinstance(one, str) and isinstance(other, str))) and bool(one == other)


@probe("JR-05")
async def an_id_may_be_reused(case: Case) -> None:
    """Uses the id of a request again, after its response."""
    conversation = case.conversation
    again = (await conversation.request(case.harmless)).id
    before = len(conversation.responses_to(again))
    conversation.start(case.harmless, request_id=again)
    response = await conversation.until(lambda: next(iter(conversation.responses_to(again)[before:]), None), case.timeouts.response)
    summary = "no response" if response is None else response.summary
    is_served = response is not None and response.is_result
    case.expect("JR-05", is_served, f"{case.harmless} with the id of a request that has ended got {summary}", about=response)


@probe("JR-02", "JR-03", "JR-04", "JR-09", "JR-11", needs="call", client_capabilities=ALL_CAPABILITIES)
async def requests_and_notifications_are_well_formed(case: Case) -> None:
    """Calls tools as a client that can answer all questions, and looks at what the server sends by itself."""
    conversation = case.conversation
    calls = sorted(case.safe_calls, key=lambda call: call.name not in _TALKATIVE)
    for number, call in enumerate(calls[:_CALLS]):
        if (await conversation.try_request("tools/call", call.params, meta={"progressToken": f"check-{number}"})).silence:
            break
    await conversation.quiet()
    ids: list[Any] = []
    sent = [(line, part) for line in conversation.received_lines for part in line.parts if "method" in part]
    for line, part in sent:
        method = part["method"]
        case.expect("JR-11", isinstance(part.get("params", {}), dict), f"the params of {method} are not an object", about=line)
        if isinstance(method, str) and method.startswith("notifications/"):
            case.expect("JR-09", "id" not in part, f"the notification {method} has an id", about=line)
        elif "id" in part:
            ids.append(part["id"])
            case.expect("JR-03", ids[-1] is not None, "the id of a request is null", about=line)
            if ids[-1] is not None:
                is_right = isinstance(ids[-1], str | int) and not isinstance(ids[-1], bool)
                case.expect("JR-02", is_right, f"the id of a request is {ids[-1]!r}, not a string or an integer", about=line)
    usable = [(type(each), each) for each in ids if isinstance(each, str | int)]
    if usable:
        case.expect("JR-04", len(usable) == len(set(usable)), f"two requests of the server have the same id: {ids!r}")
    case.give_up("no tool that may be called made the server send such a message")


@probe("JR-10")
async def notifications_are_not_answered(case: Case) -> None:
    """Sends an unknown notification, and one without its params."""
    conversation, before = case.conversation, case.conversation.position
    conversation.notify(_UNKNOWN, {"zz": 1})
    conversation.notify("notifications/cancelled")
    # A response with an id belongs to an earlier slow request.
    lines = await conversation.quiet(since=before)
    answered = [line for line in lines if any(part.get("id") is None for part in _responses(line))]
    case.forbid("JR-10", answered, "a notification that is unknown, or lacks its params, was answered")


@probe("JR-18")
async def unknown_members_are_ignored(case: Case) -> None:
    """Adds an unknown member to the params of requests that work."""
    for method in (case.harmless, *(f"{each}/list" for each in ("tools", "prompts") if case.features.has(each))):
        if (await case.conversation.request(method)).is_result:
            response = await case.conversation.request(method, {"zz": 1})
            why = f"{method} works, but with an unknown member zz in its params it got {response.summary}"
            case.expect("JR-18", response.is_result, why, about=response)


@probe("JR-01", "JR-03", "JR-11", "ER-02", judged=False)
async def invalid_requests_are_rejected(case: Case) -> None:
    """Sends five objects that are almost requests."""
    conversation, before = case.conversation, case.conversation.position
    valid = conversation.message
    other_version = {**valid(case.harmless), "jsonrpc": "1.0"}
    method = next((method for capability, method in _WITH_PARAMS.items() if case.features.has(capability)), case.harmless)
    array = {**valid(method), "params": [1]}
    no_method = {key: value for key, value in valid(case.harmless).items() if key != "method"}
    for message in (other_version, {**valid(case.harmless), "id": None}, array, no_method):
        conversation.send(message)
    await conversation.quiet()
    # Sent alone, since JSON-RPC allows the id null in the error for it: then only the order shows what it is for.
    since = conversation.position
    odd_method = {**valid(case.harmless), "method": 5}
    conversation.send(odd_method)
    await conversation.until_ignored(
        lambda: conversation.responses_to(odd_method["id"]) or _has_nameless_error(conversation, since) or None
    )
    if conversation.is_over:
        case.give_up("the server exited on a message that is not a request (see JR-20)")
    served = [each for each in conversation.responses_to(other_version["id"]) if each.is_result]
    case.forbid("JR-01", served, 'a request with "jsonrpc": "1.0" was served')
    lines = conversation.received_lines[before:]
    nameless = [line for line in lines if any("result" in part and part.get("id") is None for part in _responses(line))]
    case.forbid("JR-03", nameless, "a request with the id null was served")
    served = [each for each in conversation.responses_to(array["id"]) if each.is_result]
    if case.is_modern or method != case.harmless:
        case.forbid("JR-11", served, f"{method} with an array as its params got a result")
    if _has_nameless_error(conversation, since):
        case.expect("ER-02", True, "")
    else:
        _judge_invalid_request(case, odd_method["id"], "whose method is a number")
    # A message without a method may be a response without a result, which needs no response.
    if conversation.responses_to(no_method["id"]):
        _judge_invalid_request(case, no_method["id"], "without a method")


def _has_nameless_error(conversation: LiveConversation, since: int) -> bool:
    errors = [part for line in conversation.received_lines[since:] for part in _errors(line) if part.get("id") is None]
    return any(part["error"].get("code") == INVALID_REQUEST for part in errors)


def _judge_invalid_request(case: Case, request_id: Any, what: str) -> None:
    response = next(iter(case.conversation.responses_to(request_id)), None)
    summary = "no response with its id" if response is None else response.summary
    is_right = response is not None and response.code == INVALID_REQUEST
    case.expect("ER-02", is_right, f"a message {what} got {summary}, not the error -32600", about=response)


@probe("JR-20", "ER-01", judged=False)
async def broken_lines_do_no_harm(case: Case) -> None:
    """Sends lines that are not JSON, not an object, not UTF-8, and with a byte order mark."""
    conversation, before = case.conversation, case.conversation.position
    conversation.send(b'{"jsonrpc":\n')
    complaint: ReceivedLine | None = await conversation.until_ignored(
        lambda: next((line for line in conversation.received_lines[before:] if line.has_error_without_id), None)
    )
    valid = encode_line(conversation.message(case.harmless, {"padding": "?"}))
    for what, line in (
        ("that is not JSON", b""),
        ("that is not an object", b'"text"\n'),
        ("that is not UTF-8", valid.replace(b"?", b"\xff\xfe")),
        # RFC 8259 allows readers to ignore or to reject it.
        ("with a byte order mark", b"\xef\xbb\xbf" + encode_line(conversation.message(case.harmless))),
    ):
        conversation.send(line)
        if not case.expect("JR-20", await _still_serves(case), f"after a line {what}, the next request got no result"):
            break
    codes = [part["error"].get("code") for part in _errors(complaint)] if complaint is not None else []
    if not codes and not RULES["JR-17"].applies_in(case.revision):
        case.skip("ER-01", "there was no response, and in this revision every error needs an id, which could not be read")
        return
    summary = f"the code {codes[0]}" if codes else "no response"
    case.expect("ER-01", codes == [PARSE_ERROR], f"a line that is not JSON got {summary}, not the error -32700", about=complaint)


@probe("JR-15", judged=False)
async def batches_are_rejected(case: Case) -> None:
    """Sends an array with a request in it."""
    conversation, before = case.conversation, case.conversation.position
    if case.revision == "2024-11-05":
        case.give_up("this revision may have batches: its text follows JSON-RPC, but its schema has none")
    member = conversation.message(case.harmless)
    conversation.send([member])
    await conversation.quiet()
    sent = [line for line in conversation.received_lines[before:] if isinstance(line.message, list)]
    case.forbid("JR-15", sent, "the server sent an array of messages")
    served = [response for response in conversation.responses_to(member["id"]) if response.is_result]
    case.forbid("JR-15", served, "a request in an array was served")
    case.expect("JR-15", await _still_serves(case), "after an array, the next request got no result")


@probe("JR-12", "JR-13", revisions="each")
async def batches_are_served(case: Case) -> None:
    """Sends a batch with two requests, one with notifications only, and an empty one."""
    conversation, before = case.conversation, case.conversation.position
    other = "tools/list" if case.features.has("tools") else case.harmless
    one, two = conversation.message(case.harmless), conversation.message(other)
    notification = {"jsonrpc": "2.0", "method": _UNKNOWN}
    conversation.send([one, notification, two])
    ids = one["id"], two["id"]
    await conversation.until_ignored(lambda: all(conversation.responses_to(each) for each in ids) or None)
    count = sum(bool(conversation.responses_to(each)) for each in ids)
    if not case.expect("JR-12", count == 2, f"of two requests in a batch, {count} got a response"):
        case.give_up("the server does not serve batches (see JR-12)")
    lines = [line for line in conversation.received_lines[before:] if any(part.get("id") in ids for part in _responses(line))]
    whole = lines[0].message if len(lines) == 1 else None
    why = f"the responses to a batch of two requests and a notification came on {len(lines)} lines, not as one array of two"
    case.expect("JR-13", isinstance(whole, list) and len(whole) == 2, why, about=lines[0])
    before = conversation.position
    conversation.send([notification, notification])
    lines = await conversation.quiet(since=before)
    answered = [line for line in lines if line.message == [] or _responses(line)]
    case.forbid("JR-13", answered, "a batch of notifications was answered")
    before = conversation.position
    conversation.send([])
    error = await conversation.wait_for(lambda line: _errors(line) or line.message == [], since=before)
    is_right = error is not None and isinstance(error.message, dict) and error.message["error"].get("code") == INVALID_REQUEST
    case.expect("JR-13", is_right, "an empty array did not get one error -32600, as an object", about=error)


@probe("JR-19", judged=False)
async def responses_without_a_request_do_no_harm(case: Case) -> None:
    """Sends a result and an error for requests that the server did not send."""
    case.conversation.send({"jsonrpc": "2.0", "id": "never-sent", "result": {}})
    case.conversation.send({"jsonrpc": "2.0", "id": 987654, "error": {"code": -32603, "message": "never sent"}})
    why = "after responses to requests that the server did not send, the next request got no result"
    case.expect("JR-19", await _still_serves(case), why)


async def _still_serves(case: Case) -> bool:
    return (await case.conversation.try_request(case.harmless)).is_result


def _responses(*lines: ReceivedLine) -> list[dict[str, Any]]:
    return [part for line in lines for part in line.parts if "method" not in part]


def _errors(line: ReceivedLine) -> list[dict[str, Any]]:
    return [part for part in _responses(line) if isinstance(part.get("error"), dict)]
