"""A recording as a mock server needs it: what was asked, and all that the server said to it, step by step.

It is read as far as it is needed, so that the first answer does not wait for the end of a long recording. No msgspec, no json: a
host waits for a mock (see :mod:`.scanning`).
"""

from __future__ import annotations

from twopipes._tools.mock.scan import NotJson, elements, members, scan

TYPE_CHECKING = False  # as in twopipes/__init__.py
if TYPE_CHECKING:
    from typing import Any, BinaryIO

__all__ = ["Answer", "Ask", "Exchange", "Note", "Recording", "era_of", "key_of"]

# As twopipes._protocol.revisions has them, which would cost the time of importing msgspec; a test compares the two.
META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
META_SERVER_INFO = "io.modelcontextprotocol/serverInfo"

# Of the trace format.
_NEWEST_FORMAT = 1
# Members of params that say how a request is made, and not what it asks for.
_HOW = ("_meta", "requestState", "inputResponses")
# What opens a conversation is answered whoever asks.
_OPENINGS = ("initialize", "server/discover")


class Note:
    """A notification: its method and the text of its params, and the recorded request whose token or tag it has."""

    __slots__ = ("about", "method", "params")

    def __init__(self, method: str, params: str, about: Exchange | None = None) -> None:
        self.method = method
        self.params = params
        self.about = about


class Ask:
    """Questions of the server: requests of its own, or an ``input_required`` result.

    Attributes:
        questions: Key, method and text of the params, of each.
        state: The text of ``requestState``; ``None`` where there was none.
        result: The text of the whole result; ``None`` for requests.
        is_open: While no question of it has been answered in the recording, so that the next one belongs to it as well.
    """

    __slots__ = ("is_open", "questions", "result", "state")

    def __init__(self, questions: list[tuple[str, str, str]], state: str | None = None, result: str | None = None) -> None:
        self.questions = questions
        self.state = state
        self.result = result
        self.is_open = result is None


class Answer:
    """The end of a request: the text of its ``result`` or of its ``error``."""

    __slots__ = ("is_error", "text")

    def __init__(self, text: str, *, is_error: bool) -> None:
        self.text = text
        self.is_error = is_error


class Exchange:
    """A request of the client with all that the server said to it; or a notification, with what it led to.

    Attributes:
        method: What was asked.
        params: The params as they were.
        revision: By which it was asked, where the recording tells.
        steps: What the server said, in order. What comes behind the answer came before the client said anything else.
        is_answered: Whether there is an answer among them.
        was_cancelled: The client gave it up.
        is_complete: All that belongs to it has been read.
        number: In the order of the recording.
    """

    __slots__ = (
        "is_answered",
        "is_complete",
        "is_notification",
        "method",
        "number",
        "params",
        "revision",
        "steps",
        "was_cancelled",
    )

    def __init__(self, method: str, params: dict[str, Any], revision: str | None, *, is_notification: bool = False) -> None:
        self.method = method
        self.params = params
        self.revision = revision
        self.is_notification = is_notification
        self.steps: list[Note | Ask | Answer] = []
        self.is_answered = False
        self.was_cancelled = False
        self.is_complete = False
        self.number = 0

    @property
    def is_listen(self) -> bool:
        """Whether it is a subscription."""
        return self.method == "subscriptions/listen"


class _Thread:
    """One connection of the recording: what is open on it."""

    def __init__(self) -> None:
        self.revision: str | None = None
        self.open: dict[Any, Exchange] = {}
        self.listens: dict[Any, Exchange] = {}
        self.tokens: dict[Any, Exchange] = {}
        self.asked: dict[Any, Exchange] = {}
        self.latest: Exchange | None = None
        self.begun: dict[str, list[str]] = {}

    def current(self) -> Exchange | None:
        """What the server is most likely speaking of: the newest request without an answer, else what was said last."""
        for exchange in reversed(self.open.values()):
            if not exchange.is_listen:
                return exchange
        return self.latest


class Recording:
    """A trace, read piece by piece.

    Args:
        file: The open file.

    Attributes:
        exchanges: All that was asked, by :func:`key_of`, as far as it has been read; what was told has ``""`` before that.
        by_method: What was asked, by method.
        redacted: Names, in lower case, of members whose values the recording does not have.
        server_info: The text of who the recorded server said it was, once that was read.

    Raises:
        ValueError: The file is no trace.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.exchanges: dict[Any, list[Exchange]] = {}
        self.by_method: dict[str, list[Exchange]] = {}
        self.server_info: str | None = None
        self._threads: dict[Any, _Thread] = {}
        self._asking: dict[Any, list[Exchange]] = {}
        self._is_at_end = False
        self._count = 0
        self.redacted: tuple[str, ...] = ()
        try:
            header = scan(file.readline().decode())
            version = header["twopipes_trace"]
        except (NotJson, UnicodeDecodeError, KeyError, TypeError):
            raise ValueError("the file does not begin with the header of a trace") from None
        if version > _NEWEST_FORMAT:
            raise ValueError(f"the trace has version {version} of the format, and this reader knows {_NEWEST_FORMAT}")
        self.redacted = tuple(name.casefold() for name in header.get("redacted", ()))

    def find(self, key: Any, number: int) -> Exchange | None:
        """The how manieth exchange with this key, from 0; the last one if there are fewer; ``None`` if there is none."""
        found = self.exchanges.setdefault(key, [])
        while len(found) <= number and self._read_one():
            pass
        if not found:
            return None
        exchange = found[number] if number < len(found) else next((each for each in reversed(found) if each.is_answered), found[-1])
        self.complete(exchange)
        return exchange

    def complete(self, exchange: Exchange) -> None:
        """Reads until all that belongs to it is known."""
        while not exchange.is_complete and self._read_one():
            pass

    def read_everything(self) -> None:
        """Reads to the end."""
        while self._read_one():
            pass

    def key_of(self, method: str, params: dict[str, Any]) -> Any:
        """What an equal request has as well; see the function of that name."""
        return key_of(method, params, self.redacted)

    def _read_one(self) -> bool:
        if self._is_at_end:
            return False
        line = self._file.readline()
        if not line:
            self._is_at_end = True
            for thread in self._threads.values():
                self._settle(thread, *thread.open.values())
            return False
        try:
            entry = scan(line.decode())
            kind = entry["kind"]
            if kind in (">", "<"):
                self._take_entry(entry, kind)
        except (NotJson, UnicodeDecodeError, KeyError, TypeError, AttributeError):
            pass  # a torn line, or somebody's editor; or a message that is none
        return True

    def _take_entry(self, entry: dict[str, Any], kind: str) -> None:
        thread = self._threads.setdefault(entry.get("connection", 0), _Thread())
        text = entry.get("line")
        if text is None:
            # What is not UTF-8 is no message; but a long line may have been cut inside of a character.
            from binascii import a2b_base64  # noqa: PLC0415 - rarely

            text = a2b_base64(entry["base64"]).decode("utf-8", "surrogateescape")
        pieces = thread.begun.setdefault(kind, [])
        pieces.append(text)
        if entry.get("open"):
            return
        if len(pieces) > 1:
            text = "".join(pieces).encode("utf-8", "surrogateescape").decode()
        pieces.clear()
        if text.lstrip()[:1] == "[":
            for element in elements(text):  # JR-12
                self._take(thread, kind, members(element))
        else:
            self._take(thread, kind, members(text))

    def _take(self, thread: _Thread, kind: str, message: dict[str, tuple[Any, str]]) -> None:
        if "method" in message and not isinstance(message["method"][0], str):
            return  # a method that is no text names nothing that could be asked or told again
        if kind == ">":
            if "method" in message:
                self._take_clients(thread, message)
            elif (answered := thread.asked.pop(_id_of(message), None)) is not None:
                for step in answered.steps:
                    if isinstance(step, Ask):
                        step.is_open = False
        elif "method" not in message:
            self._take_answer(thread, message)
        elif "id" in message:
            self._take_question(thread, message)
        else:
            self._take_note(thread, message)

    # What the client said

    def _take_clients(self, thread: _Thread, message: dict[str, tuple[Any, str]]) -> None:
        method = message["method"][0]
        params = _params(message)
        if "id" not in message:
            if method == "notifications/cancelled":
                given_up = thread.open.pop(_typed(params.get("requestId")), None)
                if given_up is not None:
                    given_up.was_cancelled = True
                    self._settle(thread, given_up)
                return
            if method != "notifications/progress":
                self._begin(thread, Exchange(method, params, thread.revision, is_notification=True))
            return
        identifier = _id_of(message)
        exchange = self._continued(method, params)
        if exchange is None:
            meta = _meta(params)
            exchange = Exchange(method, params, meta.get(META_VERSION, thread.revision))
            self._begin(thread, exchange)
        else:
            self._turn_to(thread, exchange)
        thread.open[identifier] = exchange
        if exchange.is_listen:
            thread.listens[identifier] = exchange
        token = _meta(params).get("progressToken")
        if token is not None:
            thread.tokens[_typed(token)] = exchange

    def _continued(self, method: str, params: dict[str, Any]) -> Exchange | None:
        """The exchange of which a request is a further round (MR-05)."""
        if "requestState" not in params and "inputResponses" not in params:
            return None
        waiting = self._asking.get((self.key_of(method, params), params.get("requestState")))
        return waiting.pop(0) if waiting else None

    def _begin(self, thread: _Thread, exchange: Exchange) -> None:
        self._turn_to(thread, exchange)
        self._count += 1
        exchange.number = self._count
        key = self.key_of(exchange.method, exchange.params)
        if exchange.is_notification:
            key = ("", *key)  # what is told is not asked, whatever it is called
        else:
            self.by_method.setdefault(exchange.method, []).append(exchange)
        self.exchanges.setdefault(key, []).append(exchange)

    def _turn_to(self, thread: _Thread, exchange: Exchange) -> None:
        before, thread.latest = thread.latest, exchange
        if before is not None and before is not exchange and (before.is_answered or before.is_notification):
            self._settle(thread, before)

    def _settle(self, thread: _Thread, *exchanges: Exchange) -> None:
        for exchange in exchanges:
            exchange.is_complete = True
        if self._is_at_end and thread.latest is not None:
            thread.latest.is_complete = True

    # What the server said

    def _take_answer(self, thread: _Thread, message: dict[str, tuple[Any, str]]) -> None:
        exchange = thread.open.pop(_id_of(message), None)
        if exchange is None:
            return
        if "error" in message:
            exchange.steps.append(Answer(message["error"][1], is_error=True))
        else:
            value, text = message["result"]
            if value.get("resultType") == "input_required":
                self._ask_back(exchange, value, members(text), text)
                return
            exchange.steps.append(Answer(text, is_error=False))
            self._learn(thread, exchange, value, text)
        exchange.is_answered = True
        if exchange is not thread.latest:
            exchange.is_complete = True

    def _ask_back(self, exchange: Exchange, value: dict[str, Any], parts: dict[str, tuple[Any, str]], text: str) -> None:
        questions = []
        if "inputRequests" in parts:
            for key, (_, question) in members(parts["inputRequests"][1]).items():
                asked = members(question)
                if "method" in asked and isinstance(asked["method"][0], str):
                    questions.append((key, asked["method"][0], asked["params"][1] if "params" in asked else "{}"))
        state = parts["requestState"][1] if "requestState" in parts else None
        exchange.steps.append(Ask(questions, state, text))
        waiting = (self.key_of(exchange.method, exchange.params), value.get("requestState"))
        self._asking.setdefault(waiting, []).append(exchange)

    def _learn(self, thread: _Thread, exchange: Exchange, value: dict[str, Any], text: str) -> None:
        if exchange.method == "initialize":
            thread.revision = exchange.revision = value.get("protocolVersion")
            self.server_info = members(text)["serverInfo"][1]
        elif self.server_info is None and META_SERVER_INFO in _meta(value):
            self.server_info = members(members(text)["_meta"][1])[META_SERVER_INFO][1]

    def _take_question(self, thread: _Thread, message: dict[str, tuple[Any, str]]) -> None:
        method = message["method"][0]
        exchange = thread.current()
        if method == "ping" or exchange is None:
            return
        question = ("", method, message["params"][1] if "params" in message else "{}")
        last = exchange.steps[-1] if exchange.steps else None
        if isinstance(last, Ask) and last.is_open:
            last.questions.append(question)
        else:
            exchange.steps.append(Ask([question]))
        thread.asked[_id_of(message)] = exchange

    def _take_note(self, thread: _Thread, message: dict[str, tuple[Any, str]]) -> None:
        method = message["method"][0]
        params = _params(message)
        text = message["params"][1] if "params" in message else "{}"
        if method == "notifications/cancelled":
            return  # of its own questions, or of a subscription that ends with the conversation
        if method == "notifications/progress":
            about = thread.tokens.get(_typed(params.get("progressToken")))
            if about is not None:
                about.steps.append(Note(method, text, about))
            return
        about = thread.listens.get(_typed(_meta(params).get(META_SUBSCRIPTION_ID)))
        # A change is told when what caused it is asked again; that a subscription began, when it does.
        home = about if method == "notifications/subscriptions/acknowledged" else thread.current()
        if home is not None:
            home.steps.append(Note(method, text, about))


def key_of(method: str, params: dict[str, Any], redacted: tuple[str, ...] = ()) -> Any:
    """What two requests have in common that ask for the same: method and params, without ``_meta`` and the state of a round."""
    if method in _OPENINGS:
        return (method,)
    return method, _frozen(
        {name: value for name, value in params.items() if name not in _HOW and value not in (None, {})}, redacted
    )


def era_of(params: dict[str, Any]) -> str | None:
    """The revision that a request of the stateless era names; ``None`` for one of a session (VN-01)."""
    version = _meta(params).get(META_VERSION)
    return version if isinstance(version, str) else None


def _frozen(value: Any, redacted: tuple[str, ...]) -> Any:
    """A JSON value as something that can be looked up. To Python true is 1; here it is not.

    Values that a recorder may have blanked, by name or inside of a string, are equal to any other.
    """
    if isinstance(value, dict):
        return ("{", *sorted((name, _frozen_member(name, each, redacted)) for name, each in value.items()))
    if isinstance(value, list):
        return ("[", *[_frozen(each, redacted) for each in value])
    if isinstance(value, str) and redacted and _is_blanked(value, redacted):
        return "*"
    return (type(value).__name__ if not isinstance(value, int | float) or isinstance(value, bool) else "number", value)


def _frozen_member(name: str, value: Any, redacted: tuple[str, ...]) -> Any:
    return "*" if name.casefold() in redacted else _frozen(value, redacted)


def _is_blanked(text: str, redacted: tuple[str, ...]) -> bool:
    """Whether a string may be another one in the recording: ``name=`` is still in it, and the value is not."""
    folded = text.casefold().replace("-", "_")
    return ("=" in text or ":" in text) and any(name.replace("-", "_") in folded for name in redacted)


def _params(message: dict[str, tuple[Any, str]]) -> dict[str, Any]:
    params = message["params"][0] if "params" in message else None
    return params if isinstance(params, dict) else {}


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _id_of(message: dict[str, tuple[Any, str]]) -> Any:
    return _typed(message["id"][0]) if "id" in message else None


def _typed(value: Any) -> Any:
    """An id as a key: 7 and "7" are two (JR-06)."""
    return (type(value).__name__, value) if isinstance(value, str | int | float) else None
