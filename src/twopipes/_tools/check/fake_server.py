"""The fake server of a scenario. It behaves correctly except for one thing, and records how the client reacts.

A scenario is a coroutine function in the ``scenarios.py`` of its topic::

    @scenario("FR-10")
    async def sends_a_request_in_a_modern_revision(fake: FakeServer) -> None:
        await fake.wait_for("tools/list")
        fake.send({"jsonrpc": "2.0", "id": "stray", "method": "ping"})
        await fake.client_exited()
        fake.expect("FR-10", not fake.responses(), "the client responded to a request of the server")

It runs concurrently with the client. Requests that it does not handle get a healthy response (:class:`.HealthyServer`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Struct

from twopipes._channels.base import Channel
from twopipes._process.exit_status import ExitStatus
from twopipes._protocol.revisions import META_CAPABILITIES, META_VERSION, MODERN
from twopipes._tools.check.healthy_responses import SILENCE, Fault, HealthyServer, RawResult
from twopipes._tools.check.http.side import HttpSide
from twopipes._tools.check.line_reader import LineReader
from twopipes._tools.check.messages import ClientMessage, Found, Waiter, asked_for, decoded, id_key, parts_of, same_id
from twopipes._tools.check.scenario import Scenario, ScenarioTimeouts
from twopipes._tools.check.verdict import Quotable, Quote, Skip, VerdictRecorder
from twopipes._trace.format import Event, EventName, Line
from twopipes._wire import encode_line
from twopipes.errors import ChannelBroken, ChannelClosed, TwopipesError

Handler = Callable[["ClientMessage"], Any]


class Relay(Protocol):
    """The process that the client launched."""

    def stderr(self, data: bytes) -> None:
        """Write to its stderr."""

    def exit(self, code: int) -> None:
        """End it."""

    async def watch(self) -> None:
        """Return when it has exited."""


class FakeConnection:
    """One connection of the client: one process that it launched."""

    def __init__(self, fake: FakeServer, channel: Channel, relay: Relay | None, number: int) -> None:
        self.fake = fake
        self.channel = channel
        self.relay = relay
        self.number = number
        self.received_lines: list[ClientMessage] = []
        self.sent_lines: list[bytes] = []
        self.entries: list[Line | Event] = []  # the lines of both directions and other events, as in a trace
        self.signals: list[tuple[float, str]] = []  # the signals that the process got: time and name
        self.input_ended_at: float | None = None  # when the client closed the input
        self.is_over = False
        self.client_capabilities: dict[str, Any] = {}  # those that the client declared last
        self.has_handshake = False
        self.pid: int | None = getattr(relay, "pid", None)
        self.grandchild: int | None = None  # the pid of the child of that process, if its options ask for one
        self._unsent_end = b""
        self.add_event("spawn")

    def add_event(self, name: EventName, **more: Any) -> None:
        """Add an event that is not a line."""
        self.entries.append(Event(at=self.fake.now(), name=name, connection=self.number, **more))

    def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Send a message, or bytes unchanged. A client that has exited is not an error."""
        data = bytes(message) if isinstance(message, bytes | bytearray) else encode_line(message)
        with suppress(ChannelBroken, ChannelClosed):
            self.channel.write(data)
            *lines, self._unsent_end = (self._unsent_end + data).split(b"\n")
            for line in lines:
                self.sent_lines.append(line)
                self.entries.append(Line(self.fake.now(), "<", line, connection=self.number))

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    def take_signal(self, name: str) -> None:
        """Record a signal that the process got."""
        self.signals.append((self.fake.now(), name))
        self.add_event("signal", signal=name)
        self.fake.wake()


class Baseline(Struct, frozen=True, kw_only=True):
    """What a client does with a healthy server: its requests, its exit status, and whether it exits by itself."""

    asked: frozenset[str] = frozenset()
    exit: ExitStatus | None = None
    left: bool = True


def _known(baseline: Baseline | None) -> Baseline:
    if baseline is None:
        raise Skip("it is not known what the client does with a healthy server")
    return baseline


class FakeServer(VerdictRecorder, Waiter):
    """The fake server, in one run of a scenario."""

    def __init__(
        self, scenario: Scenario, revision: str, *, timeouts: ScenarioTimeouts, baselines: Mapping[str, Baseline] | None = None
    ) -> None:
        VerdictRecorder.__init__(self, scenario.name, scenario.rules, "client", revision)
        Waiter.__init__(self)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.scenario = scenario
        self.timeouts = timeouts
        self.baselines = baselines or {}  # by revision that was tried and that the client speaks
        self.baseline = self.baselines.get(revision)
        self.healthy = HealthyServer(speaks=scenario.speaks or (revision,))  # change it before the client connects
        # Handlers by method: a plain or async function of the ClientMessage that returns a result, Fault, RawResult, SILENCE, or
        # None for the healthy response.
        self.on: dict[str, Handler] = {}
        self.http = HttpSide()  # over HTTP: the requests of the client, and how they are answered
        self.connections: list[FakeConnection] = []  # a client that starts its server again makes a new one
        self.received_lines: list[ClientMessage] = []  # over all connections
        self.ends_with_input = True  # whether a connection ends when the client closes its input, as with a healthy server
        self.exit: ExitStatus | None = None  # of the client, once it has exited, if it is a process
        self.left_at: float | None = None  # when the client exited by itself, in seconds of the run; None if it was killed
        self._ids = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    # For scenarios

    def now(self) -> float:
        """Return seconds since the start of the run."""
        return self._loop.time() - self._began

    @property
    def is_modern(self) -> bool:
        """Whether the revision is modern."""
        return self.revision in MODERN

    @property
    def connection(self) -> FakeConnection:
        """The latest connection; raises Skip if the client did not launch the server."""
        if not self.connections:
            raise Skip("the client did not launch the server")
        return self.connections[-1]

    def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Send a message, or bytes unchanged, over the latest connection."""
        self.connection.send(message)

    async def wait_for(
        self, wanted: str | Callable[[ClientMessage], Any], *, count: int = 1, within: float | None = None
    ) -> ClientMessage:
        """Return the n-th line of the client with a method, or that a function accepts; raise Skip if it does not come."""
        fits: Callable[[ClientMessage], Any] = wanted if callable(wanted) else lambda message: message.method == wanted
        found = await self.until(
            lambda: next(iter([message for message in self.received_lines if fits(message)][count - 1 : count]), None), within
        )
        if found is None:
            what = wanted if isinstance(wanted, str) else "what the scenario waits for"
            raise Skip(f"the client did not send {what}")
        return found

    async def until(self, look: Callable[[], Found | None], within: float | None = None) -> Found | None:
        """Wait until ``look`` returns something, or the client exits. Return what it found, or ``None``."""
        return await super().until(look, self.timeouts.stimulus if within is None else within)

    async def client_exited(self, within: float | None = None) -> bool:
        """Wait until the client exits. Return whether it did."""
        await self.until(lambda: None, self.timeouts.client if within is None else within)
        return self.is_over

    async def exited_after(self, wanted: str | Callable[[ClientMessage], Any], handler: Handler | None = None) -> ClientMessage:
        """Wait for a line as :meth:`wait_for` does, then until the client exits. Return the line.

        A handler is set for the method that is waited for.
        """
        if handler is not None:
            self.on[str(wanted)] = handler
        found = await self.wait_for(wanted)
        await self.client_exited()
        return found

    def was_cut_short(self, at: float) -> bool:
        """Return whether the client was killed so soon after this time that it may have been slow, not stuck."""
        return self.left_at is None and at > self.timeouts.client / 2

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, within: float | None = None
    ) -> ClientMessage | None:
        """Send a request to the client and return its response; ``None`` if there is none."""
        self._ids += 1
        request_id = f"fake-{self._ids}"
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, **({"params": params} if params is not None else {})})
        return await self.until(lambda: next(iter(self.responses_to(request_id)), None), within)

    def requests(self, method: str | None = None) -> list[ClientMessage]:
        """Return the requests of the client so far."""
        return [message for message in self.received_lines if message.is_request and method in {None, message.method}]

    def first(self, method: str | None = None, *, after: ClientMessage | None = None) -> ClientMessage | None:
        """Return the first request, optionally of one method and after another message; ``None`` if there is none."""
        return next((each for each in self.requests(method) if after is None or each.number > after.number), None)

    def call_of(self, tool: str) -> ClientMessage | None:
        """Return the first call of a tool; ``None`` if there is none."""
        return next((each for each in self.requests("tools/call") if each.params.get("name") == tool), None)

    def notifications(self, method: str | None = None) -> list[ClientMessage]:
        """Return the notifications of the client so far."""
        found = [message for message in self.received_lines if message.method and not message.is_request]
        return [message for message in found if method in {None, message.method}]

    def responses(self) -> list[ClientMessage]:
        """Return the responses of the client so far."""
        return [message for message in self.received_lines if message.is_response]

    def responses_to(self, request_id: Any) -> list[ClientMessage]:
        """Return the responses to one request of the fake server."""
        return [message for message in self.responses() if same_id(message.id, request_id)]

    def stderr(self, data: bytes) -> None:
        """Write to the stderr of the process that the client launched; raise Skip if there is none."""
        relay = self.connection.relay
        if relay is None:
            raise Skip("it needs a client that launches a process")
        relay.stderr(data)

    def end_server(self, code: int = 0) -> None:
        """End the fake server at once, as if it had crashed."""
        connection = self.connection
        if connection.relay is not None:
            connection.relay.exit(code)
        else:
            self.run_task(connection.channel.close())

    @property
    def what_differs(self) -> str:
        """How the client behaved differently than with a healthy server, as a phrase; empty if it did not."""
        return self.differs_from(self.baseline)

    def differs_from(self, baseline: Baseline | None) -> str:
        """Compare as :attr:`what_differs` does, with the baseline of another revision; raise Skip if there is none."""
        baseline = _known(baseline)
        if missing := self._unasked(baseline):
            return f"it did not send the requests that it sends to a healthy server: {missing}"
        if baseline.left and self.left_at is None:
            if self.received_lines and self.was_cut_short(self.received_lines[-1].at):
                raise Skip("the client was still working when it was killed")
            return "it did not exit by itself, as it does with a healthy server"
        if self.exit is not None and baseline.exit is not None and self.exit != baseline.exit:
            return f"it exited with {self.exit.describe()} instead of {baseline.exit.describe()}"
        return ""

    def expect_as_usual(self, rule: str, when: str, *, about: Quotable | None = None) -> bool:
        """Judge a rule by whether the client behaved as with a healthy server; ``when`` describes what it was sent."""
        return self.expect(rule, not self.what_differs, f"{when}, {self.what_differs}", about=about)

    @property
    def what_is_missing(self) -> str:
        """The requests that the client sends to a healthy server and did not send here, whatever its exit status."""
        missing = self._unasked(_known(self.baseline))
        if self.received_lines and self.was_cut_short(self.received_lines[-1].at):
            raise Skip("the client was still working at the timeout")
        return missing

    def _unasked(self, baseline: Baseline) -> str:
        return ", ".join(sorted(baseline.asked - {asked_for(message) for message in self.requests()}))

    def add_tool(self, name: str, does: Any, **members: Any) -> None:
        """Add a tool without arguments: its result, or a handler as in :attr:`on`, and other members, such as ``outputSchema``."""
        self.healthy.tools.append({"name": name, "inputSchema": {"type": "object", "properties": {}}, **members})
        self.healthy.results[name] = does

    def exchanges(self, method: str) -> Quote:
        """Return the requests of one method and the responses to them, to quote them."""
        asked = self.requests(method)
        keys = {(message.connection.number, id_key(message.id)) for message in asked}
        answers = [
            line
            for connection in self.connections
            for line in connection.sent_lines
            for part in parts_of(decoded(line))
            if "method" not in part and (connection.number, id_key(part.get("id"))) in keys
        ]
        return Quote(sent=tuple(answers), received=tuple(message.raw for message in asked))

    def sent_with(self, *marks: str | bytes) -> Quote:
        """Return the lines of the fake server that contain one of these marks, to quote them."""
        wanted = [mark.encode() if isinstance(mark, str) else mark for mark in marks]
        lines = [line for connection in self.connections for line in connection.sent_lines]
        return Quote(sent=tuple(line for line in lines if any(mark in line for mark in wanted)))

    def quotable(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """Return the lines of both sides."""
        sent = self.connections[-1].sent_lines if self.connections else []
        return sent, [message.raw for message in self.received_lines]

    # For the runner

    async def serve(self, channel: Channel, relay: Relay | None = None) -> None:
        """Serve one connection of the client until it ends."""
        connection = FakeConnection(self, channel, relay, len(self.connections))
        self.connections.append(connection)
        reader = LineReader()
        try:
            while not reader.limit_reached and (data := await channel.read()):
                for line in reader.feed(data):
                    self._take(connection, line, is_whole=True)
                self.wake()
            if reader.rest:
                self._take(connection, bytes(reader.rest), is_whole=False)
            connection.input_ended_at = self.now()
            connection.add_event("eof", stream=">")
            self.wake()
            if not self.ends_with_input and relay is not None:
                async with asyncio.timeout(self.timeouts.client):
                    await relay.watch()
        except (TwopipesError, TimeoutError):
            pass  # reset by the client, closed by the scenario, or timed out
        finally:
            connection.is_over = True
            connection.add_event("eof", stream="<")
            if relay is not None:
                relay.exit(0)
            else:
                await channel.close()
            self.wake()

    async def end(self, exit: ExitStatus | None = None) -> None:  # noqa: A002 - the exit status of the client
        """Record that the client has exited, and stop all handlers."""
        self.exit = exit
        self.is_over = True
        self.wake()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    def run_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine in the background, at most until the client exits."""

        async def run() -> None:
            try:
                await work
            except Skip:
                pass
            except Exception as error:
                self._failure = self._failure or error

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _take(self, connection: FakeConnection, line: bytes, *, is_whole: bool) -> None:
        at = self.now()
        message = ClientMessage(number=len(self.received_lines), at=at, raw=line, message=decoded(line), connection=connection)
        self.received_lines.append(message)
        connection.received_lines.append(message)
        connection.entries.append(Line(at, ">", line, is_whole, connection.number))
        if message.is_request:
            self._note_capabilities(message)
            self.run_task(self._answer(message))

    def _note_capabilities(self, message: ClientMessage) -> None:
        found = message.params.get("capabilities") if message.method == "initialize" else message.meta.get(META_CAPABILITIES)
        if isinstance(found, dict):
            message.connection.client_capabilities = found
        message.connection.has_handshake |= message.method == "initialize"

    async def _answer(self, message: ClientMessage) -> None:
        response: Any = self.on.get(message.method or "")
        for _ in range(2):  # the result of a tool may be a handler, too
            if callable(response):
                response = response(message)
            if inspect.isawaitable(response):
                response = await response
            if response is None:
                response = self.healthy_response(message)
        self.reply(message, response)

    def healthy_response(self, message: ClientMessage) -> Any:
        """Return the healthy response to a request. Also send requested progress and acknowledgements."""
        version = message.meta.get(META_VERSION)
        if version is not None and version not in self.healthy.modern and self.healthy.modern:
            return Fault(-32022, "unsupported protocol version", {"supported": self.healthy.modern, "requested": version})
        is_modern = version is not None and bool(self.healthy.modern)
        if not is_modern and not message.connection.has_handshake and not self.healthy.legacy:
            if message.method == "initialize":
                return Fault(-32022, "this server has no handshake", {"supported": self.healthy.modern, "requested": None})
            return Fault(-32602, f"_meta lacks {META_VERSION}")
        if message.method == "subscriptions/listen" and is_modern:
            message.connection.send(self.healthy.acknowledgement(message.id, message.params))
            return SILENCE
        token = message.meta.get("progressToken")
        if message.method == "tools/call" and message.params.get("name") == "work" and token is not None:
            for step in (1, 2, 3):
                params = {"progressToken": token, "progress": step, "total": 3}
                message.connection.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        return self.healthy.response(message.method or "", message.params, is_modern=is_modern)

    def reply(self, message: ClientMessage, response: Any) -> None:
        """Respond to a request with a result, a ``Fault`` or a ``RawResult``; ``SILENCE`` means no response."""
        if response is not SILENCE:
            message.connection.send(self.line_for(message, response))

    def line_for(self, message: ClientMessage, response: Any = None) -> bytes:
        """Return the line of a response, by default the healthy one, for scenarios that change the bytes."""
        response = self.healthy_response(message) if response is None else response
        if isinstance(response, Fault):
            return encode_line({"jsonrpc": "2.0", "id": message.id, "error": response.member()})
        result = response.result if isinstance(response, RawResult) else response
        if not isinstance(response, RawResult) and message.is_modern and self.healthy.modern:
            result = self.healthy.finished(message.method or "", result)
        return encode_line({"jsonrpc": "2.0", "id": message.id, "result": result})
