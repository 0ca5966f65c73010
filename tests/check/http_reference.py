"""A correct HTTP server for the check: the healthy twin behind a small front end. Mutants override one method of it each.

Each modern request, and each legacy session, has its own connection in memory to the twin.
"""

import asyncio
import json
import secrets
from contextlib import AsyncExitStack, asynccontextmanager

from check.healthy import IMPATIENT, new_server, served
from check.time_scale import scaled
from twopipes._http.headers import check_headers, param_headers
from twopipes._protocol.revisions import ALL, LEGACY, META_CAPABILITIES, META_VERSION
from twopipes._tools.check.http.channel import HttpChannel, HttpConversation
from twopipes._tools.check.http.listener import listening
from twopipes._tools.check.http.target import HttpTarget
from twopipes._tools.check.http.wire import JSON, parse_url
from twopipes._tools.check.line_reader import LineReader
from twopipes._tools.check.messages import members
from twopipes.errors import HeaderMismatch

STATUSES = {-32601: 404, -32600: 400, -32700: 400, -32020: 400, -32021: 400, -32022: 400}


def error(request_id, code, message, **data):
    found = {"code": code, "message": message, **({"data": data} if data else {})}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": found}).encode()


def with_mirrored_arguments(server):
    """Add a tool whose arguments are repeated in headers."""
    properties = {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "place": {"type": "object", "properties": {"urgent": {"type": "boolean", "x-mcp-header": "Urgent"}}},
    }
    schema = {"type": "object", "properties": properties, "required": ["region"]}

    @server.tool(input_schema=schema, annotations={"readOnlyHint": True})
    def mirrored(region: str, count: int | None = None, place: dict | None = None) -> str:
        return f"{region} {count} {place}"

    return server


async def first_of(*events):
    """Wait for one of several events."""
    waiting = [asyncio.create_task(each.wait()) for each in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def is_message(part):
    """Whether JSON is a notification or a response."""
    return isinstance(part, dict) and (isinstance(part.get("method"), str) or ("id" in part and "method" not in part))


class Stream:
    """The messages of one POST, or of GET, in a legacy session. It outlives a connection."""

    def __init__(self, session, request_id=None, token=None):
        self.session = session
        self.number = session.front.next_stream()
        self.request_id = request_id
        self.token = token
        self.events = []
        self.reply = None
        self.ended = asyncio.Event()

    def attach(self, reply, after=None):
        """Send the events after a position, and all later ones, to a connection."""
        front = self.session.front
        reply.stream()
        self.reply = reply
        if after is None and front.primes():
            self.send(b"")
            return
        for position, (event_id, data) in enumerate(self.events):
            if after is None or position > after:
                reply.event(data, event_id=event_id)
        if self.ended.is_set():
            reply.end()

    def send(self, data):
        event_id = self.session.front.event_id(self, len(self.events))
        self.events.append((event_id, data))
        if self.reply is not None:
            self.reply.event(data, event_id=event_id)

    def end(self):
        self.ended.set()
        if self.reply is not None and self.session.front.ends_streams():
            self.reply.end()


class Session:
    """One legacy session: a connection to the twin, and its streams."""

    def __init__(self, front, session_id, channel):
        self.front = front
        self.id = session_id
        self.channel = channel
        self.get = Stream(self)
        self.posts = []
        self.pumping = asyncio.create_task(self.pump())

    async def pump(self):
        reader = LineReader()
        while data := await self.channel.read():
            for line in reader.feed(data):
                self.front.route(self, line, json.loads(line))

    def stream_for(self, message):
        """Return the stream that a message of the server belongs to."""
        if "method" not in message:
            found = [each for each in self.posts if each.request_id == message.get("id")]
        elif (token := members(message.get("params")).get("progressToken")) is not None:
            found = [each for each in self.posts if each.token == token]
        elif "id" in message or message["method"] == "notifications/message":
            found = self.posts[-1:]
        else:
            found = []
        return found[-1] if found else self.get


class Reference:
    """The front end. A mutant overrides one of its methods."""

    sessions_are_used = True
    speaks = ALL

    def __init__(self, server=None):
        self.server = server or with_mirrored_arguments(new_server())
        self.connect = served(self.server)
        self.sessions = {}
        self.ended_sessions = set()
        self.count = 0
        self.stack = AsyncExitStack()

    @asynccontextmanager
    async def serving(self):
        async with self.stack, listening(self.handle) as url:
            try:
                yield url
            finally:
                for session in self.sessions.values():
                    session.pumping.cancel()

    def next_stream(self):
        self.count += 1
        return self.count

    # What mutants change

    def is_allowed(self, request):
        origin, host = request.header("Origin"), request.header("Host").rpartition(":")[0]
        return (origin is None or origin.startswith("http://127.0.0.1")) and host in {"127.0.0.1", "localhost"}

    def primes(self):
        return True

    def ends_streams(self):
        return True

    def event_id(self, stream, position):
        return f"{stream.number}-{position}"

    def session_id(self):
        return secrets.token_urlsafe(24)

    def accept(self, reply):
        reply.empty(202)

    def reject(self, reply):
        """Reject JSON that is an object, but not a message."""
        reply.json(error(None, -32600, "Invalid request"), 400)

    def reject_body(self, reply, message):
        """Reject a body that is not an object."""
        reply.json(error(None, -32700 if message is None else -32600, "Invalid"), 400)

    def stream_headers(self):
        return {}

    def session_headers(self, session):
        return {"Mcp-Session-Id": session.id}

    def modern_headers(self):
        return {}

    def status(self, line, request):
        code = members(json.loads(line).get("error")).get("code")
        if code == -32602 and not {META_VERSION, META_CAPABILITIES} <= members(request.message["params"].get("_meta")).keys():
            return 400
        return STATUSES.get(code, 200)

    def mismatch(self, request, message):
        """Return why headers and body differ, or nothing."""
        params = members(message.get("params"))
        tools = [
            each for each in self.server.tools if message.get("method") == "tools/call" and each.tool.name == params.get("name")
        ]
        schema = param_headers(tools[0].signature.input_schema) if tools else ()
        received = {name.lower(): value for name, value in request.headers}
        try:
            check_headers(received, message["method"], params, members(params.get("_meta")).get(META_VERSION), schema)
        except HeaderMismatch as mismatch:
            return str(mismatch)
        return ""

    def param_headers(self, message):
        name = members(message.get("params")).get("name") if message.get("method") == "tools/call" else None
        tools = [each for each in self.server.tools if each.tool.name == name]
        return param_headers(tools[0].signature.input_schema) if tools else ()

    # POST

    async def handle(self, request, reply):
        if not self.is_allowed(request):
            reply.empty(403)
        elif request.method == "POST":
            await self.post(request, reply)
        elif request.method == "GET" and LEGACY[-1] in self.speaks:
            await self.get(request, reply)
        elif request.method == "DELETE" and LEGACY[-1] in self.speaks:
            await self.delete(request, reply)
        else:
            reply.empty(405)

    async def post(self, request, reply):
        message = request.message
        if not (request.header("Content-Type") or "").startswith(JSON):
            reply.empty(415)
        elif not isinstance(message, dict) and not (isinstance(message, list) and message):
            self.reject_body(reply, message)
        elif self.is_modern(request, message):
            await self.post_modern(request, reply, message)
        else:
            await self.post_legacy(request, reply, message)

    def is_modern(self, request, message):
        has_version = isinstance(message, dict) and META_VERSION in members(members(message.get("params")).get("_meta"))
        return has_version or request.header("MCP-Protocol-Version") not in {None, *LEGACY} or LEGACY[-1] not in self.speaks

    async def post_modern(self, request, reply, message):
        if isinstance(message, list) or not isinstance(message.get("method"), str):
            self.reject(reply)
            return
        if "id" not in message:
            self.accept(reply)
            return
        version = members(members(message.get("params")).get("_meta")).get(META_VERSION)
        if message["method"] == "initialize":
            reply.json(error(message["id"], -32601, "Method not found"), 404)
        elif self.is_unknown(request.header("MCP-Protocol-Version")) and version in {None, request.header("MCP-Protocol-Version")}:
            self.reject_version(message, reply, request.header("MCP-Protocol-Version"))
        elif isinstance(version, str) and (why := self.mismatch(request, message)):
            reply.json(error(message["id"], -32020, why), 400)
        else:
            await self.converse(request, reply, message)

    def is_unknown(self, version):
        return version is not None and version not in self.speaks

    def reject_version(self, message, reply, version):
        supported = list(self.speaks)
        reply.json(error(message.get("id"), -32022, "Unsupported version", supported=supported, requested=version), 400)

    async def converse(self, request, reply, message):
        """Serve one modern request."""
        async with self.connect() as channel:
            channel.write(request.body.replace(b"\n", b" ") + b"\n")
            following = asyncio.create_task(self.follow(channel, request, reply, message))
            gone = asyncio.create_task(self.client_is_gone(reply))
            await asyncio.wait([following, gone], return_when=asyncio.FIRST_COMPLETED)
            for task in (following, gone):
                task.cancel()
            await asyncio.gather(following, gone, return_exceptions=True)

    async def client_is_gone(self, reply):
        await reply.is_gone.wait()

    async def follow(self, channel, request, reply, message):
        reader = LineReader()
        while data := await channel.read():
            for line in reader.feed(data):
                found = json.loads(line)
                if "method" in found:
                    reply.stream({**self.stream_headers(), **self.modern_headers()})
                    reply.event(line)
                elif self.respond(request, reply, line):
                    return

    def respond(self, request, reply, line):
        if reply.is_started:
            reply.event(line)
            if not self.ends_streams():
                return False
            reply.end()
        else:
            reply.json(line, self.status(line, request), self.modern_headers())
        return True

    # Legacy

    def session_status(self, request):
        """Return the status with which a request is rejected because of its session, or 0."""
        session_id = request.header("Mcp-Session-Id")
        return 400 if session_id is None else 0 if session_id in self.sessions else 404

    def version_status(self, request):
        version = request.header("MCP-Protocol-Version")
        return 400 if version is not None and version not in LEGACY else 0

    async def post_legacy(self, request, reply, message):
        if isinstance(message, dict) and message.get("method") == "initialize" and not request.header("Mcp-Session-Id"):
            session = await self.new_session()
            headers = self.session_headers(session)
        elif status := self.session_status(request) or self.version_status(request):
            reply.empty(status)
            return
        else:
            session, headers = self.sessions[request.header("Mcp-Session-Id")], {}
        await self.pass_on(session, request, reply, message, headers)

    async def new_session(self):
        channel = await self.stack.enter_async_context(self.connect())
        session = Session(self, self.session_id(), channel)
        self.sessions[session.id] = session
        return session

    async def pass_on(self, session, request, reply, message, headers):
        parts = message if isinstance(message, list) else [message]
        asked = [each for each in parts if isinstance(each, dict) and "id" in each and "method" in each]
        line = request.body.replace(b"\n", b" ") + b"\n"
        if not asked:
            if not all(map(is_message, parts)):
                self.reject(reply)
                return
            session.channel.write(line)
            self.accept(reply)
            return
        token = members(members(asked[0].get("params")).get("_meta")).get("progressToken")
        stream = Stream(session, None if isinstance(message, list) else asked[0]["id"], token)
        stream.pending = (reply, headers)
        session.posts.append(stream)
        session.channel.write(line)
        await first_of(stream.ended, reply.is_gone)
        await self.post_is_gone(session, stream, gone=not stream.ended.is_set())
        if not self.ends_streams():
            await reply.is_gone.wait()

    async def post_is_gone(self, session, stream, *, gone):
        """Called when the connection of a POST is closed, or its stream has ended."""

    def route(self, session, line, message):
        """Send a message of the twin on the stream that it belongs to."""
        if isinstance(message, list):
            stream = next(each for each in session.posts if each.request_id is None)
        else:
            stream = session.stream_for(message)
        is_last = isinstance(message, list) or "method" not in message
        reply, headers = getattr(stream, "pending", (None, {}))
        if reply is not None and stream.reply is None and is_last:
            reply.json(line, headers=headers)
            stream.reply = reply
        else:
            if reply is not None and stream.reply is None:
                reply.stream({**self.stream_headers(), **headers})
                stream.attach(reply)
            self.deliver(session, stream, line, message)
        if is_last and stream in session.posts:
            session.posts.remove(stream)
            self.finish(session, stream)

    def deliver(self, session, stream, line, message):
        stream.send(line)

    def finish(self, session, stream):
        self.finished = [*getattr(self, "finished", ()), stream][-20:]
        stream.end()

    async def get(self, request, reply):
        if status := self.session_status(request) or self.version_status(request):
            reply.empty(status)
            return
        session = self.sessions[request.header("Mcp-Session-Id")]
        if last := request.header("Last-Event-ID"):
            await self.resume(session, last, reply)
            return
        session.get.attach(reply)
        await reply.is_gone.wait()
        session.get.reply = None

    def streams_of(self, session):
        return [session.get, *session.posts, *(each for each in getattr(self, "finished", ()) if each.session is session)]

    async def resume(self, session, last, reply):
        for stream in self.streams_of(session):
            for position, (event_id, _data) in enumerate(stream.events):
                if event_id == last:
                    stream.attach(reply, after=position)
                    await first_of(stream.ended, reply.is_gone)
                    return
        reply.empty(404)

    async def delete(self, request, reply):
        if status := self.session_status(request):
            reply.empty(status)
            return
        session = self.sessions.pop(request.header("Mcp-Session-Id"))
        session.pumping.cancel()
        await session.channel.close()
        for stream in self.streams_of(session):
            stream.end()
        reply.empty(204)


class ReferenceTarget(HttpTarget):
    """The front end as a server under test. Each conversation has its own, and all have the same twin."""

    def __init__(self, front=Reference, *, waits=IMPATIENT):
        super().__init__("http://127.0.0.1/mcp", timeouts=scaled(waits))
        self._front = front
        self._twin = with_mirrored_arguments(new_server())

    async def _open(self, number):
        stack = AsyncExitStack()
        address = parse_url(await stack.enter_async_context(self._front(self._twin).serving()))
        channel = HttpChannel(address, timeouts=self.timeouts, known_tools=self._known_tools)
        return HttpConversation(channel, timeouts=self.timeouts, number=number, closing=stack.aclose)
