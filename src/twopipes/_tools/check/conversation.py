"""One conversation with a server under test. It keeps every line of both directions, and every wait is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from twopipes._channels.base import Channel
from twopipes._process.child import Child
from twopipes._process.exit_status import ExitStatus
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes._protocol.revisions import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION, MODERN
from twopipes._tools.check.line_reader import LineReader
from twopipes._tools.check.messages import (
    CannotOpen,
    Found,
    NoResponse,
    ProbeTimeouts,
    ReceivedLine,
    Response,
    Transcript,
    Waiter,
    members,
)
from twopipes._trace.format import Event, Kind
from twopipes._version import __version__
from twopipes._wire import encode_line
from twopipes.errors import ChannelBroken, ChannelClosed, TwopipesError

CLIENT_INFO = {"name": "twopipes-check", "version": __version__}
ALL_CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
"""The capabilities of a client that can answer every question."""

SILENCE = object()
"""In place of an answer: do not answer."""

# The answers to the questions of a server, by method: those of a client whose user declines.
DEFAULT_ANSWERS: Mapping[str, Any] = {
    "ping": {},
    "elicitation/create": {"action": "decline"},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Nothing to say."},
        "model": "none",
        "stopReason": "endTurn",
    },
    "roots/list": {"roots": []},
}
_METHOD_NOT_FOUND = {"code": -32601, "message": "this client does not support that method"}
# Pages of a list that are requested. A list may be endless.
_PAGES = 20


def handshake(version: Any, client_capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the params of ``initialize``."""
    return {"protocolVersion": version, "capabilities": dict(client_capabilities or {}), "clientInfo": CLIENT_INFO}


class Observer(Protocol):
    """Receives the bytes of the wire as they are sent: a :class:`twopipes._trace.recorder.Recorder`."""

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        """Receive bytes of one direction, split anywhere."""


class LiveConversation(Transcript, Waiter):
    """One conversation. Created by :meth:`twopipes._tools.check.server_source.ServerTarget.open`."""

    def __init__(
        self,
        channel: Channel,
        *,
        timeouts: ProbeTimeouts,
        child: Child | None = None,
        closing: Callable[[], Coroutine[Any, Any, object]] | None = None,
        number: int = 0,
        observer: Observer | None = None,
    ) -> None:
        Transcript.__init__(self)
        Waiter.__init__(self)
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.channel = channel
        self.timeouts = timeouts
        self.child = child
        self.number = number
        self.revision: str | None = None  # set by open()
        self.opening: Response | None = None  # the response to initialize or server/discover
        self.client_capabilities: Mapping[str, Any] = {}
        # The answers to questions of the server, by method: a result, a function of the request that returns one, or SILENCE.
        # Other requests are rejected with -32601.
        self.answers: dict[str, Any] = dict(DEFAULT_ANSWERS)
        self.judged = True  # whether the messages are judged passively; a probe that breaks rules itself turns it off
        self.harmless_in: Mapping[str, str] = {}
        self.unanswered = 0  # how many requests got no response in time
        self.left_after: float | None = None  # seconds until the server ended its output, unless we closed it first
        self.report: ShutdownReport | None = None
        self._closing = closing
        self._observer = observer
        self._ids = 0
        self._reader = LineReader()
        self._is_listening = asyncio.Event()
        self._is_listening.set()
        self._unsent_end = b""
        self._input_ended = False
        self._is_closed = False
        self._fences: set[Any] = set()
        if child is not None:
            self.entries.append(Event(at=0.0, name="spawn", pid=child.pid))
        self._reading = self._loop.create_task(self._read(), name=f"check: read {channel.description}")

    def __repr__(self) -> str:
        return f"<LiveConversation {self.number} {self.revision or 'not open'} {self.channel.description}>"

    @property
    def age(self) -> float:
        """Seconds since the start of the conversation."""
        return self._loop.time() - self._began

    @property
    def is_modern(self) -> bool:
        """Whether the revision is modern."""
        return self.revision in MODERN

    @property
    def is_usable(self) -> bool:
        """Whether the conversation is open in both directions."""
        return self.opening is not None and not self.is_over and not self._input_ended

    def reset_answers(self) -> None:
        """Restore the default answers to questions of the server."""
        self.answers = dict(DEFAULT_ANSWERS)

    def answer_to(self, question: Any) -> Any:
        """Return the answer to a question of the server: a result, :data:`SILENCE`, or ``None`` if there is none."""
        method = members(question).get("method")
        answer = self.answers.get(method) if isinstance(method, str) else None
        return answer(question) if callable(answer) else answer

    def answers_to(self, questions: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers to the questions of an ``inputRequests``, by key. Questions without an answer are left out."""
        found = {key: self.answer_to(question) for key, question in questions.items()}
        return {key: answer for key, answer in found.items() if answer is not None and answer is not SILENCE}

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server capabilities in the response that opened the conversation."""
        return members(self.opening.result.get("capabilities")) if self.opening is not None else {}

    @property
    def stderr(self) -> list[str]:
        """The last lines of the server's stderr."""
        return [] if self.child is None else self.child.stderr.lines()

    @property
    def silence(self) -> float:
        """Seconds until the first response of the server; the age of the conversation if there was none."""
        return self.age if self.first_response_at is None else self.first_response_at

    @property
    def first_response(self) -> Response | None:
        """The response to the first request, which opens the conversation."""
        return self.response(1)

    # Sending

    def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Send a message, or bytes unchanged (without an added newline). A server that has exited is not an error."""
        data = bytes(message) if isinstance(message, bytes | bytearray) else encode_line(message)
        with suppress(ChannelBroken, ChannelClosed):
            self.channel.write(data)
            self._note_sent(data)

    def message(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        request_id: Any = None,
        meta: Mapping[str, Any] | None = None,
        client_capabilities: Mapping[str, Any] | None = None,
        bare: bool = False,
    ) -> dict[str, Any]:
        """Build a request with everything that the revision requires.

        Args:
            method: The method.
            params: The params without ``_meta``.
            request_id: The id; a new one by default.
            meta: Members to add to ``_meta``, or to replace in it.
            client_capabilities: Those that a modern request declares, instead of those of the conversation.
            bare: Leave out the ``_meta`` that a modern request requires.
        """
        if request_id is None:
            self._ids += 1
            request_id = self._ids
        built: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        all_meta: dict[str, Any] = {}
        if self.is_modern and not bare:
            declared = self.client_capabilities if client_capabilities is None else client_capabilities
            all_meta = {META_VERSION: self.revision, META_CAPABILITIES: dict(declared), META_CLIENT_INFO: CLIENT_INFO}
        all_meta.update(meta or {})
        if params is not None or all_meta:
            built["params"] = {**(params or {}), **({"_meta": all_meta} if all_meta else {})}
        return built

    def start(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Send a request and return its id without waiting. See :meth:`message` for the options."""
        built = self.message(method, params, **options)
        self.send(built)
        return built["id"]

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    async def end_input(self) -> None:
        """Close the server's input, as a client does at its end."""
        self._input_ended = True
        if self._unsent_end:
            self.add_sent(self._unsent_end, self.age, is_whole=False)
            self._unsent_end = b""
        with suppress(ChannelBroken, ChannelClosed, TimeoutError):
            async with asyncio.timeout(self.timeouts.response):
                await self.channel.close_write()
        self.entries.append(Event(at=self.age, name="eof", stream=">"))

    # Receiving

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, within: float | None = None, **options: Any
    ) -> Response:
        """Send a request and return the response, or raise NoResponse. See :meth:`message` for the options."""
        built = self.message(method, params, **options)
        self.send(built)
        return await self.response_to(built["id"], within=within, what=method)

    async def response_to(self, request_id: Any, *, within: float | None = None, what: str = "the request") -> Response:
        """Return the response to a request that was sent before, or raise NoResponse."""
        if within is None:
            within = max(self.timeouts.start, self.timeouts.response) if self.first_response_at is None else self.timeouts.response
        found = await self.awaited(request_id, within)
        if found is None:
            self.unanswered += 1
            if self._reader.limit_reached:
                how = f"the server sent {self._reader.summary}, which is the limit of the check, and no response to"
            else:
                how = "the server exited before it answered" if self.is_over else f"no response within {within:g} s to"
            raise NoResponse(f"{how} {what}", request_id=request_id)
        return found

    async def awaited(self, request_id: Any, within: float | None = None) -> Response | None:
        """Wait for the response to a request that was sent before; return ``None`` if there is none in time."""
        return await self.until(lambda: self.response(request_id), self.timeouts.response if within is None else within)

    async def try_request(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Response:
        """Send a request as :meth:`request` does. Without a response, return one that is neither a result nor an error."""
        try:
            return await self.request(method, params, **options)
        except NoResponse as error:
            nothing = ReceivedLine(number=-1, at=self.age, raw=b"", message=None)
            return Response(message={}, received_line=nothing, silence=str(error))

    async def is_ignored(self, request_id: Any) -> bool:
        """Return whether a request still has no response after a later one was answered."""
        if self.responses_to(request_id) or not self.is_usable:
            return False
        with suppress(NoResponse):
            return (await self.request(self.harmless, within=self.timeouts.step)).is_result and not self.responses_to(request_id)
        return False

    async def pages(self, method: str) -> AsyncIterator[Response]:
        """Yield the responses with the pages of a list, up to the last one."""
        params: dict[str, Any] | None = None
        for _ in range(_PAGES):
            response = await self.request(method, params)
            yield response
            cursor = response.result.get("nextCursor")
            if not isinstance(cursor, str):
                break
            params = {"cursor": cursor}

    async def wait_for(
        self, wanted: str | Callable[[ReceivedLine], Any], *, since: int = 0, within: float | None = None
    ) -> ReceivedLine | None:
        """Wait for a line with a method, or one that a function accepts, from number ``since`` on; ``None`` if none came."""
        fits = wanted if callable(wanted) else lambda line: line.method == wanted
        within = self.timeouts.response if within is None else within
        return await self.until(lambda: next((line for line in self.received_lines[since:] if fits(line)), None), within)

    @property
    def harmless(self) -> str:
        """A method that this server answers with a result, and that changes nothing."""
        return self.harmless_in.get(self.revision or "") or ("server/discover" if self.is_modern else "ping")

    async def quiet(self, grace: float | None = None, *, fence: bool = True, since: int | None = None) -> list[ReceivedLine]:
        """Wait a grace period and return the lines that were received: none, if the server was quiet.

        Args:
            grace: Seconds.
            fence: Send a harmless request first and wait for its response, so that the server has read everything before it. This
                costs no time with a fast server, and catches late lines of a slow one. Responses to fences are never returned,
                nor are those to the fences of :meth:`until_ignored`, which may come late on a slow link.
            since: The number of the first line to return; by default the next one.
        """
        first = len(self.received_lines) if since is None else since
        if fence and self.is_usable:
            with suppress(NoResponse):
                await self.response_to(self._fence())
        await asyncio.sleep(self.timeouts.grace if grace is None else grace)
        fenced = {response.received_line.number for fence_id in self._fences for response in self.responses_to(fence_id)}
        return [line for line in self.received_lines[first:] if line.number not in fenced]

    def stop_listening(self) -> None:
        """Stop reading from the pipe after the current read, as a busy client does."""
        self._is_listening.clear()

    def listen_again(self) -> None:
        """Resume reading."""
        self._is_listening.set()

    async def until_ignored(self, look: Callable[[], Found | None]) -> Found | None:
        """Wait as :meth:`until` does, for something that a server may ignore.

        A harmless request is sent as well. After its response there is only a short time left.
        """
        fence = self._fence()
        await self.until(lambda: look() or self.responses_to(fence) or None, self.timeouts.response)
        return await self.until(look, self.timeouts.lull)

    def _fence(self) -> Any:
        """Send a harmless request and return its id."""
        fence = self.start(self.harmless)
        self._fences.add(fence)
        return fence

    async def response_if_any(self, request_id: Any) -> Response | None:
        """Return the response to an earlier request that the server may ignore; ``None`` if there is none."""
        return await self.until_ignored(lambda: self.response(request_id))

    async def ended(self, within: float | None = None) -> bool:
        """Wait for the end of the server's output. Return whether it came."""
        await self.until(lambda: None, self.timeouts.exit if within is None else within)
        return self.is_over

    async def exit(self, within: float | None = None) -> ExitStatus | None:
        """Wait for the process to exit; ``None`` if it does not exit, or if there is no process."""
        if self.child is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeouts.exit if within is None else within):
                return await self.child.wait()
        return None

    # Opening and closing

    async def open(self, revision: str, client_capabilities: Mapping[str, Any] | None = None) -> Response:
        """Open the conversation in a revision, with a handshake or with ``server/discover``, or raise CannotOpen."""
        self.client_capabilities = {} if client_capabilities is None else client_capabilities
        try:
            if revision in MODERN:
                self.revision = revision
                response = await self.request("server/discover")
                supported = response.result.get("supportedVersions")
                if not isinstance(supported, list) or revision not in supported:
                    raise CannotOpen(f"the server does not speak {revision}: server/discover got {response.summary}")
            else:
                response = await self.request("initialize", handshake(revision, self.client_capabilities))
                agreed = response.result.get("protocolVersion")
                if agreed != revision:
                    why = f"it offers {agreed}" if response.is_result else f"initialize got {response.summary}"
                    raise CannotOpen(f"the server does not speak {revision}: {why}")
                self.revision = revision
                self.notify("notifications/initialized")
        except NoResponse as error:
            raise CannotOpen(f"the server did not open a conversation in {revision}: {error}{self._last_words()}") from error
        self.opening = response
        return response

    async def close(self) -> None:
        """Close the conversation and end its process. The time is bounded, whatever the server does."""
        if self._is_closed:
            return
        self._is_closed = True
        self.listen_again()
        try:
            if self.child is not None:
                self.report = await self.child.shut_down(ShutdownPlan.default(self.timeouts.step))
            else:
                with suppress(ChannelBroken, ChannelClosed, TimeoutError):
                    async with asyncio.timeout(self.timeouts.step):
                        await self.channel.close_write()
                        await self.ended(self.timeouts.step)
        finally:
            await self.channel.close()
            await asyncio.gather(self._reading, return_exceptions=True)
            if self.child is not None and self.child.exit is not None:
                code, signal = self.child.exit.code, self.child.exit.signal_name
                self.entries.append(Event(at=self.age, name="exit", code=code, signal=signal))
            if self._closing is not None:
                closing, self._closing = self._closing, None
                await closing()

    # Internals

    def _last_words(self) -> str:
        lines = [line for line in self.stderr if line.strip()]
        return f"; the last line of its stderr: {lines[-1][:200]}" if lines else ""

    def _note_sent(self, data: bytes) -> None:
        if self._observer is not None:
            self._observer.chunk(">", data, connection=self.number)
        *lines, self._unsent_end = (self._unsent_end + data).split(b"\n")
        for line in lines:
            self.add_sent(line, self.age, is_whole=True)

    async def _read(self) -> None:
        try:
            while not self._reader.limit_reached and (data := await self.channel.read()):
                if self._observer is not None:
                    self._observer.chunk("<", data, connection=self.number)
                for line in self._reader.feed(data):
                    self._take(line, is_whole=True)
                self.wake()
                await self._is_listening.wait()
        except TwopipesError:
            pass  # closed by us or reset by the server
        finally:
            if self._reader.rest:
                self._take(bytes(self._reader.rest), is_whole=False)
            self.is_over = True
            if not self._is_closed:
                self.left_after = self.age
            self.entries.append(Event(at=self.age, name="eof", stream="<"))
            self.wake()

    def _take(self, line: bytes, *, is_whole: bool) -> None:
        for part in self.add_received(line, self.age, is_whole=is_whole).parts:
            if "method" in part and "id" in part and not self.is_modern:
                self._answer_question(part)

    def _answer_question(self, question: dict[str, Any]) -> None:
        answer = self.answer_to(question)
        if answer is not SILENCE:
            kind = {"error": _METHOD_NOT_FOUND} if answer is None else {"result": answer}
            self.send({"jsonrpc": "2.0", "id": question["id"], **kind})
