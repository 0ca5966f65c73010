"""Legacy sessions over HTTP, with a real uvicorn and raw connections."""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest

from http_server import PATIENCE, RawConnection, request_bytes, serve_asgi
from twopipes import Context, Server
from twopipes._http.sse import SseParser
from twopipes.errors import McpError
from twopipes.http import HttpOptions, Identity

pytestmark = pytest.mark.slow  # real sockets

EVENTS = {"Accept": "text/event-stream"}


def a_server(**options):
    server = Server("sessions", version="1", **options)
    server.went_on = threading.Event()
    server.may_go_on = threading.Event()
    server.cancelled = threading.Event()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    async def report(ctx: Context, steps: int) -> str:
        for step in range(steps):
            await ctx.progress(step + 1, steps)
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{answer.action}: {answer.content}"

    @server.tool
    def wait(ctx: Context) -> str:
        ctx.progress(1, 3)
        server.went_on.set()
        while not server.may_go_on.wait(0.01):
            if ctx.cancelled:
                server.cancelled.set()
                return "cancelled"
        return "waited"

    @server.tool
    def hold() -> str:
        server.went_on.set()
        server.may_go_on.wait(PATIENCE)
        return "held"

    return server


class LegacyClient:
    """A legacy client on raw connections. Each request has a connection of its own."""

    def __init__(self, port, **headers):
        self.port = port
        self.headers = headers
        self.last_id = 0

    def send(self, method, params=None, *, is_notification=False, **headers):
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not is_notification:
            self.last_id += 1
            message["id"] = self.last_id
        return self.post(message, **headers)

    def post(self, message, **headers):
        with RawConnection(self.port) as connection:
            body = json.dumps(message).encode()
            return connection.request("POST", "/mcp", self.named(headers), body)

    def named(self, headers):
        given = self.headers | headers
        return {name.replace("_", "-"): value for name, value in given.items()}

    def open(self, revision="2025-11-25", capabilities=None):
        params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": {"name": "c", "version": "1"}}
        response = self.send("initialize", params)
        assert response.status == 200, response.body
        self.headers["Mcp_Session_Id"] = response.headers["mcp-session-id"]
        assert self.send("notifications/initialized", is_notification=True).status == 202
        return response

    def call(self, name, arguments=None, meta=None, **headers):
        params = {"name": name, "arguments": arguments or {}} | ({"_meta": meta} if meta else {})
        return self.send("tools/call", params, **headers)

    @contextmanager
    def stream(self, method="GET", message=None, **headers):
        """Open a stream, and leave its connection without reading the end."""
        with RawConnection(self.port) as connection:
            body = b"" if message is None else json.dumps(message).encode()
            named = self.named((EVENTS if method == "GET" else {}) | headers)
            connection.send(request_bytes(method, "/mcp", named, body, host=f"127.0.0.1:{self.port}"))
            yield Stream(connection)

    def calling(self, name, arguments=None):
        self.last_id += 1
        params = {"name": name, "arguments": arguments or {}, "_meta": {"progressToken": 7}}
        return self.stream("POST", {"jsonrpc": "2.0", "id": self.last_id, "method": "tools/call", "params": params})


class Stream:
    """A response stream that is read event by event."""

    def __init__(self, connection):
        self.connection = connection
        self.head = connection.read_head()
        self.parser = SseParser()
        self.events = []

    def next(self):
        """Return the next event; ``None`` at the end of the stream."""
        while not self.events:
            chunk = self.connection.read_chunk()
            if not chunk:
                return None
            self.events += self.parser.feed(chunk)
        return self.events.pop(0)

    def next_message(self):
        """Return the next message and the id of its event."""
        while (event := self.next()) is not None:
            if event.data:
                return json.loads(event.data), event.id
        return None


def events_of(response):
    return SseParser().feed(response.body)


@contextmanager
def served(server=None, *, auth=None, **options):
    server = server or a_server()
    app = server.asgi(HttpOptions(**options), auth=auth)
    with serve_asgi(app) as port:
        client = LegacyClient(port)
        client.server, client.app = server, app
        yield client


def test_a_session_is_opened_used_and_ended():
    # HT-53: this client sends no MCP-Protocol-Version
    with served() as client:
        response = client.open()
        assert response.json["result"]["protocolVersion"] == "2025-11-25"
        assert len(client.headers["Mcp_Session_Id"]) >= 32
        response = client.call("add", {"a": 1, "b": 2})
        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        assert response.json["result"]["structuredContent"] == {"result": 3}
        with RawConnection(client.port) as connection:
            assert connection.request("DELETE", "/mcp", client.named({})).status == 204
        response = client.call("add", {"a": 1, "b": 2})
        assert response.status == 404
        assert "send initialize" in response.json["error"]["message"]


@pytest.mark.parametrize(("session_id", "status"), [(None, 400), ("made-up", 404), ("a, b", 404), ("\xff", 404), ("x" * 9000, 404)])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_session_that_does_not_exist_is_refused(method, session_id, status):
    # HT-40, HT-41
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}' if method == "POST" else b""
    with served() as client, RawConnection(client.port) as connection:
        headers = {"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session_id}
        response = connection.request(method, "/mcp", headers, body)
        assert response.status == status
        assert "initialize" in response.json["error"]["message"]


def test_ids_of_sessions_differ():
    # HT-36, HT-37
    with served() as client:
        ids = set()
        for _ in range(5):
            other = LegacyClient(client.port)
            ids.add(other.open().headers["mcp-session-id"])
        assert len(ids) == 5


def test_a_refused_handshake_opens_no_session():
    with served() as client:
        response = client.send("initialize", {"capabilities": {}})
        assert response.json["error"]["code"] == -32602
        assert "mcp-session-id" not in response.headers
        assert len(client.app._owner.runtime.sessions) == 0


def test_a_second_handshake_in_a_session_is_refused():
    with served() as client:
        client.open()
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        response = client.send("initialize", params)
        assert response.status == 400
        assert response.json["error"]["code"] == -32600
        assert client.call("add", {"a": 1, "b": 1}).status == 200


@pytest.mark.parametrize(("revision", "is_primed"), [("2025-11-25", True), ("2025-06-18", False), ("2025-03-26", False)])
def test_progress_comes_before_the_response_on_a_stream_with_ids(revision, is_primed):
    # HT-29, HT-32
    with served() as client:
        client.open(revision)
        response = client.call("report", {"steps": 2}, {"progressToken": "p"})
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        events = events_of(response)
        assert (events[0].data == b"") == is_primed
        messages = [json.loads(event.data) for event in events if event.data]
        assert messages[0]["params"]["progressToken"] == "p"
        assert messages[-1]["id"] == client.last_id
        ids = [event.id for event in events]
        assert len(set(ids)) == len(ids)
        assert all(ids)


def test_a_question_is_asked_on_the_stream_of_its_call():
    # HT-26, HT-27, HT-28
    with served() as client:
        client.open(capabilities={"elicitation": {}})
        with client.stream() as get, client.calling("ask") as stream:
            question, _ = stream.next_message()
            assert question["method"] == "elicitation/create"
            answer = {"action": "accept", "content": {"name": "x"}}
            response = client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            assert (response.status, response.body) == (202, b"")
            result, _ = stream.next_message()
            assert result["result"]["content"][0]["text"] == "accept: {'name': 'x'}"
            assert stream.next() is None
            client.server.log("warning", "on GET")  # the first message there: nothing of the call came before it
            assert get.next_message()[0]["method"] == "notifications/message"


def test_what_belongs_to_no_request_goes_to_the_stream_of_get():
    # HT-25, HT-28
    with served() as client:
        client.open()
        client.server.add_tool(lambda: 1, name="before", description="x")  # there is no stream yet, so it waits
        with client.stream() as get:
            assert get.head.headers["content-type"] == "text/event-stream"
            assert get.next_message()[0]["method"] == "notifications/tools/list_changed"
            with client.stream() as second:
                assert second.head.status == 409
            client.server.log("error", "hello")
            message, _ = get.next_message()
            assert message["params"]["data"] == "hello"


def test_get_needs_to_accept_events():
    with served() as client:
        client.open()
        with RawConnection(client.port) as connection:
            response = connection.request("GET", "/mcp", client.named({"Accept": "application/json"}))
        assert response.status == 406


def test_a_lost_stream_is_resumed_and_its_call_goes_on():
    # HT-31
    with served() as client:
        client.open()
        with client.calling("wait") as stream:
            _, last_id = stream.next_message()
        client.server.may_go_on.set()
        with client.stream(Last_Event_ID=last_id) as resumed:
            message, event_id = resumed.next_message()
            assert message["result"]["content"][0]["text"] == "waited"
            assert event_id != last_id
            assert resumed.next() is None
        with client.stream(Last_Event_ID=last_id) as again:  # the end can be asked for once more
            assert again.next_message()[0] == message
        assert not client.server.cancelled.is_set()


def test_a_call_that_is_silent_for_a_while_can_be_resumed_too():
    with served(keep_alive=0.05) as client:
        client.open()
        with client.calling("hold") as stream:  # returns when the headers of the stream have arrived
            opening = stream.next()
            assert (opening.data, bool(opening.id)) == (b"", True)
        client.server.may_go_on.set()
        with client.stream(Last_Event_ID=opening.id) as resumed:
            message, _ = resumed.next_message()
            assert message["result"]["content"][0]["text"] == "held"


def test_every_call_gets_a_stream_if_the_author_asks_for_it():
    with served(responses="stream") as client:
        client.open()
        response = client.call("add", {"a": 1, "b": 2})
        assert response.headers["content-type"] == "text/event-stream"
        events = events_of(response)
        assert [bool(event.data) for event in events] == [False, True]
        assert response.json["result"]["structuredContent"] == {"result": 3}
        assert client.send("no/such").json["error"]["code"] == -32601


@pytest.mark.parametrize("event_id", ["99-1", "nonsense", "1-99"])
def test_an_unknown_event_id_is_refused(event_id):
    with served() as client:
        client.open()
        with client.stream(Last_Event_ID=event_id) as stream:
            assert stream.head.status == 400


def test_the_stream_of_get_is_resumed():
    with served() as client:
        client.open()
        with client.stream() as get:
            client.server.log("error", "one")
            _, last_id = get.next_message()
        client.server.log("error", "two")
        with client.stream(Last_Event_ID=last_id) as get:
            message, _ = get.next_message()
            assert message["params"]["data"] == "two"


def test_a_cancelled_call_ends_its_stream_without_a_response():
    with served() as client:
        client.open()
        with client.calling("wait") as stream:
            stream.next_message()
            client.send("notifications/cancelled", {"requestId": client.last_id}, is_notification=True)
            assert stream.next_message() is None
        assert client.server.cancelled.wait(PATIENCE)


def test_batches_belong_to_2025_03_26():
    batch = [
        {"jsonrpc": "2.0", "id": "a", "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 2}}},
    ]
    with served() as client:
        client.open("2025-03-26")
        response = client.post(batch)
        assert response.status == 200
        assert {each["id"] for each in response.json} == {"a", "b"}
        assert client.post(batch[1:2]).status == 202
        assert client.post([]).status == 400
        other = LegacyClient(client.port)
        other.open("2025-06-18")
        response = other.post(batch)
        assert response.status == 400
        assert response.json["error"]["code"] == -32600


@pytest.mark.parametrize(("version", "status"), [("2025-11-25", 200), ("2025-06-18", 200), ("1999-01-01", 400), ("x", 400)])
def test_an_unknown_revision_in_the_header_is_refused(version, status):
    # HT-52
    with served() as client:
        client.open()
        response = client.call("add", {"a": 1, "b": 1}, MCP_Protocol_Version=version)
        assert response.status == status


def test_get_of_a_modern_client_is_not_allowed():
    with served() as client:
        client.open()
        with client.stream(MCP_Protocol_Version="2026-07-28") as stream:
            assert stream.head.status == 405
            assert stream.head.headers["allow"] == "POST"


@pytest.mark.parametrize("body", [b'{"jsonrpc":"2.0"}', b"{", b'"x"', b'{"jsonrpc":"2.0","id":null,"method":"ping"}'])
def test_a_body_that_is_not_a_message_is_refused_and_the_session_goes_on(body):
    with served() as client:
        client.open()
        with RawConnection(client.port) as connection:
            response = connection.request("POST", "/mcp", client.named({}), body)
            assert response.status == 400
            assert response.json["error"]["code"] in {-32700, -32600}
        assert client.call("add", {"a": 1, "b": 1}).status == 200


def test_an_error_of_the_protocol_is_a_response_like_any_other():
    with served() as client:
        client.open()
        response = client.send("no/such")
        assert response.status == 200
        assert response.json["error"]["code"] == -32601


def test_the_session_that_was_idle_for_the_longest_time_makes_room():
    with served(max_sessions=2) as client:
        clients = [LegacyClient(client.port) for _ in range(3)]
        clients[0].open()
        clients[1].open()
        clients[0].call("add", {"a": 1, "b": 1})
        clients[2].open()
        assert clients[0].call("add", {"a": 1, "b": 1}).status == 200
        assert clients[1].call("add", {"a": 1, "b": 1}).status == 404
        assert clients[2].call("add", {"a": 1, "b": 1}).status == 200
        assert len(client.app._owner.runtime.sessions) == 2


def test_a_session_in_use_is_not_ended_for_a_new_one():
    with served(max_sessions=1) as client:
        client.open()
        with client.stream() as get:
            assert get.head.status == 200
            other = LegacyClient(client.port)
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
            response = other.send("initialize", params)
            assert response.status == 503
            assert "retry-after" in response.headers
        client.server.may_go_on.set()


def test_the_id_of_a_session_begins_with_the_prefix_of_its_process():
    with served(session_prefix="worker-7") as client:
        client.open()
        prefix, _, secret = client.headers["Mcp_Session_Id"].partition(".")
        assert prefix == "worker-7"
        assert len(secret) >= 32
        assert client.call("add", {"a": 1, "b": 1}).status == 200


def test_an_idle_session_ends_and_one_in_use_does_not():
    ended = threading.Event()
    with served(session_idle=0.2) as client:
        client.open()
        other = LegacyClient(client.port)
        other.open()
        sessions = client.app._owner.runtime.sessions
        end = sessions._end
        sessions._end = lambda session: (end(session), ended.set())
        with client.stream() as get:
            assert ended.wait(PATIENCE)
            client.server.log("error", "still here")
            assert get.next_message()[0]["params"]["data"] == "still here"
        assert other.call("add", {"a": 1, "b": 1}).status == 404


def test_a_session_belongs_to_the_identity_that_opened_it():
    async def verify(token):
        return Identity(token)

    with served(auth=verify) as client:
        client.headers["Authorization"] = "Bearer ada"
        client.open()
        assert client.call("add", {"a": 1, "b": 1}).status == 200
        client.headers["Authorization"] = "Bearer eve"
        assert client.call("add", {"a": 1, "b": 1}).status == 404
        with client.stream() as stream:
            assert stream.head.status == 404


def test_too_many_open_requests_are_refused():
    with served(max_requests=1) as client:
        client.open()
        with client.calling("wait") as stream:
            stream.next_message()
            assert client.call("add", {"a": 1, "b": 1}).status == 503
            client.server.may_go_on.set()
            while stream.next_message() is not None:
                pass
        assert client.call("add", {"a": 1, "b": 1}).status == 200


def test_delete_ends_the_streams_and_handlers_of_a_session():
    with served() as client:
        client.open()
        with client.stream() as get, client.calling("wait") as stream:
            stream.next_message()
            with RawConnection(client.port) as connection:
                assert connection.request("DELETE", "/mcp", client.named({})).status == 204
            assert client.server.cancelled.wait(PATIENCE)
            assert get.next_message() is None
            message, _ = stream.next_message()
            assert message["error"]["message"] == "the handler was cancelled"
            assert stream.next_message() is None
        assert client.server._connections == {client.app._owner.runtime.modern}


def test_a_handshake_that_the_middleware_refuses_leaves_no_session():
    async def refuse(ctx, call_next):
        raise McpError("no", code=-32000)

    with served(a_server(middleware=refuse)) as client:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        response = client.send("initialize", params)
        assert response.json["error"]["code"] == -32000
        # The id was chosen before the middleware was asked. It leads to nothing.
        assert client.send("tools/list", Mcp_Session_Id=response.headers["mcp-session-id"]).status == 404
        assert len(client.app._owner.runtime.sessions) == 0


def test_the_end_of_the_server_ends_every_stream():
    with served() as client:
        client.open()
        with client.stream() as get:
            assert get.head.status == 200
            runtime = client.app._owner.runtime
            asyncio.run_coroutine_threadsafe(client.app.drain(1), runtime.modern.loop).result(PATIENCE)
            assert get.next_message() is None
            assert client.call("add", {"a": 1, "b": 1}).status == 503
            assert len(runtime.sessions) == 0
