"""A conversation under test: the client, every line between it and its server, and what one may expect of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from msgspec import UNSET

from twopipes._process.shutdown import ShutdownReport
from twopipes._trace.conversation import Call, Conversation, read_conversation
from twopipes._trace.format import Line
from twopipes._trace.message import Message
from twopipes.errors import LocalProtocolError
from twopipes.testing.expectations import ExpectationFailed, describe_difference, differences
from twopipes.testing.faults import Fault, FaultPlan, Strike
from twopipes.testing.wire_log import WireLog

__all__ = ["LiveConversation"]

ClientT = TypeVar("ClientT")

# Of the conversation, in a message about what is not as expected: the last lines, and the beginning of each.
_LAST_LINES = 20
_LONGEST_LINE = 300


class LiveConversation(Generic[ClientT]):
    """What ``pair`` and ``child`` give: the same for both.

    The wire is seen from the client's end. What a fault keeps from the server is in it, and what it keeps from the client is not;
    the note that says so stands in its place.

    Every ``expect_...`` raises :class:`ExpectationFailed`, an ``AssertionError``, and shows the conversation.
    """

    def __init__(self, log: WireLog, faults: FaultPlan) -> None:
        self.log = log
        self.faults = faults
        self._client: ClientT | None = None

    def connected(self, client: ClientT) -> None:
        """There is a client now."""
        self._client = client

    def __repr__(self) -> str:
        return f"<LiveConversation of {self._client!r}, {len(self.lines)} lines>"

    # What there is

    @property
    def client(self) -> ClientT:
        """The client: :class:`twopipes.Client` in an ``async with``, :class:`twopipes.blocking.Client` in a ``with``."""
        if self._client is None:
            raise LocalProtocolError("there is no client: the conversation was not entered, or could not be opened")
        return self._client

    @property
    def lines(self) -> list[Line]:
        """The lines of the wire so far, in both directions: ``.kind`` (``>`` or ``<``), ``.data`` (bytes), ``.text`` for people."""
        return [entry for entry in list(self.log.entries) if isinstance(entry, Line) and entry.kind != "!"]

    @property
    def stderr(self) -> list[str]:
        """What a child has written to its stderr so far, line by line. A server in memory has ours, and here nothing."""
        return [entry.text for entry in list(self.log.entries) if isinstance(entry, Line) and entry.kind == "!"]

    @property
    def conversation(self) -> Conversation:
        """All of it as the tools for recordings see it, as it is now."""
        return read_conversation(list(self.log.entries))

    @property
    def messages(self) -> list[Message]:
        """The messages of both sides so far: ``.direction``, ``.shape``, ``.method``, ``.params``, ``.result``, ``.error``, ..."""
        return list(self.conversation.messages)

    @property
    def calls(self) -> list[Call]:
        """The requests of both sides so far, each with its answer and its progress: ``.method``, ``.state``, ``.answer``."""
        return self.conversation.calls

    @property
    def struck(self) -> list[Strike]:
        """What faults have hit so far."""
        return list(self.faults.struck)

    def inject(self, *faults: Fault) -> None:
        """Has more go wrong. They count from now on, so ``nth=1`` is the next line that fits."""
        self.faults.add(faults)

    def transcript(self, volatile: Iterable[str] = ()) -> str:
        """The conversation as text, as a file of it is written; see :meth:`expect_conversation`."""
        from twopipes.testing.snapshot import steps_of, written  # noqa: PLC0415 - only where it is wanted

        return written(steps_of(self.conversation, volatile))

    # What one may expect

    def expect_result(self, method: str, members: Mapping[str, Any] | None = None) -> Any:
        """The client's last request of this method was answered, by a result that has these members.

        Args:
            method: Such as ``tools/call``.
            members: What must be in it, at any depth: objects may have more, ``"..."`` stands for any value.

        Returns:
            The whole result, as plain Python.
        """
        __tracebackhide__ = True
        answer = self._answer(method)
        if answer.shape == "error":
            raise self._failure(f"the last {method} was answered by an error: {answer.error!r}")
        result = answer.result
        if found := [
            describe_difference(each, "expected", "found")
            for each in differences(members or {}, result, ("result",), further_members=True)
        ]:
            raise self._failure(f"the last {method} was answered otherwise:\n  " + "\n  ".join(found))
        return result

    def expect_error(self, method: str, code: int | None = None) -> Any:
        """The client's last request of this method was answered by an error, with this code.

        Returns:
            The error: an object with ``code`` and ``message``.
        """
        __tracebackhide__ = True
        answer = self._answer(method)
        if answer.shape != "error":
            raise self._failure(f"the last {method} was not refused, but answered by a result: {answer.result!r}")
        error = answer.error
        found = error.get("code") if isinstance(error, dict) else None
        if code is not None and found != code:
            raise self._failure(f"the last {method} was refused with the code {found!r}, and not {code}: {error!r}")
        return error

    def expect_all_answered(self) -> None:
        """No request of either side waits for an answer, or has lost it. What was cancelled needs none, nor a subscription."""
        __tracebackhide__ = True
        if hanging := self.conversation.hanging:
            named = ", ".join(f"{call.direction} {call.method} (id {call.id!r}, {call.state})" for call in hanging)
            raise self._failure(f"{len(hanging)} without an answer: {named}")

    def expect_only_messages(self) -> None:
        """The server wrote nothing but messages to the wire: no banner, no stray print, no broken line (FR-04)."""
        __tracebackhide__ = True
        strange = [each for each in self.messages if each.direction == "<" and (each.fault or each.shape in {"noise", "blank"})]
        if strange:
            shown = "\n  ".join(f"{each.text!r}" + (f" ({each.fault.detail})" if each.fault else "") for each in strange)
            raise self._failure(f"{len(strange)} lines of the server are no messages:\n  {_cut(shown)}")

    def expect_rules_kept(self, *, should: bool = False) -> None:
        """Nothing in the conversation breaks a rule of the protocol, as far as a recording shows.

        A fault may make it seem as if somebody broke one: expect this of conversations without.

        Args:
            should: Expect it also of what the protocol only recommends.
        """
        __tracebackhide__ = True
        from twopipes._trace.findings import judge  # noqa: PLC0415 - the rules are many, and few tests ask for them

        if found := [each for each in judge(self.conversation) if should or each.is_binding]:
            shown = "\n  ".join(f"{each.rule} ({each.level}), by the {each.by}: {each.what}" for each in found)
            raise self._failure(f"{len(found)} rules were broken:\n  {shown}")

    def expect_faults_struck(self) -> None:
        """Every fault has hit something: a test of what happens then is one."""
        __tracebackhide__ = True
        if unused := self.faults.unused:
            raise self._failure(f"nothing was hit by: {', '.join(map(str, unused))}")

    def expect_ended_by_eof(self) -> None:
        """The server ended by itself when its input did, with exit code 0: to be expected after the block.

        A server in memory has no exit code; there it is enough that it was there until the client left.
        """
        __tracebackhide__ = True
        report: ShutdownReport | None = getattr(self.client, "closed", None)
        if report is None:
            raise self._failure("the client is not closed yet; expect this after the block")
        is_memory = report.exit is None and report.ended_by == "close"
        ended_well = report.ended_by == "eof" and report.exit is not None and report.exit.code == 0 and not report.left_behind
        if not is_memory and not ended_well:
            words = [
                f"the server did not end by itself: it {report.describe()}",
                *(f"  stderr: {line}" for line in self.stderr[-10:]),
            ]
            raise self._failure("\n".join(words))

    def expect_conversation(
        self, path: str | os.PathLike[str], *, volatile: Iterable[str] = (), update: bool | None = None
    ) -> None:
        """The conversation is the one that a file holds: the same lines in the same order, with ids counted anew.

        Args:
            path: The file. There must be one, unless it is to be written.
            volatile: Members whose values are others each time: a name counts wherever it stands, a path from ``params``,
                ``result`` or ``error`` on (``result.content.0.text``) there alone, and ``*`` in it for any one step.
            update: Write the file instead; if left out, where ``TWOPIPES_UPDATE_CONVERSATIONS=1`` is in the environment.
        """
        __tracebackhide__ = True
        from twopipes.testing.snapshot import compare  # noqa: PLC0415 - only where it is wanted

        compare(self.conversation, path, volatile=volatile, update=update)

    # Underneath

    def _answer(self, method: str) -> Message:
        __tracebackhide__ = True
        asked = [call for call in self.calls if call.direction == ">"]
        last = next((call for call in reversed(asked) if call.method == method), None)
        if last is None:
            others = ", ".join(dict.fromkeys(call.method for call in asked)) or "nothing"
            raise self._failure(f"the client asked for no {method}, but for: {others}")
        if last.answer is None or (last.answer.result is UNSET and last.answer.error is UNSET):
            raise self._failure(f"the last {method} (id {last.id!r}) has no answer: it is {last.state}")
        return last.answer

    def _failure(self, what: str) -> ExpectationFailed:
        return ExpectationFailed(f"{what}\n\n{self.tail()}")

    def tail(self) -> str:
        """The last lines of the conversation, for people."""
        from twopipes.testing.snapshot import shortened, steps_of  # noqa: PLC0415 - only where something is wrong

        defined, lines = shortened(steps_of(self.conversation, numbered=False))
        last = lines[-_LAST_LINES:]
        which = f" (the last {len(last)} of {len(lines)} lines)" if len(last) < len(lines) else ""
        return "\n".join([f"What was said:{which}", *map(_cut, [*defined, *last])])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}... ({len(text):,} characters)"
