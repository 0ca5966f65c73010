"""Play a conversation file against a session: the file is both the test and the documentation.

A file has a title, the ids of the rules it shows, and steps:

    # a cancelled call gets no response
    # rules: CA-03 CA-04
    @server capabilities={"tools":{}}
    > {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{$META,"name":"slow"}}
    = CallReceived 1
    > {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
    = CallCancelled 1
    * respond 1 {"content":[]}

``>`` goes from the client to the server, ``<`` from the server to the client. The side under test (``@server`` or ``@client``)
must write exactly the lines of the file, in that order and nothing else, before the next step. ``=`` names an event of the previous
step, ``*`` is an action of the session's driver, ``~`` joins the next line to the bytes of this one. In an expected line,
``"..."`` matches any value, and a member ``"...":"..."`` matches any further members.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from twopipes import _jsonrpc as jsonrpc
from twopipes._protocol import types
from twopipes._protocol.methods import RESULTS
from twopipes._session.client import ClientSession
from twopipes._session.events import RequestEnded
from twopipes._session.identity import ClientProfile, ServerProfile
from twopipes._session.server import ServerSession
from twopipes._session.state_token import StateSealer
from twopipes._session.subscriptions import Change
from twopipes._wire import LineRejected
from twopipes.errors import CapabilityMissing, InternalError, LocalProtocolError, McpError, NotFound, TwopipesError
from twopipes.settings import InputPolicy, Limits, Timeouts

META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientCapabilities":{%s},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}'
)
DEFINED = {
    "META": META % "",
    "META+elicitation": META % '"elicitation":{}',
    "META+sampling": META % '"sampling":{}',
    "META+roots": META % '"roots":{}',
    "SERVER": '"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}',
    "DONE": '"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}',
    "CAN": '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}',
    "TAG": '"io.modelcontextprotocol/subscriptionId"',
}
QUESTIONS = msgspec.json.Decoder(dict[str, types.InputRequest])
KEY = b"a key that only the tests use..."


class Mismatch(AssertionError):
    """The session did not behave as the file requires."""


def matches(expected: Any, found: Any) -> bool:
    """Return whether a value matches the file, including its type: 1 is neither 1.0 nor true."""
    if expected == "...":
        return True
    if type(expected) is not type(found):
        return False
    if isinstance(expected, dict):
        open_ended = expected.get("...") == "..."
        wanted = {key: value for key, value in expected.items() if key != "..."}
        if not open_ended and wanted.keys() != found.keys():
            return False
        return all(key in found and matches(value, found[key]) for key, value in wanted.items())
    if isinstance(expected, list):
        return len(expected) == len(found) and all(map(matches, expected, found))
    return bool(expected == found)


class Player:
    """Plays the steps of one file."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.now = 0.0
        self.session: Any = None
        self.inward = ""
        self.written: list[bytes] = []
        self.events: list[Any] = []
        self.calls: dict[Any, Any] = {}
        self.asked: dict[Any, Any] = {}
        self.results: dict[Any, Any] = {}
        self.saved: dict[str, str] = {}
        self.joined = b""
        self.kept: list[bytes] = []

    def play(self) -> None:
        """Play the whole file.

        Raises:
            Mismatch: With the first line of the file that does not match.
        """
        for number, line in enumerate(self.text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            kind, _, rest = line.partition(" ")
            try:
                self._step(kind, rest.strip())
            except Mismatch as problem:
                raise Mismatch(f"line {number}: {line}\n{problem}") from None
        self._expect_quiet()

    def _step(self, kind: str, rest: str) -> None:
        if kind.startswith("@"):
            self._set_up(kind[1:], rest)
        elif kind == "=":
            self._expect_event(rest)
        elif kind == self.inward:
            self._expect_quiet()
            data = self.joined + self._bytes(rest) + b"\n"
            self.joined = b""
            self._take(self.session.receive(data, now=self.now))
        elif kind == "~":
            self.joined += self._bytes(rest) + b"\n"
        elif kind in {"<", ">"}:
            self._expect_line(rest)
        elif kind == "*":
            self._expect_quiet()
            act, _, arguments = rest.partition(" ")
            getattr(self, "act_" + act)(arguments.strip())
            self._take([])
        else:
            raise Mismatch(f"unknown step: {kind}")

    def _set_up(self, side: str, options: str) -> None:
        if side == "define":
            name, _, value = options.partition(" ")
            self.saved[name] = value
            return
        given = {key: json.loads(value) for key, value in re.findall(r"(\w+)=(\S+)", options)}
        revisions = given.get("revisions")
        chosen = {"revisions": tuple(revisions)} if revisions else {}
        limits = Limits(**given.get("limits", {}))
        if side == "server":
            profile = ServerProfile(
                info=types.Implementation("s", "1"),
                capabilities=msgspec.convert(given.get("capabilities", {"tools": {}}), types.ServerCapabilities),
                instructions=given.get("instructions"),
                cancel_ended_listens=given.get("cancel_ended_listens", True),
                **chosen,
            )
            self.session = ServerSession(
                profile, limits=limits, questions=InputPolicy(**given.get("questions", {})), sealer=StateSealer(KEY)
            )
            self.inward = ">"
        else:
            client = ClientProfile(
                info=types.Implementation("c", "1"),
                capabilities=msgspec.convert(given.get("capabilities", {}), types.ClientCapabilities),
                **chosen,
            )
            timeouts = Timeouts(**given.get("timeouts", {}))
            self.session = ClientSession(client, limits=limits, timeouts=timeouts, skip_probe=given.get("skip_probe", False))
            self.inward = "<"

    # Actions of the driver

    def act_respond(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        call = self.calls[request_id]
        result = msgspec.json.decode(self._bytes(rest), type=RESULTS[call.method])
        self.session.respond(call, result)

    def act_fail(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        errors: dict[str, BaseException] = {
            "not found": NotFound("resource", "x://gone"),
            "needs roots": CapabilityMissing({"roots": {}}),
            "internal": InternalError("it broke"),
            "bug": ZeroDivisionError("secret path"),
        }
        self.session.fail(self.calls[request_id], errors[rest])

    def act_progress(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        self.session.report_progress(self.calls[request_id], *json.loads(rest))

    def act_log(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        level, data = json.loads(rest)
        self.session.log(level, data, call=self.calls.get(request_id))

    def act_ask(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        self._keep(self.session.ask(self.calls[request_id], QUESTIONS.decode(self._bytes(rest)), now=self.now))

    def act_announce(self, arguments: str) -> None:
        kind, _, uri = arguments.partition(" ")
        self.session.announce(Change(kind, uri))  # type: ignore[arg-type]

    def act_end_listens(self, arguments: str) -> None:
        self.session.end_listens()

    def act_ping(self, arguments: str) -> None:
        self.session.ping(now=self.now, limit=float(arguments or 10))

    def act_elicitation_complete(self, arguments: str) -> None:
        self.session.elicitation_complete(arguments)

    def act_open(self, arguments: str) -> None:
        self.session.open(now=self.now)

    def act_request(self, arguments: str) -> None:
        method, _, rest = arguments.partition(" ")
        asked = self.session.request(method, json.loads(self._bytes(rest) or b"null"), now=self.now)
        self.asked[asked.id] = asked

    def act_retry(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        asked = self.asked[request_id]
        answers = msgspec.json.decode(self._bytes(rest), type=dict[str, types.ElicitResult])
        again = self.session.retry(asked, self.results[request_id], answers, now=self.now)
        self.asked[again.id] = again

    def act_listen(self, arguments: str) -> None:
        wanted = msgspec.json.decode(self._bytes(arguments), type=types.SubscriptionFilter)
        asked = self.session.listen(wanted, now=self.now)
        self.asked[asked.id] = asked

    def act_cancel(self, arguments: str) -> None:
        request_id, rest = self._id(arguments)
        self.session.cancel(self.asked[request_id], reason=rest or None)

    def act_notify(self, arguments: str) -> None:
        self.session.notify(arguments)

    def act_wait(self, arguments: str) -> None:
        self.now += float(arguments)
        self._take(self.session.tick(now=self.now))

    def act_eof(self, arguments: str) -> None:
        self._take(self.session.receive_eof(now=self.now))

    def act_feed(self, arguments: str) -> None:
        """Feed bytes exactly as written, with Python's escapes: for input that is not a line."""
        self._take(self.session.receive(eval(f"b{arguments}"), now=self.now))

    def act_refused(self, arguments: str) -> None:
        """Run the following action, which must raise an error of this side with these words in its text."""
        words, _, act = arguments.partition(" by ")
        name, _, rest = act.partition(" ")
        try:
            getattr(self, "act_" + name)(rest)
        except (LocalProtocolError, McpError) as error:
            if words not in f"{type(error).__name__}: {error}":
                raise Mismatch(f"refused with another error: {type(error).__name__}: {error}") from None
        else:
            raise Mismatch("this was not refused")

    def act_save(self, arguments: str) -> None:
        """Store a string from the last expected line: ``* save STATE result.requestState``."""
        name, _, path = arguments.partition(" ")
        value = json.loads(self.kept[-1])
        for step in path.split("."):
            value = value[step]
        self.saved[name] = json.dumps(value)

    # Expectations

    def _expect_line(self, expected: str) -> None:
        if not self.written:
            raise Mismatch("nothing more was written")
        line = self.written.pop(0)
        self.kept.append(line)
        if not matches(json.loads(self._bytes(expected)), json.loads(line)):
            raise Mismatch(f"written instead:\n  {line.decode()}")

    def _expect_event(self, expected: str) -> None:
        shown = [_shown(event) for event in self.events]
        for index, text in enumerate(shown):
            if text == expected or (expected.endswith("...") and text.startswith(expected[:-3].rstrip())):
                del self.events[index]
                return
        raise Mismatch(f"events: {shown}")

    def _expect_quiet(self) -> None:
        if self.written:
            raise Mismatch("also written:\n" + "\n".join("  " + line.decode() for line in self.written))

    def _take(self, events: list[Any]) -> None:
        data: bytes = self.session.data_to_send()
        lines = data.split(b"\n")
        if lines.pop():
            raise Mismatch("half a line was written")
        for line in lines:
            if isinstance(jsonrpc.decode(line, max_batch=None), LineRejected):
                raise Mismatch(f"this is not a message (FR-04, FR-05): {line!r}")
        self.written += lines
        self.events = events or self.events
        for event in events:
            if (call := getattr(event, "call", None)) is not None:
                self.calls[call.id] = call
            if isinstance(event, RequestEnded):
                self.results[event.asked.id] = event.result

    def _keep(self, answers: Any) -> None:
        self.events = [] if answers is None else [f"known {sorted(answers)}"]

    def _id(self, arguments: str) -> tuple[Any, str]:
        text, _, rest = arguments.partition(" ")
        return json.loads(text), rest.strip()

    def _bytes(self, text: str) -> bytes:
        for name, value in {**DEFINED, **self.saved}.items():
            text = re.sub(r"\$" + re.escape(name) + r"(?![\w+])", lambda _, value=value: value, text)
        return text.encode()


def _shown(event: Any) -> str:
    """Return an event as one line: its name, its call or request, its outcome."""
    if isinstance(event, str):
        return event
    words = [type(event).__name__]
    concerned = getattr(event, "call", None) or getattr(event, "asked", None)
    if concerned is not None:
        words.append(json.dumps(concerned.id))
    for name in ("method", "revision", "era", "reason"):
        value = getattr(event, name, None)
        if isinstance(value, str):
            words.append(value)
    if (answers := getattr(event, "answers", None)) is not None:
        words.append(" ".join(f"{key}={_outcome(value)}" for key, value in sorted(answers.items())))
    if (error := getattr(event, "error", None)) is not None:
        words.append(type(error).__name__)
    if (params := getattr(event, "params", None)) is not None and hasattr(params, "progress"):
        words.append(json.dumps(params.progress))
    if getattr(event, "respawn", False):
        words.append("respawn")
    return " ".join(words)


def _outcome(value: Any) -> str:
    return type(value).__name__ if isinstance(value, TwopipesError) else str(getattr(value, "action", type(value).__name__))


def read(path: Path) -> str:
    """Return the text of a conversation file."""
    return path.read_text(encoding="utf-8")
