"""HTTP for clients: their requests, both kinds of responses, streams, sessions and the fallback to a legacy revision."""

from __future__ import annotations

from typing import Any

from twopipes._http.headers import LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID
from twopipes._protocol.revisions import LEGACY, META_VERSION, MODERN
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE, text
from twopipes._tools.check.http.listener import HttpReply, HttpRequest
from twopipes._tools.check.http.wire import JSON, STREAM
from twopipes._tools.check.messages import members
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip
from twopipes._wire import encode_line

_PATH = "/mcp"
# Requests that are not messages: discovery of the authorization server, and the icon of a browser.
_OTHER_PATHS = ("/.well-known/", "/favicon")
# The first revisions with the header for the version, and without batches.
_WITH_VERSION = "2025-06-18"
# Milliseconds that a client is asked to wait, and how much of it counts.
_RETRY = 400
_MARGIN = 0.95


def _accepts(request: HttpRequest, *types: str) -> bool:
    accepted = (request.header("Accept") or "").lower()
    return all(each in accepted for each in types)


@scenario("HT-06", "HT-07", "HT-08", "HT-09", "HT-24", transport="http", revisions="each")
async def looks_at_requests(fake: FakeServer) -> None:
    """A healthy server. Judges the method, the path, the types and the body of each request."""
    await fake.client_exited()
    for request in fake.http.requests:
        if request.path.startswith(_OTHER_PATHS) or request.method == "OPTIONS":
            continue
        is_right = request.path == _PATH and (request.method == "POST" or not request.body)
        fake.expect("HT-06", is_right, f"the client sent {request.method} to {request.path}, not POST to {_PATH}", about=request)
        if request.method == "POST":
            _judge_post(fake, request)
        elif request.method == "GET":
            accepted = request.header("Accept")
            fake.expect("HT-24", _accepts(request, STREAM), f"the Accept of a GET is {accepted!r}", about=request)


def _judge_post(fake: FakeServer, request: HttpRequest) -> None:
    accepted, content_type = request.header("Accept"), request.header("Content-Type") or ""
    fake.expect("HT-07", _accepts(request, JSON, STREAM), f"the Accept of a POST is {accepted!r}", about=request)
    is_json = content_type.partition(";")[0].strip().lower() == JSON
    fake.expect("HT-09", is_json, f"the Content-Type of a POST is {content_type!r}", about=request)
    message = request.message
    is_batch = isinstance(message, list) and fake.revision < _WITH_VERSION
    is_message = isinstance(message, dict) and (fake.revision in LEGACY or isinstance(message.get("method"), str))
    fake.expect("HT-08", is_message or is_batch, "the body of a POST is not one request or notification", about=request)


@scenario("HT-38", "HT-43", "HT-50", "HT-51", transport="http", revisions="each")
async def looks_at_the_session(fake: FakeServer) -> None:
    """A healthy server. Judges the session id and the version in each request."""
    await fake.client_exited()
    opened = fake.http.posts_of("initialize")
    if fake.revision in LEGACY:
        if not opened:
            raise Skip("the client did not send initialize")
        later = fake.http.requests[fake.http.requests.index(opened[0][0]) + 1 :]
        for request in later:
            has_id = request.header(SESSION_ID) is not None
            fake.expect("HT-38", has_id, f"a {request.method} after the handshake has no Mcp-Session-Id", about=request)
        if fake.left_at is not None:
            ended = fake.http.with_method("DELETE")
            fake.expect("HT-43", ended, "the client exited without a DELETE for its session")
        _judge_versions(fake, [(request, fake.revision) for request in later])
    else:
        posts = [(request, message) for request, message in fake.http.posts_of() if "id" in message]
        metas = [(request, members(members(message.get("params")).get("_meta"))) for request, message in posts]
        _judge_versions(fake, [(request, meta[META_VERSION]) for request, meta in metas if META_VERSION in meta])


def _judge_versions(fake: FakeServer, requests: list[tuple[HttpRequest, Any]]) -> None:
    for request, wanted in requests:
        version = request.header(PROTOCOL_VERSION)
        if fake.expect("HT-50", version is not None, f"a {request.method} has no MCP-Protocol-Version", about=request):
            why = f"the MCP-Protocol-Version of a {request.method} is {version!r} instead of {wanted!r}"
            fake.expect("HT-51", version == wanted, why, about=request)


# Responses


@scenario("HT-13", transport="http")
async def responds_with_streams(fake: FakeServer) -> None:
    """Each response is a stream of events."""
    fake.http.streams = True
    await _as_usual(fake, "HT-13", "the server responded with streams")


@scenario("HT-13", transport="http")
async def responds_with_json(fake: FakeServer) -> None:
    """Each response is JSON over several lines, without any progress."""
    fake.on["tools/call"] = lambda message: text("Done.") if message.params.get("name") == "work" else None

    async def indent(_request: HttpRequest, reply: HttpReply) -> bool:
        reply.indents = True
        return False

    fake.http.intercept = indent
    await _as_usual(fake, "HT-13", "the server responded with JSON of several lines")


@scenario("HT-18", transport="http")
async def sends_comments(fake: FakeServer) -> None:
    """Streams have comments before, between and after the fields of events."""
    fake.http.streams = True
    fake.http.write_event = lambda line: b":\n\n: keep-alive\r\n:\n\ndata: " + line + b"\n: again\n\n:\n"
    await _as_usual(fake, "HT-18", "streams had comments")


@scenario("HT-19", transport="http")
async def ends_lines_with_crlf(fake: FakeServer) -> None:
    """The lines of streams end with CRLF, and have no space after the colon."""
    fake.http.streams = True
    fake.http.write_event = lambda line: b"data:" + line + b"\r\n\r\n"
    await _as_usual(fake, "HT-19", "the lines of streams ended with CRLF, without a space after the colon")


@scenario("HT-19", transport="http")
async def ends_lines_with_cr(fake: FakeServer) -> None:
    """The lines of streams end with CR, and events have a type."""
    fake.http.streams = True
    fake.http.write_event = lambda line: b"event: message\rdata: " + line + b"\r\r"
    await _as_usual(fake, "HT-19", "the lines of streams ended with CR")


@scenario("HT-19", transport="http")
async def splits_the_data_of_events(fake: FakeServer) -> None:
    """Each message is in several data lines, with unknown fields between them."""
    fake.http.streams = True
    fake.http.write_event = lambda line: b"event\ndata: " + line.replace(b',"', b',\ntwopipes: unknown\ndata: "', 1) + b"\n\n"
    await _as_usual(fake, "HT-19", "messages were in several data lines")


@scenario("HT-65", transport="http", revisions=MODERN)
async def spells_headers_in_other_ways(fake: FakeServer) -> None:
    """The names of the headers of responses are in upper case."""
    fake.http.streams = True
    fake.http.spelled = str.upper
    await _as_usual(fake, "HT-65", "the names of headers were in upper case")


async def _as_usual(fake: FakeServer, rule: str, when: str) -> None:
    await fake.client_exited()
    fake.expect_as_usual(rule, when)


# Cancellation and resumption


@scenario("HT-21", "HT-23", transport="http")
async def never_answers_a_post(fake: FakeServer) -> None:
    """The tool ``stuck`` never returns, so a client with a timeout gives up."""
    fake.add_tool("stuck", SILENCE)
    await fake.wait_for(lambda message: message.method == "tools/call" and message.params.get("name") == "stuck")
    await fake.client_exited()
    stuck = [(request, each) for request, each in fake.http.posts_of("tools/call") if each["params"].get("name") == "stuck"]
    request, call = stuck[0]
    notices = [each for each in fake.notifications("notifications/cancelled") if each.params.get("requestId") == call.get("id")]
    if not notices and not request.was_left:
        raise Skip("the client did not give up the call")
    if fake.left_at is None:
        raise Skip("the client was still working when it was killed")
    fake.expect("HT-23", notices, "the client closed the connection of a call, and sent no notifications/cancelled", about=request)
    why = "the client sent notifications/cancelled" if notices else "the client did not close the stream of the call"
    fake.expect("HT-21", not notices and request.was_left, why, about=notices[0] if notices else request)


@scenario("HT-34", "HT-35", transport="http", revisions=LEGACY)
async def closes_the_connection_of_a_call(fake: FakeServer) -> None:
    """The connection of a call is closed after an event with an id, and the response waits for a GET with that id."""
    closed_at: list[float] = []
    waiting: list[Any] = []
    has_retry = fake.revision >= LEGACY[-1]

    async def intercept(request: HttpRequest, reply: HttpReply) -> bool:
        message = members(request.message)
        if message.get("method") == "tools/call" and not waiting:
            waiting.append(message.get("id"))
            reply.stream()
            reply.event(b"", event_id="call-1", retry=_RETRY if has_retry else None)
            reply.end()
            closed_at.append(fake.now())
            return True
        if request.method == "GET" and request.header(LAST_EVENT_ID) == "call-1":
            reply.stream()
            result = {"jsonrpc": "2.0", "id": waiting[0], "result": text("Hello.")}
            reply.event(encode_line(result), event_id="call-2")
            reply.end()
            request.at = fake.now()
            return True
        return False

    fake.http.intercept = intercept
    await fake.client_exited()
    if not closed_at:
        raise Skip("the client called no tool")
    resumed = [each for each in fake.http.with_method("GET") if each.header(LAST_EVENT_ID) is not None]
    why = "the stream of a call ended before its response, and the client did not resume it"
    fake.expect("HT-35", resumed and resumed[0].header(LAST_EVENT_ID) == "call-1", why, about=resumed[0] if resumed else None)
    if resumed and has_retry:
        waited = (resumed[0].at - closed_at[0]) * 1000
        why = f"the client was asked to wait {_RETRY} ms, and resumed the stream after {waited:.0f} ms"
        fake.expect("HT-34", waited >= _RETRY * _MARGIN, why, about=resumed[0])


# Sessions and eras


@scenario("HT-42", transport="http", judged=False)
async def forgets_the_session(fake: FakeServer) -> None:
    """The first call of a tool gets 404, as after a restart of the server."""
    forgotten: list[HttpRequest] = []

    async def intercept(request: HttpRequest, reply: HttpReply) -> bool:
        is_call = members(request.message).get("method") == "tools/call"
        lost = (forgotten or [request] if is_call else forgotten)[:1]
        if lost and request.header(SESSION_ID) == lost[0].header(SESSION_ID):
            forgotten.append(request)
            reply.empty(404)
            return True
        return False

    fake.http.intercept = intercept
    await fake.client_exited()
    if not forgotten:
        raise Skip("the client called no tool")
    later = fake.http.requests[fake.http.requests.index(forgotten[0]) + 1 :]
    again = [each for each in later if members(each.message).get("method") == "initialize"]
    fake.expect("HT-42", again, "a session got 404, and the client did not start a new one", about=forgotten[0])
    if again:
        why = "the client started a new session with the id of the old one"
        fake.expect("HT-42", again[0].header(SESSION_ID) is None, why, about=again[0])


@scenario("HT-45", transport="http", revisions=MODERN, speaks=(LEGACY[-1], MODERN[-1]), judged=False)
async def rejects_the_first_request(fake: FakeServer) -> None:
    """The first modern request gets 400 with a modern error."""
    rejected: list[HttpRequest] = []

    async def intercept(request: HttpRequest, reply: HttpReply) -> bool:
        message = members(request.message)
        if rejected or META_VERSION not in members(members(message.get("params")).get("_meta")):
            return False
        rejected.append(request)
        error = {"code": -32020, "message": "Header mismatch"}
        reply.json(encode_line({"jsonrpc": "2.0", "id": message.get("id"), "error": error}), 400)
        return True

    fake.http.intercept = intercept
    await fake.client_exited()
    if not rejected:
        raise Skip("the client sent no modern request")
    fell_back = fake.http.posts_of("initialize")
    why = "the client fell back to initialize after 400 with the modern error -32020"
    fake.expect("HT-45", not fell_back, why, about=fell_back[0][0] if fell_back else None)


@scenario("HT-46", transport="http", revisions=MODERN, speaks=(LEGACY[-1],), eras=True, judged=False)
async def rejects_modern_requests(fake: FakeServer) -> None:
    """A legacy server: modern requests get 400 without a message."""
    if LEGACY[-1] not in fake.baselines:
        raise Skip(f"only for clients of both eras; the client does not speak {LEGACY[-1]}")
    rejected: list[HttpRequest] = []

    async def intercept(request: HttpRequest, reply: HttpReply) -> bool:
        if META_VERSION not in members(members(members(request.message).get("params")).get("_meta")):
            return False
        rejected.append(request)
        reply.empty(400)
        return True

    fake.http.intercept = intercept
    await fake.client_exited()
    if not rejected:
        raise Skip("the client sent no modern request first")
    why = "the client did not fall back to initialize after 400 without a message"
    fake.expect("HT-46", fake.http.posts_of("initialize"), why, about=rejected[0])
