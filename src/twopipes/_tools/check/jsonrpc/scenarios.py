"""JSON-RPC, from the side of a server: questions to the client, odd answers, and lines that are no messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.json import decode

from twopipes._codes import INVALID_REQUEST, METHOD_NOT_FOUND
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE, Fault, RawResult
from twopipes._tools.check.quotes import sent_with
from twopipes._wire import encode_line

_NUMBER, _TEXT, _UNKNOWN, _ROOTS = 4100001, "4100001", "unknown", "roots"
_LINES, _LETTERS = "two\nlines", "\u00e9 \u6f22 \U0001f600"
_STRAY = "stray"
_ODD, _IN_A_BATCH = "odd", "in-a-batch"
_BATCH = ("batch-1", "batch-2")
_NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/twopipes-check-unknown", "params": {"zz": 1}}
_BEHIND_A_MARK = b"\xef\xbb\xbf" + encode_line(_NOTIFICATION)
_WITHOUT_BATCHES = ("2025-06-18", "2025-11-25")
_OF_NO_USE = "on the stateless wire a client answers nothing"


@scenario("JR-06", "JR-07", "JR-08", "JR-16", "JR-17", "ER-03", "ER-15", "PI-01", "FR-02", "FR-03", name="asks-the-client")
async def asks_the_client(fake: FakeServer) -> None:
    """Two pings with ids that look alike, two with odd ones, an unknown method, and roots if the client has none."""
    if fake.is_modern:
        fake.give_up(_OF_NO_USE)
    asked: dict[Any, str] = {**dict.fromkeys((_NUMBER, _TEXT, _LINES, _LETTERS), "ping"), _UNKNOWN: "twopipes-check/no-such-method"}

    async def ask(message: ClientMessage) -> None:
        if "roots" not in message.connection.client_capabilities:
            asked[_ROOTS] = "roots/list"
        for request_id, method in asked.items():
            message.connection.send({"jsonrpc": "2.0", "id": request_id, "method": method})
        await fake.until(lambda: len(_answers(fake)) >= len(asked) or None, fake.timeouts.brief)

    fake.on["tools/list"] = ask
    await fake.wait_for("tools/list")
    await fake.client_exited()
    _judge_answers(fake, list(asked))
    for request_id in (_NUMBER, _TEXT):
        answers = _answers_to(fake, request_id)
        message, response = answers[0] if answers else (sent_with(fake, _TEXT), {})
        result = response.get("result")
        fake.expect(
            "PI-01",
            isinstance(result, dict) and not set(result) - {"_meta"},
            f"a ping of the server with the id {request_id!r} got {_told(response)}, and not an empty result",
            fix="Answer ping with an empty object as its result, and with its id.",
            about=message,
        )
    _judge_unknown(fake)
    _judge_odd_ids(fake)
    if _ROOTS in asked:
        for message, response in _answers_to(fake, _ROOTS)[:1]:
            fake.expect(
                "ER-15",
                _code(response) == METHOD_NOT_FOUND,
                f"the client did not declare roots, and answered roots/list with {_told(response)} instead of the error -32601",
                fix="Answer what you did not declare with the error -32601 (Method not found).",
                about=message,
            )
    else:
        fake.skip("ER-15", "the client has roots, and the check cannot make it refuse a sampling or fail")


def _judge_odd_ids(fake: FakeServer) -> None:
    if not _answers_to(fake, _TEXT):
        for rule in ("FR-02", "FR-03"):
            fake.skip(rule, "the client does not answer pings")
        return
    for rule, request_id, fix in (
        ("FR-02", _LINES, "Write a newline in a string as \\n; encoders of JSON do so by themselves, without pretty printing."),
        ("FR-03", _LETTERS, "Read and write the streams as UTF-8, whatever the system takes for its own encoding."),
    ):
        odd = next((message for message in fake.received_lines if message.message is None), None)
        fake.expect(
            rule,
            _answers_to(fake, request_id),
            f"a ping with the id {request_id!r} got no answer with this id, and one with a plain id did",
            fix=fix,
            about=odd or sent_with(fake, _UNKNOWN),
        )


def _judge_unknown(fake: FakeServer) -> None:
    fix = "Answer every request. For a method that is not there: the error -32601 (Method not found), with the id of the request."
    answers = _answers_to(fake, _UNKNOWN)
    message, response = answers[0] if answers else (sent_with(fake, _UNKNOWN), {})
    fake.expect("JR-16", _code(response) is not None, f"a method that does not exist got {_told(response)}", fix=fix, about=message)
    if answers:
        why = f"a method that does not exist got {_told(response)}, not -32601"
        fake.expect("ER-03", _code(response) == METHOD_NOT_FOUND, why, fix=fix, about=message)
    nameless = next((message for message, each in _answers(fake) if each.get("id") is None), None)
    if answers or nameless is not None:
        fake.expect(
            "JR-17",
            nameless is None,
            "an error came without the id of its request, which could be read",
            fix=fix,
            about=nameless,
        )


def _judge_answers(fake: FakeServer, asked: Sequence[Any]) -> None:
    keys = [(type(each), each) for each in asked]
    seen: list[Any] = []
    for message, response in _answers(fake):
        key = type(response.get("id")), response.get("id")
        if key[1] is not None:
            fake.expect(
                "JR-06",
                key in keys and key not in seen,
                f"an answer has the id {key[1]!r}, and what waits for one are {asked!r}: another value or type, or a second answer",
                fix="Keep the id of a request as it was decoded, and write that, once.",
                about=message,
            )
        seen.append(key)
        fake.expect(
            "JR-07",
            ("result" in response) != ("error" in response) and isinstance(response.get("result", {}), dict),
            "an answer needs a result, which is an object, or an error; this has both, neither, or another result",
            fix="Send one of the two; an empty result is {}.",
            about=message,
        )
        if "error" in response:
            error = response["error"] if isinstance(response["error"], dict) else {}
            code = error.get("code")
            fake.expect(
                "JR-08",
                isinstance(code, int) and not isinstance(code, bool) and isinstance(error.get("message"), str),
                f"the error has the code {code!r} and the message {error.get('message')!r}",
                fix="An error has a code, which is a whole number, and a message, which is a text.",
                about=message,
            )


@scenario("JR-18", "PI-04", name="adds-unknown-members")
async def adds_members_nobody_knows(fake: FakeServer) -> None:
    """Answers, capabilities, tools and blocks have members that no revision knows."""

    def extended(message: ClientMessage) -> Any:
        response = fake.healthy_response(message)
        if response is SILENCE or isinstance(response, Fault | RawResult) or not isinstance(response, dict):
            return response
        return _extended(response)

    for method in ("initialize", "server/discover", "tools/list", "tools/call", "resources/list", "resources/read", "prompts/get"):
        fake.on[method] = extended
    fake.healthy.tools[:] = [_extended(tool) for tool in fake.healthy.tools]
    fake.healthy.capabilities["zz"] = {"deep": True}
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "JR-18",
        not fake.what_differs,
        f"when results, tools and content had an unknown member zz, {fake.what_differs}",
        fix="Read what you know of a result, and pass over the rest.",
        about=sent_with(fake, '"zz"'),
    )
    ping = next(iter(fake.requests("ping")), None)
    fake.expect("PI-04", ping is None, "the client sent a ping on the stateless wire", fix="Send server/discover.", about=ping)


def _extended(members: dict[str, Any]) -> dict[str, Any]:
    blocks = members.get("content")
    if isinstance(blocks, list):
        members = {**members, "content": [{**block, "zz": 1} for block in blocks]}
    return {**members, "zz": {"deep": [1]}}


@scenario("JR-10", "JR-19", name="sends-unrequested-responses", judged=False)
async def answers_what_nobody_asked(fake: FakeServer) -> None:
    """The list of tools comes twice, beside an answer to nothing, and notifications that are unknown or that lack their params."""

    def twice(message: ClientMessage) -> Any:
        line = fake.line_for(message)
        message.connection.send(_NOTIFICATION)
        message.connection.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
        message.connection.send({**decode(line), "id": 999999})
        message.connection.send(line + line)
        return SILENCE

    fake.on["tools/list"] = twice
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "JR-19",
        not fake.what_differs,
        f"when an answer came twice, and one to a request that was never sent, {fake.what_differs}",
        fix="Look up the request by the id of the answer; drop what belongs to none.",
        about=sent_with(fake, "999999", '"tools":['),
    )
    answered = next((message for message, response in _answers(fake) if response.get("id") is None), None)
    fake.expect(
        "JR-10",
        answered is None,
        "a notification that is unknown, or lacks its params, was answered",
        fix="Answer what has an id; whatever is wrong with a message that has none, log it and go on.",
        about=answered,
    )


@scenario("JR-15", "JR-20", "ER-02", name="sends-broken-lines", judged=False)
async def sends_broken_lines(fake: FakeServer) -> None:
    """Lines that are no JSON, no object, no UTF-8 or no message, one behind a byte order mark, and arrays."""

    def spoil(message: ClientMessage) -> None:
        message.connection.send(b'{oops\n"text"\n\xff\xfe\n' + _BEHIND_A_MARK)
        if not fake.is_modern:
            message.connection.send({"jsonrpc": "2.0", "id": _ODD, "method": 5})
        if fake.revision in _WITHOUT_BATCHES:
            message.connection.send([{"jsonrpc": "2.0", "id": _IN_A_BATCH, "method": "ping"}])
        if fake.is_modern or fake.revision in _WITHOUT_BATCHES:
            stray = fake.line_for(message, {"tools": [{**fake.healthy.tools[0], "name": _STRAY}]})
            message.connection.send([decode(stray)])

    fake.on["tools/list"] = spoil
    await fake.wait_for("tools/list")
    await fake.client_exited()
    fake.expect(
        "JR-20",
        not fake.what_differs,
        f"when lines came that are no messages, {fake.what_differs}",
        fix="Pass over a line that cannot be read, and read the next.",
        about=sent_with(fake, "{oops", b"\xff", f'"{_ODD}"', _IN_A_BATCH, _STRAY),
    )
    for message, response in _answers_to(fake, _ODD)[:1]:
        fake.expect(
            "ER-02",
            _code(response) == INVALID_REQUEST,
            f"a request whose method is a number got {_told(response)} instead of the error -32600",
            fix="Answer with the error -32600 (Invalid Request) and the id, where the id can be read.",
            about=message,
        )
    if not _answers_to(fake, _ODD):
        fake.skip("ER-02", _OF_NO_USE if fake.is_modern else "the client did not answer, as it may if it takes the line for noise")
    sent = next((message for message in fake.received_lines if isinstance(message.message, list)), None)
    served = next((message for message, response in _answers_to(fake, _IN_A_BATCH) if "result" in response), None)
    called = fake.requests("tools/call")
    taken = next((message for message in called if message.params.get("name") == _STRAY), None)
    if fake.is_modern and sent is None and not called:
        fake.give_up("the client calls no tool, so the check cannot tell whether it took the list of tools that came in an array")
    fake.expect(
        "JR-15",
        sent is None and served is None and taken is None,
        "the client wrote an array, served a request that came inside of one, or took an answer out of one",
        fix="Drop an array, or refuse it with one error -32600; batches exist in 2025-03-26 alone.",
        about=sent or served or taken,
    )


@scenario("JR-12", "JR-13", revisions="each", name="asks-in-a-batch")
async def asks_in_a_batch(fake: FakeServer) -> None:
    """A batch with a notification alone, one with two pings and a notification, and one with nothing."""
    before: list[int] = []

    async def ask(message: ClientMessage) -> None:
        one, two = ({"jsonrpc": "2.0", "id": each, "method": "ping"} for each in _BATCH)
        message.connection.send([_NOTIFICATION])
        message.connection.send([one, _NOTIFICATION, two])
        await fake.until(lambda: all(_answers_to(fake, each) for each in _BATCH) or None, fake.timeouts.brief)
        if not before and all(_answers_to(fake, each) for each in _BATCH):
            before.append(len(fake.received_lines))
            message.connection.send([])
            # Not everybody answers this one: whoever has said nothing while it answered a ping will not.
            await fake.ask("ping", within=fake.timeouts.brief)

    fake.on["tools/list"] = ask
    await fake.wait_for("tools/list")
    await fake.client_exited()
    answered = [each for each in _BATCH if _answers_to(fake, each)]
    fake.expect(
        "JR-12",
        len(answered) == len(_BATCH),
        f"of the two requests in a batch, {len(answered)} got an answer",
        fix="This revision has batches: take an array apart and serve each of its members. Or do not ask for the revision.",
        about=sent_with(fake, _BATCH[0]),
    )
    if len(answered) < len(_BATCH):
        fake.give_up("the batch was not answered")
    lines = [message for message, response in _answers(fake) if response.get("id") in _BATCH]
    whole = lines[0].message
    fake.expect(
        "JR-13",
        lines[0] is lines[-1] and isinstance(whole, list) and len(whole) == len(_BATCH),
        "the answers to a batch of two requests and a notification did not come as one array of two",
        fix="Collect the answers of a batch, and write them as one array when the last is there.",
        about=lines[0],
    )
    # The batches are read in their order: what comes before the answers to the second was said of the first.
    told = _said_of_nothing(fake, 0, before[0])
    fake.expect(
        "JR-13",
        not told,
        "a batch of a notification alone was answered",
        fix="Where there is nothing to answer, write nothing.",
        about=told[0] if told else None,
    )
    told = _said_of_nothing(fake, before[0])
    fake.expect(
        "JR-13",
        not told or (len(told) == 1 and isinstance(told[0].message, dict) and _code(told[0].message) == INVALID_REQUEST),
        f"an empty array got {len(told)} answers, or another than the error -32600 as an object",
        fix="Answer [] with a single error -32600 (Invalid Request).",
        about=told[0] if told else None,
    )


def _said_of_nothing(fake: FakeServer, start: int, end: int | None = None) -> list[ClientMessage]:
    """What the client said that answers no request: an empty array, or something without an id."""
    without = [message for message, response in _answers(fake) if response.get("id") is None]
    return [message for message in fake.received_lines[start:end] if message.message == [] or message in without]


def _answers(fake: FakeServer) -> list[tuple[ClientMessage, dict[str, Any]]]:
    """What the client answered, also in arrays, with the lines it came on."""
    found = []
    for message in fake.received_lines:
        parts = message.message if isinstance(message.message, list) else [message.message]
        found += [(message, part) for part in parts if isinstance(part, dict) and "method" not in part]
    return found


def _answers_to(fake: FakeServer, request_id: Any) -> list[tuple[ClientMessage, dict[str, Any]]]:
    return [
        (message, response)
        for message, response in _answers(fake)
        if type(response.get("id")) is type(request_id) and response.get("id") == request_id
    ]


def _code(response: dict[str, Any]) -> Any:
    error = response.get("error")
    return error.get("code") if isinstance(error, dict) else None


def _told(response: dict[str, Any]) -> str:
    return f"the error {_code(response)}" if "error" in response else "a result" if "result" in response else "no answer"
