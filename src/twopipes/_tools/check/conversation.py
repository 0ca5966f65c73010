"""One conversation with a server under test: every line of both directions is kept, and every wait has an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from twopipes._channels.base import Channel
from twopipes._process.child import Child
from twopipes._process.exit_status import ExitStatus
from twopipes._process.shutdown import ShutdownPlan, ShutdownReport
from twopipes._protocol.revisions import META_CAPABILITIES, META_CLIENT_INFO, META_VERSION, MODERN
from twopipes._tools.check.default_answers import ALL_CAPABILITIES, DEFAULT_ANSWERS, SILENCE
from twopipes._tools.check.line_reader import LineReader
from twopipes._tools.check.server_reply import (
    CannotOpen,
    NoResponse,
    ProbeTimeouts,
    ReceivedLine,
    Response,
    decoded,
    id_key,
    parts_of,
    same_id,
)
from twopipes._trace.format import Event, Kind, Line
from twopipes._version import __version__
from twopipes._wire import encode_line
from twopipes.errors import ChannelBroken, ChannelClosed, TwopipesError

__all__ = [
    "ALL_CAPABILITIES",
    "SILENCE",
    "CannotOpen",
    "LiveConversation",
    "NoResponse",
    "Observer",
    "ProbeTimeouts",
    "ReceivedLine",
    "Response",
    "same_id",
]

CLIENT_INFO = {"name": "twopipes-check", "version": __version__}

_METHOD_NOT_FOUND = {"code": -32601, "message": "this client was not asked for that"}


class Observer(Protocol):
    """Whoever writes the wire down as it happens: a :class:`twopipes._trace.recorder.Recorder`."""

    def chunk(self, kind: Kind, data: bytes, *, connection: int = 0) -> None:
        """Takes bytes of one direction, cut anywhere."""


class LiveConversation:
    """One conversation. Made by :meth:`twopipes._tools.check.server_source.Subject.open`.

    Attributes:
        revision: Which is spoken, once it is open.
        opening: The answer to ``initialize`` or ``server/discover``.
        client_capabilities: The client capabilities that are declared.
        received_lines: Every line of the server, in order.
        sent_lines: Every line that was sent.
        entries: Both, and what else happened, as in a trace.
        answers: By method: what the server's own requests (legacy alone) are answered with: a result, a function of the request
            that returns one, or :data:`SILENCE`. What is not in it is refused with -32601.
        child: The process, where there is one.
        unanswered: How many requests were waited for in vain.
        judged: Whether what it shows by itself counts; a probe that breaks the rules itself turns it off.
    """

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
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self.channel = channel
        self.timeouts = timeouts
        self.child = child
        self.number = number
        self.revision: str | None = None
        self.opening: Response | None = None
        self.client_capabilities: Mapping[str, Any] = {}
        self.received_lines: list[ReceivedLine] = []
        self.sent_lines: list[bytes] = []
        self.entries: list[Line | Event] = []
        self.answers: dict[str, Any] = {}
        self.reset_answers()
        self.judged = True
        self.harmless_in: Mapping[str, str] = {}
        self.unanswered = 0
        self.is_over = False  # the server's output has ended
        self.left_after: float | None = None  # seconds after which the server ended its output, unless we had closed it before
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
        self._news = asyncio.Event()
        self._sent_by_id: dict[Any, tuple[bytes, float]] = {}
        self._cancelled: set[Any] = set()
        self._fences: set[Any] = set()
        self._responses_by_id: dict[Any, list[Response]] = {}
        self._responded_at: float | None = None
        if child is not None:
            self.entries.append(Event(at=0.0, name="spawn", pid=child.pid))
        self._reading = self._loop.create_task(self._read(), name=f"check: read {channel.description}")

    def __repr__(self) -> str:
        return f"<LiveConversation {self.number} {self.revision or 'not open'} {self.channel.description}>"

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return self._loop.time() - self._began

    @property
    def is_modern(self) -> bool:
        """Whether a revision without a handshake is spoken."""
        return self.revision in MODERN

    @property
    def is_usable(self) -> bool:
        """Whether it is open and nothing has ended."""
        return self.opening is not None and not self.is_over and not self._input_ended

    def reset_answers(self) -> None:
        """Answers what the server asks as it does from the beginning, whatever a probe has put in its place."""
        self.answers.clear()
        self.answers.update(DEFAULT_ANSWERS)

    @property
    def open_requests(self) -> int:
        """How many requests were sent that are neither answered nor cancelled."""
        return len(self._sent_by_id.keys() - self._responses_by_id.keys() - self._cancelled)

    @property
    def capabilities(self) -> dict[str, Any]:
        """What the server declared when it was opened."""
        found = self.opening.result.get("capabilities") if self.opening is not None else None
        return found if isinstance(found, dict) else {}

    @property
    def stderr(self) -> list[str]:
        """The last lines of the server's stderr."""
        return [] if self.child is None else self.child.stderr.lines()

    @property
    def silence(self) -> float:
        """How many seconds it took the server to answer for the first time; all the time so far, if it has not."""
        return self.age if self._responded_at is None else self._responded_at

    @property
    def first_response(self) -> Response | None:
        """The answer to the first request of all, which is the one that opens it."""
        return next(iter(self.responses_to(1)), None)

    # Saying something

    def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Sends a message, or bytes exactly as they are: with a newline where there shall be one. A dead server is not an error."""
        data = bytes(message) if isinstance(message, bytes | bytearray) else encode_line(message)
        with suppress(ChannelBroken, ChannelClosed):
            self.channel.write(data)
            self._note_sent(data)

    def new_id(self) -> int:
        """An id that was not used before."""
        self._ids += 1
        return self._ids

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
        """A request, with all that the revision wants in it.

        Args:
            method: Its name.
            params: Without ``_meta``.
            request_id: A fresh one unless given.
            meta: To lay over ``_meta``.
            client_capabilities: The client capabilities to declare in it (modern), instead of those of the conversation.
            bare: Leave out what a modern request has to carry.
        """
        built: dict[str, Any] = {"jsonrpc": "2.0", "id": self.new_id() if request_id is None else request_id, "method": method}
        laid: dict[str, Any] = {}
        if self.is_modern and not bare:
            laid = {
                META_VERSION: self.revision,
                META_CAPABILITIES: dict(self.client_capabilities if client_capabilities is None else client_capabilities),
            }
            laid[META_CLIENT_INFO] = CLIENT_INFO
        laid.update(meta or {})
        if params is not None or laid:
            built["params"] = {**(params or {}), **({"_meta": laid} if laid else {})}
        return built

    def start(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Sends a request and returns its id, without waiting; see :meth:`message` for the options."""
        built = self.message(method, params, **options)
        self.send(built)
        return built["id"]

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Sends a notification."""
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})})

    async def end_input(self) -> None:
        """Ends the server's input, as a client does that leaves."""
        self._input_ended = True
        if self._unsent_end:
            self._note_sent_line(self._unsent_end, is_whole=False)
            self._unsent_end = b""
        with suppress(ChannelBroken, ChannelClosed, TimeoutError):
            async with asyncio.timeout(self.timeouts.response):
                await self.channel.close_write()
        self.entries.append(Event(at=self.age, name="eof", stream=">"))

    # Hearing something

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, within: float | None = None, **options: Any
    ) -> Response:
        """Sends a request and returns the answer, be it a result or an error; see :meth:`message` for the options.

        Raises:
            Unanswered: There was none in time; the probe ends, unless it wants to know.
        """
        built = self.message(method, params, **options)
        self.send(built)
        return await self.response_to(built["id"], within=within, what=method)

    async def response_to(self, request_id: Any, *, within: float | None = None, what: str = "the request") -> Response:
        """Returns the answer to a request that was sent before.

        Raises:
            Unanswered: There was none in time.
        """
        if within is None:
            within = max(self.timeouts.start, self.timeouts.response) if self._responded_at is None else self.timeouts.response
        found: Response | None = await self.until(lambda: next(iter(self.responses_to(request_id)), None), within)
        if found is None:
            self.unanswered += 1
            if self._reader.limit_reached:
                how = f"the server said {self._reader.summary}, which is as much as is listened to, and did not answer"
            else:
                how = "the server ended before it answered" if self.is_over else f"no answer within {within:g} s to"
            raise NoResponse(f"{how} {what}", request_id=request_id)
        return found

    def responses_to(self, request_id: Any) -> list[Response]:
        """All answers to a request so far. More than one is one too many."""
        return self._responses_by_id.get(id_key(request_id), [])

    async def is_ignored(self, request_id: Any) -> bool:
        """Tells whether a request has still no answer when one that was sent later has."""
        if self.responses_to(request_id) or not self.is_usable:
            return False
        with suppress(NoResponse):
            return (await self.request(self.harmless, within=self.timeouts.step)).is_result and not self.responses_to(request_id)
        return False

    async def finish(self, method: str, params: Mapping[str, Any] | None = None, *, rounds: int = 5, **options: Any) -> Response:
        """As :meth:`request`, but questions of the stateless wire are answered, as those of the other are in any case."""
        more: dict[str, Any] = {}
        for _ in range(rounds):
            response = await self.request(method, {**(params or {}), **more}, **options)
            if response.result.get("resultType") != "input_required":
                return response
            asked = response.result.get("inputRequests")
            more = {"inputResponses": self._responses(asked if isinstance(asked, dict) else {})}
            if "requestState" in response.result:
                more["requestState"] = response.result["requestState"]
        raise NoResponse(f"{method} was answered with input_required {rounds} times")

    async def wait_for(
        self, wanted: str | Callable[[ReceivedLine], Any], *, since: int = 0, within: float | None = None
    ) -> ReceivedLine | None:
        """Returns the first line from number ``since`` on that is wanted, by its method or by a function; ``None`` if none came."""
        fits = wanted if callable(wanted) else lambda line: line.method == wanted
        found: ReceivedLine | None = await self.until(
            lambda: next((line for line in self.received_lines[since:] if fits(line)), None),
            self.timeouts.response if within is None else within,
        )
        return found

    @property
    def harmless(self) -> str:
        """A method that this server answers with a result, and that changes nothing."""
        return self.harmless_in.get(self.revision or "") or ("server/discover" if self.is_modern else "ping")

    async def quiet(self, grace: float | None = None, *, fence: bool = True, since: int | None = None) -> list[ReceivedLine]:
        """Returns what came, until it was silent for the grace: nothing, if the server was quiet.

        Args:
            grace: Seconds.
            fence: Ask something harmless first and wait for its answer, so that the server has read all that was sent before. It
                costs no time where servers are fast, and finds what slow ones say late. Answers to fences never count, nor do
                those to the ones of :meth:`until_passed_over`, which may come late on a slow link.
            since: The number of the received line to begin with; what comes from now on unless given.
        """
        first = len(self.received_lines) if since is None else since
        if fence and self.is_usable:
            with suppress(NoResponse):
                await self.response_to(self._fence())
        await asyncio.sleep(self.timeouts.grace if grace is None else grace)
        fenced = {response.received_line.number for fence_id in self._fences for response in self.responses_to(fence_id)}
        return [line for line in self.received_lines[first:] if line.number not in fenced]

    @property
    def position(self) -> int:
        """How many lines were received: for ``since``."""
        return len(self.received_lines)

    def stop_listening(self) -> None:
        """Leaves what comes in the pipe, but for what is being read just now, as a client does that is busy."""
        self._is_listening.clear()

    def listen_again(self) -> None:
        """Reads what was left, and all that comes."""
        self._is_listening.set()

    async def until(self, look: Callable[[], Any], within: float) -> Any:
        """Waits until something is to be found in what has come, or the server's output has ended; ``None`` if it is not."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while (found := look()) is None and not self.is_over:
                    self._news.clear()
                    await self._news.wait()
                return found
        return look()

    async def until_ignored(self, look: Callable[[], Any]) -> Any:
        """As :meth:`until`, for what a server may leave without a word.

        It is asked something harmless, too, and when that is answered there is only a lull left for the other.
        """
        fence = self._fence()
        await self.until(lambda: look() or self.responses_to(fence) or None, self.timeouts.response)
        return await self.until(look, self.timeouts.lull)

    def _fence(self) -> Any:
        """Asks something harmless, and returns the id."""
        fence = self.start(self.harmless)
        self._fences.add(fence)
        return fence

    async def response_if_any(self, request_id: Any) -> Response | None:
        """The answer to a request that was sent before, and that the server may pass over."""
        found: Response | None = await self.until_ignored(lambda: next(iter(self.responses_to(request_id)), None))
        return found

    async def ended(self, within: float | None = None) -> bool:
        """Waits for the end of the server's output, and tells whether it came."""
        await self.until(lambda: None, self.timeouts.exit if within is None else within)
        return self.is_over

    async def exit(self, within: float | None = None) -> ExitStatus | None:
        """Waits for the end of the process; ``None`` if it did not come, or there is none."""
        if self.child is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(self.timeouts.exit if within is None else within):
                return await self.child.wait()
        return None

    # The two ends

    async def open(self, revision: str, client_capabilities: Mapping[str, Any] | None = None) -> Response:
        """Opens the conversation in a revision: a whole handshake, or ``server/discover``.

        Args:
            revision: Any of the five.
            client_capabilities: The client capabilities to declare; none unless given.

        Raises:
            CannotOpen: The server does not speak it, or says nothing.
        """
        self.client_capabilities = {} if client_capabilities is None else client_capabilities
        try:
            if revision in MODERN:
                self.revision = revision
                response = await self.request("server/discover")
                supported = response.result.get("supportedVersions")
                if not isinstance(supported, list) or revision not in supported:
                    raise CannotOpen(f"the server does not speak {revision}: server/discover got {response.summary}")
            else:
                params = {"protocolVersion": revision, "capabilities": dict(self.client_capabilities), "clientInfo": CLIENT_INFO}
                response = await self.request("initialize", params)
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
        """Ends it, and the process behind it, by a plan that comes to an end whatever the server does."""
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

    # Underneath

    def _last_words(self) -> str:
        lines = [line for line in self.stderr if line.strip()]
        return f"; the last line of its stderr: {lines[-1][:200]}" if lines else ""

    def _note_sent(self, data: bytes) -> None:
        if self._observer is not None:
            self._observer.chunk(">", data, connection=self.number)
        *lines, self._unsent_end = (self._unsent_end + data).split(b"\n")
        for line in lines:
            self._note_sent_line(line, is_whole=True)

    def _note_sent_line(self, line: bytes, *, is_whole: bool) -> None:
        self.sent_lines.append(line)
        self.entries.append(Line(self.age, ">", line, is_whole))
        for part in parts_of(decoded(line)):
            if "id" in part and "method" in part:
                self._sent_by_id[id_key(part["id"])] = line, self.age
            elif part.get("method") == "notifications/cancelled" and isinstance(part.get("params"), dict):
                self._cancelled.add(id_key(part["params"].get("requestId")))

    async def _read(self) -> None:
        try:
            while not self._reader.limit_reached and (data := await self.channel.read()):
                if self._observer is not None:
                    self._observer.chunk("<", data, connection=self.number)
                for line in self._reader.feed(data):
                    self._take(line, is_whole=True)
                self._news.set()
                await self._is_listening.wait()
        except TwopipesError:
            pass  # closed by us, or reset by the server: the end in any case
        finally:
            if self._reader.rest:
                self._take(bytes(self._reader.rest), is_whole=False)
            self.is_over = True
            if not self._is_closed:
                self.left_after = self.age
            self.entries.append(Event(at=self.age, name="eof", stream="<"))
            self._news.set()

    def _take(self, line: bytes, *, is_whole: bool) -> None:
        at = self.age
        self.entries.append(Line(at, "<", line, is_whole))
        received = ReceivedLine(len(self.received_lines), at, line, decoded(line))
        self.received_lines.append(received)
        for part in received.parts:
            if "method" not in part:
                self._take_response(part, received)
            elif "id" in part and not self.is_modern:
                self._answer_question(part)

    def _take_response(self, message: dict[str, Any], received: ReceivedLine) -> None:
        if self._responded_at is None:
            self._responded_at = received.at
        if "id" not in message:
            return
        key = id_key(message["id"])
        line, at = self._sent_by_id.get(key, (None, received.at))
        response = Response(
            id=message["id"],
            message=message,
            sent=() if line is None else (line,),
            received=(received.raw,),
            received_line=received,
            took=received.at - at,
        )
        self._responses_by_id.setdefault(key, []).append(response)

    def _answer_question(self, question: dict[str, Any]) -> None:
        response = self.answers.get(question["method"]) if isinstance(question["method"], str) else None
        if callable(response):
            response = response(question)
        if response is SILENCE:
            return
        kind = {"error": _METHOD_NOT_FOUND} if response is None else {"result": response}
        self.send({"jsonrpc": "2.0", "id": question["id"], **kind})

    def _responses(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for key, question in asked.items():
            method = question.get("method") if isinstance(question, dict) else None
            response = self.answers.get(method) if isinstance(method, str) else None
            if callable(response):
                response = response(question)
            if response is not None and response is not SILENCE:
                found[key] = response
        return found
