"""A conversation under test: the client, every line between it and its server, and expectations about them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import UNSET

from twopipes._process.shutdown import ShutdownReport
from twopipes._trace.conversation import Call, Conversation, read_conversation
from twopipes._trace.findings import judge
from twopipes._trace.format import Line
from twopipes._trace.message import Message
from twopipes.errors import LocalProtocolError
from twopipes.testing.expectations import ExpectationFailed, describe_difference, differences
from twopipes.testing.faults import Fault, FaultPlan, Strike
from twopipes.testing.snapshot import compare, shortened, steps_of, written
from twopipes.testing.wire_log import WireLog

ClientT = TypeVar("ClientT")

# How much of the conversation the message of a failed expectation shows: the last lines, and the start of each.
_LAST_LINES = 20
_MAX_LINE = 300


class LiveConversation(Generic[ClientT]):
    """The conversation of ``pair`` or ``child``.

    It is recorded at the client's end: a line that a fault keeps from the server is included, and one that a fault keeps from the
    client is not; a note takes its place.

    Every ``expect_...`` method raises :class:`ExpectationFailed`, an ``AssertionError``, and shows the conversation.
    """

    def __init__(self, log: WireLog, faults: FaultPlan) -> None:
        self.log = log
        self.faults = faults
        self._client: ClientT | None = None

    def connected(self, client: ClientT) -> None:
        """Set the client."""
        self._client = client

    def __repr__(self) -> str:
        return f"<LiveConversation of {self._client!r}, {len(self.lines)} lines>"

    # The recorded conversation

    @property
    def client(self) -> ClientT:
        """The client: :class:`twopipes.Client` in an ``async with``, :class:`twopipes.blocking.Client` in a ``with``."""
        if self._client is None:
            raise LocalProtocolError("there is no client: the conversation was not opened, or opening it failed")
        return self._client

    @property
    def lines(self) -> list[Line]:
        """The lines so far, in both directions: ``.kind`` (``>`` or ``<``), ``.data`` (bytes), ``.text`` (readable)."""
        return [entry for entry in list(self.log.entries) if isinstance(entry, Line) and entry.kind != "!"]

    @property
    def stderr(self) -> list[str]:
        """The lines that a child has written to stderr so far. Empty for a server in memory, which shares our stderr."""
        entries = list(self.log.entries)
        # Text has CR LF on Windows.
        return [entry.text.removesuffix("\r") for entry in entries if isinstance(entry, Line) and entry.kind == "!"]

    @property
    def conversation(self) -> Conversation:
        """The conversation so far, as the tools for recordings see it."""
        return read_conversation(list(self.log.entries))

    @property
    def messages(self) -> list[Message]:
        """The messages of both sides so far: ``.direction``, ``.shape``, ``.method``, ``.params``, ``.result``, ``.error``, ..."""
        return list(self.conversation.messages)

    @property
    def calls(self) -> list[Call]:
        """The requests of both sides so far, each with its response and its progress: ``.method``, ``.state``, ``.answer``."""
        return self.conversation.calls

    @property
    def struck(self) -> list[Strike]:
        """The lines that faults have affected so far."""
        return list(self.faults.struck)

    def inject(self, *faults: Fault) -> None:
        """Add faults. They count from now on, so ``nth=1`` is the next matching line."""
        self.faults.add(faults)

    def transcript(self, volatile: Iterable[str] = ()) -> str:
        """Return the conversation as the text of a conversation file; see :meth:`expect_conversation`."""
        return written(steps_of(self.conversation, volatile))

    # Expectations

    def expect_result(self, method: str, members: Mapping[str, Any] | None = None) -> Any:
        """Expect that the client's last request of this method got a result with these members.

        Args:
            method: Such as ``tools/call``.
            members: The expected members, at any depth. Objects may have more, and ``"..."`` matches any value.

        Returns:
            The whole result, as plain Python.
        """
        __tracebackhide__ = True
        response = self._response(method)
        if response.shape == "error":
            raise self._failure(f"the last {method} failed with an error: {response.error!r}")
        result = response.result
        if found := [
            describe_difference(each, "expected", "found")
            for each in differences(members or {}, result, ("result",), further_members=True)
        ]:
            raise self._failure(f"the last {method} has another result:\n  " + "\n  ".join(found))
        return result

    def expect_error(self, method: str, code: int | None = None) -> Any:
        """Expect that the client's last request of this method got an error with this code.

        Returns:
            The error: an object with ``code`` and ``message``.
        """
        __tracebackhide__ = True
        response = self._response(method)
        if response.shape != "error":
            raise self._failure(f"the last {method} got a result instead of an error: {response.result!r}")
        error = response.error
        found = error.get("code") if isinstance(error, dict) else None
        if code is not None and found != code:
            raise self._failure(f"the last {method} got the error code {found!r} instead of {code}: {error!r}")
        return error

    def expect_all_answered(self) -> None:
        """Expect that every request of either side got a response. Cancelled requests and subscriptions need none."""
        __tracebackhide__ = True
        if hanging := self.conversation.hanging:
            named = ", ".join(f"{call.direction} {call.method} (id {call.id!r}, {call.state})" for call in hanging)
            raise self._failure(f"{len(hanging)} without a response: {named}")

    def expect_only_messages(self) -> None:
        """Expect that the server wrote only messages: no banner, no stray print, no broken line (FR-04)."""
        __tracebackhide__ = True
        strange = [each for each in self.messages if each.direction == "<" and (each.fault or each.shape in {"noise", "blank"})]
        if strange:
            shown = "\n  ".join(f"{each.text!r}" + (f" ({each.fault.detail})" if each.fault else "") for each in strange)
            raise self._failure(f"{len(strange)} lines of the server are not messages:\n  {_cut(shown)}")

    def expect_rules_kept(self, *, should: bool = False) -> None:
        """Expect that nothing in the conversation breaks a rule of the protocol, as far as a recording shows.

        A fault may look like a broken rule, so use this for conversations without faults.

        Args:
            should: Include the recommendations of the protocol.
        """
        __tracebackhide__ = True
        if found := [each for each in judge(self.conversation) if should or each.is_binding]:
            shown = "\n  ".join(f"{each.rule} ({each.level}), by the {each.by}: {each.what}" for each in found)
            raise self._failure(f"{len(found)} rules were broken:\n  {shown}")

    def expect_faults_struck(self) -> None:
        """Expect that every fault has affected a line, so that the test really tests it."""
        __tracebackhide__ = True
        if unused := self.faults.unused:
            raise self._failure(f"these faults affected no line: {', '.join(map(str, unused))}")

    def expect_ended_by_eof(self) -> None:
        """Expect that the server exited on EOF with exit code 0. Call it after the block.

        A server in memory has no exit code; it only has to run until the client closes.
        """
        __tracebackhide__ = True
        report: ShutdownReport | None = getattr(self.client, "closed", None)
        if report is None:
            raise self._failure("the client is not closed yet; call this after the block")
        is_memory = report.exit is None and report.ended_by == "close"
        ended_well = report.ended_by == "eof" and report.exit is not None and report.exit.code == 0 and not report.left_behind
        if not is_memory and not ended_well:
            words = [
                f"the server did not exit cleanly on EOF: it {report.describe()}",
                *(f"  stderr: {line}" for line in self.stderr[-10:]),
            ]
            raise self._failure("\n".join(words))

    def expect_conversation(
        self, path: str | os.PathLike[str], *, volatile: Iterable[str] = (), update: bool | None = None
    ) -> None:
        """Expect that the conversation is that of a file: the same lines in the same order, with renumbered ids.

        Args:
            path: The file. It must exist, unless it is to be written.
            volatile: Members whose values change in each run. A name matches everywhere. A path that starts at ``params``,
                ``result`` or ``error`` (``result.content.0.text``) matches one place; ``*`` in it matches any one step.
            update: Write the file instead. By default only if ``TWOPIPES_UPDATE_CONVERSATIONS=1`` is in the environment.
        """
        __tracebackhide__ = True
        compare(self.conversation, path, volatile=volatile, update=update)

    # Internals

    def _response(self, method: str) -> Message:
        __tracebackhide__ = True
        asked = [call for call in self.calls if call.direction == ">"]
        last = next((call for call in reversed(asked) if call.method == method), None)
        if last is None:
            others = ", ".join(dict.fromkeys(call.method for call in asked)) or "nothing"
            raise self._failure(f"the client did not send {method}; it sent: {others}")
        if last.answer is None or (last.answer.result is UNSET and last.answer.error is UNSET):
            raise self._failure(f"the last {method} (id {last.id!r}) has no response: it is {last.state}")
        return last.answer

    def _failure(self, what: str) -> ExpectationFailed:
        return ExpectationFailed(f"{what}\n\n{self.tail()}")

    def tail(self) -> str:
        """Return the last lines of the conversation as readable text."""
        defined, lines = shortened(steps_of(self.conversation, numbered=False))
        last = lines[-_LAST_LINES:]
        which = f" (the last {len(last)} of {len(lines)} lines)" if len(last) < len(lines) else ""
        return "\n".join([f"The conversation:{which}", *map(_cut, [*defined, *last])])


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LINE else f"{text[:_MAX_LINE]}... ({len(text):,} characters)"
