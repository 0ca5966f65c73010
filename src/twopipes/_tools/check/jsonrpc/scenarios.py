"""JSON-RPC messages of clients, and how they handle invalid ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.json import decode

from twopipes._codes import INVALID_REQUEST, METHOD_NOT_FOUND
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.messages import ClientMessage, id_key, members, parts_of, same_id
from twopipes._tools.check.scenario import scenario
from twopipes._wire import encode_line

_NUMBER, _TEXT, _UNKNOWN, _ROOTS = 4100001, "4100001", "unknown", "roots"
_LINES, _LETTERS = "two\nlines", "\u00e9 \u6f22 \U0001f600"
_STRAY, _ODD, _IN_A_BATCH = "stray", "odd", "in-a-batch"
_BATCH = ("batch-1", "batch-2")
_NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/twopipes-check-unknown", "params": {"zz": 1}}
_WITHOUT_BATCHES = ("2025-06-18", "2025-11-25")
_NO_RESPONSES = "in modern revisions a client sends no responses"


@scenario("JR-06", "JR-07", "JR-08", "JR-16", "JR-17", "ER-03", "ER-15", "PI-01", "FR-02", "FR-03")
async def asks_the_client(fake: FakeServer) -> None:
    """Sends two pings whose ids look alike, two with unusual ids, an unknown method, and roots/list if it is undeclared."""
    if fake.is_modern:
        fake.give_up(_NO_RESPONSES)
    asked: dict[Any, str] = {**dict.fromkeys((_NUMBER, _TEXT, _LINES, _LETTERS), "ping"), _UNKNOWN: "twopipes-check/no-such-method"}

    async def ask(message: ClientMessage) -> None:
        if "roots" not in message.connection.client_capabilities:
            asked[_ROOTS] = "roots/list"
        for request_id, method in asked.items():
            message.connection.send({"jsonrpc": "2.0", "id": request_id, "method": method})
        await fake.until(lambda: len(_responses(fake)) >= len(asked) or None, fake.timeouts.brief)

    await fake.exited_after("tools/list", ask)
    _judge_responses(fake, list(asked))
    for request_id in (_NUMBER, _TEXT):
        message, response = next(iter(_responses_to(fake, request_id)), (fake.sent_with(_TEXT), {}))
        is_empty = isinstance(response.get("result"), dict) and not response["result"].keys() - {"_meta"}
        why = f"a ping of the server with the id {request_id!r} got {_summary(response)}, not an empty result"
        fake.expect("PI-01", is_empty, why, about=message)
    _judge_unknown(fake)
    _judge_unusual_ids(fake)
    for message, response in _responses_to(fake, _ROOTS)[:1]:
        why = f"the client did not declare roots, and responded to roots/list with {_summary(response)}"
        fake.expect("ER-15", _code(response) == METHOD_NOT_FOUND, why, about=message)
    if _ROOTS not in asked:
        fake.skip("ER-15", "the client has roots, and the check cannot make it refuse a sampling or fail")


def _judge_unusual_ids(fake: FakeServer) -> None:
    broken = next((message for message in fake.received_lines if message.message is None), None)
    for rule, request_id in (("FR-02", _LINES), ("FR-03", _LETTERS)):
        if _responses_to(fake, _TEXT):
            why = f"a ping with the id {request_id!r} got no response with this id, but one with a plain id did"
            fake.expect(rule, _responses_to(fake, request_id), why, about=broken or fake.sent_with(_UNKNOWN))
        else:
            fake.skip(rule, "the client does not respond to pings")


def _judge_unknown(fake: FakeServer) -> None:
    responses = _responses_to(fake, _UNKNOWN)
    message, response = next(iter(responses), (fake.sent_with(_UNKNOWN), {}))
    why = f"an unknown method got {_summary(response)}"
    fake.expect("JR-16", _code(response) is not None, why, about=message)
    if responses:
        fake.expect("ER-03", _code(response) == METHOD_NOT_FOUND, why, about=message)
    nameless = next((message for message, each in _responses(fake) if each.get("id") is None), None)
    if responses or nameless is not None:
        fake.forbid("JR-17", nameless, "an error lacks the id of its request, which could be read")


def _judge_responses(fake: FakeServer, asked: Sequence[Any]) -> None:
    waiting = [id_key(each) for each in asked]
    for message, response in _responses(fake):
        if (request_id := response.get("id")) is not None:
            is_open = id_key(request_id) in waiting
            why = f"a response has the id {request_id!r}; the open requests are {asked!r}, each with one response"
            fake.expect("JR-06", is_open, why, about=message)
            if is_open:
                waiting.remove(id_key(request_id))
        is_right = ("result" in response) != ("error" in response) and isinstance(response.get("result", {}), dict)
        fake.expect("JR-07", is_right, "a response has not either a result that is an object or an error", about=message)
        if "error" in response:
            code, text = _code(response), members(response["error"]).get("message")
            is_right = isinstance(code, int) and not isinstance(code, bool) and isinstance(text, str)
            fake.expect("JR-08", is_right, f"an error has the code {code!r} and the message {text!r}", about=message)


@scenario("JR-18", "PI-04")
async def adds_unknown_members(fake: FakeServer) -> None:
    """Adds unknown members to results, capabilities, tools and content blocks."""

    def extended(message: ClientMessage) -> Any:
        response = fake.healthy_response(message)
        return _extended(response) if isinstance(response, dict) else response

    for method in ("initialize", "server/discover", "tools/list", "tools/call", "resources/list", "resources/read", "prompts/get"):
        fake.on[method] = extended
    fake.healthy.tools[:] = [_extended(tool) for tool in fake.healthy.tools]
    fake.healthy.capabilities["zz"] = {"deep": True}
    await fake.exited_after("tools/list")
    fake.expect_as_usual("JR-18", "when results, tools and content had an unknown member zz", about=fake.sent_with('"zz"'))
    fake.forbid("PI-04", fake.first("ping"), "the client sent a ping in a modern revision")


def _extended(result: dict[str, Any]) -> dict[str, Any]:
    blocks = result.get("content")
    if isinstance(blocks, list):
        result = {**result, "content": [{**block, "zz": 1} for block in blocks]}
    return {**result, "zz": {"deep": [1]}}


@scenario("JR-10", "JR-19", judged=False)
async def sends_unrequested_responses(fake: FakeServer) -> None:
    """Sends the list of tools twice, a response without a request, and notifications that are unknown or lack their params."""

    def send_twice(message: ClientMessage) -> Any:
        line = fake.line_for(message)
        message.connection.send(_NOTIFICATION)
        message.connection.notify("notifications/cancelled")
        message.connection.send({**decode(line), "id": 999999})
        message.connection.send(line + line)
        return SILENCE

    await fake.exited_after("tools/list", send_twice)
    quote = fake.sent_with("999999", '"tools":[')
    fake.expect_as_usual("JR-19", "when a response came twice, and one without a request", about=quote)
    answered = [message for message, response in _responses(fake) if response.get("id") is None]
    fake.forbid("JR-10", answered, "a notification that is unknown, or lacks its params, was answered")


@scenario("JR-15", "JR-20", "ER-02", transport="stream", judged=False)
async def sends_broken_lines(fake: FakeServer) -> None:
    """Sends lines that are not JSON, not an object, not UTF-8 or not a message, one with a byte order mark, and arrays."""

    def send_broken(message: ClientMessage) -> None:
        send = message.connection.send
        send(b'{oops\n"text"\n\xff\xfe\n\xef\xbb\xbf' + encode_line(_NOTIFICATION))
        if not fake.is_modern:
            send({"jsonrpc": "2.0", "id": _ODD, "method": 5})
        if fake.revision in _WITHOUT_BATCHES:
            send([{"jsonrpc": "2.0", "id": _IN_A_BATCH, "method": "ping"}])
        if fake.is_modern or fake.revision in _WITHOUT_BATCHES:
            send([decode(fake.line_for(message, {"tools": [{**fake.healthy.tools[0], "name": _STRAY}]}))])

    await fake.exited_after("tools/list", send_broken)
    quote = fake.sent_with("{oops", b"\xff", f'"{_ODD}"', _IN_A_BATCH, _STRAY)
    fake.expect_as_usual("JR-20", "when lines came that are not messages", about=quote)
    for message, response in _responses_to(fake, _ODD)[:1]:
        why = f"a request whose method is a number got {_summary(response)}, not the error -32600"
        fake.expect("ER-02", _code(response) == INVALID_REQUEST, why, about=message)
    if not _responses_to(fake, _ODD):
        fake.skip("ER-02", _NO_RESPONSES if fake.is_modern else "the client did not respond, as it may if the line is noise to it")
    _judge_batches(fake)


def _judge_batches(fake: FakeServer) -> None:
    sent = next((message for message in fake.received_lines if isinstance(message.message, list)), None)
    served = next((message for message, response in _responses_to(fake, _IN_A_BATCH) if "result" in response), None)
    if fake.is_modern and sent is None and not fake.requests("tools/call"):
        fake.give_up("the client calls no tool, so it is not visible whether it used the list of tools in an array")
    why = "the client sent an array, served a request in an array, or used a response in an array"
    fake.forbid("JR-15", sent or served or fake.call_of(_STRAY), why)


@scenario("JR-12", "JR-13", revisions="each")
async def sends_batches(fake: FakeServer) -> None:
    """Sends a batch with a notification, one with two pings and a notification, and an empty one."""
    before: list[int] = []

    def are_answered() -> bool:
        return all(_responses_to(fake, each) for each in _BATCH)

    async def ask(message: ClientMessage) -> None:
        one, two = ({"jsonrpc": "2.0", "id": each, "method": "ping"} for each in _BATCH)
        message.connection.send([_NOTIFICATION])
        message.connection.send([one, _NOTIFICATION, two])
        await fake.until(lambda: are_answered() or None, fake.timeouts.brief)
        if not before and are_answered():
            before.append(len(fake.received_lines))
            message.connection.send([])
            # A client may ignore the empty batch: then its response to this ping comes first.
            await fake.ask("ping", within=fake.timeouts.brief)

    await fake.exited_after("tools/list", ask)
    count = sum(bool(_responses_to(fake, each)) for each in _BATCH)
    why = f"of two requests in a batch, {count} got a response"
    if not fake.expect("JR-12", count == 2, why, about=fake.sent_with(_BATCH[0])):
        fake.give_up("the batch was not answered")
    lines = [message for message, response in _responses(fake) if response.get("id") in _BATCH]
    is_one = lines[0] is lines[-1] and isinstance(lines[0].message, list) and len(lines[0].message) == 2
    why = "the responses to a batch of two requests and a notification did not come as one array of two"
    fake.expect("JR-13", is_one, why, about=lines[0])
    # Batches are read in order: a line before the responses to the second one belongs to the first.
    nameless = [message for message, response in _responses(fake) if response.get("id") is None]
    nameless = [message for message in fake.received_lines if message.message == [] or message in nameless]
    early = [message for message in nameless if message.number < before[0]]
    fake.forbid("JR-13", early, "a batch of one notification was answered")
    late = [message for message in nameless if message.number >= before[0]]
    is_right = not late or (len(late) == 1 and _code(members(late[0].message)) == INVALID_REQUEST)
    why = f"an empty array got {len(late)} responses, or another one than the error -32600 as an object"
    fake.expect("JR-13", is_right, why, about=next(iter(late), None))


def _responses(fake: FakeServer) -> list[tuple[ClientMessage, dict[str, Any]]]:
    """Return the responses of the client, also those in arrays, with their lines."""
    return [(message, part) for message in fake.received_lines for part in parts_of(message.message) if "method" not in part]


def _responses_to(fake: FakeServer, request_id: Any) -> list[tuple[ClientMessage, dict[str, Any]]]:
    return [(message, response) for message, response in _responses(fake) if same_id(response.get("id"), request_id)]


def _code(response: dict[str, Any]) -> Any:
    return members(response.get("error")).get("code")


def _summary(response: dict[str, Any]) -> str:
    return f"the error {_code(response)}" if "error" in response else "a result" if "result" in response else "no response"
