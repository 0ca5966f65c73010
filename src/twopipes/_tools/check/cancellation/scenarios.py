"""Cancellation, from the side of a server: by the client, and by the server itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from twopipes._tools.check.conversation import same_id
from twopipes._tools.check.declared_questions import question_for
from twopipes._tools.check.fake_server import ClientMessage, FakeServer, asked_for, scenario
from twopipes._tools.check.healthy_responses import SILENCE, text
from twopipes._tools.check.verdict import Skip

_CANCELLED = "notifications/cancelled"
_UNUSED = 987654
# With which a client may go on that calls no more tools.
_LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
# How often the server asks and takes it back at once.
_TIMES = 5
# Seconds beside the grace: how long a client may take to break its silence.
_LONGER = 0.3


def cancelled(request_id: Any) -> dict[str, Any]:
    """The notification."""
    return {"jsonrpc": "2.0", "method": _CANCELLED, "params": {"requestId": request_id}}


@scenario("CA-01", "CA-02", "CA-06", "CA-07", "CA-08", "CA-12")
async def leaves_a_call_open(fake: FakeServer) -> None:
    """The first call of a tool gets no answer until the client gives it up; then the answer comes, too late."""
    # Clients whose programmer looks at the name give this one less time; for all others it is a tool like any other.
    fake.healthy.tools.insert(0, {"name": "stuck", "inputSchema": {"type": "object", "properties": {}}})
    fake.healthy.results["stuck"] = text("At last.")
    late = _LateAnswer(fake)
    fake.on |= dict.fromkeys(_LISTS, late.let_pass) | {"tools/call": late.hold}
    call = await fake.wait_for("tools/call")
    notice: ClientMessage | None = await fake.until(lambda: late.notice)
    if notice is None:
        late.send()
        raise Skip(f"the client did not give up a call that had no answer for {fake.timeouts.stimulus:g} s")
    _judge_notice(fake, call, notice)
    # Whoever goes on gets both answers then; all others get the late one in between.
    await fake.until(lambda: late.is_sent or None, fake.timeouts.brief)
    late.send()
    await fake.client_exited()
    late.judge()


class _LateAnswer:
    """The answer to the first call of a tool, which comes when the client has given that up.

    Attributes:
        call: Which is left without an answer at first.
        before: The next call, where the client went on with one: the late answer comes just before the answer to that.
    """

    def __init__(self, fake: FakeServer) -> None:
        self._fake = fake
        self.call: ClientMessage | None = None
        self.before: ClientMessage | None = None
        self._sent_after: int | None = None

    @property
    def notice(self) -> ClientMessage | None:
        """By which the client gave the call up. That it has also heard enough of a subscription is another matter."""
        call = self.call
        if call is None:
            return None
        listens = self._fake.requests("subscriptions/listen")
        told = (message for message in self._fake.notifications(_CANCELLED) if message.number > call.number)
        return next(
            (message for message in told if not any(same_id(message.params.get("requestId"), each.id) for each in listens)), None
        )

    def hold(self, message: ClientMessage) -> Any:
        """Leaves the first call of a tool without an answer, whichever it is; the others get theirs."""
        if self.call is None:
            self.call = message
            return SILENCE
        if not self.is_sent and self.notice is not None:
            self.before = message
            self.send()
        return None

    def let_pass(self, _said: ClientMessage) -> None:
        """Answers what else is asked, and before that, once the call was given up, the call."""
        if self.notice is not None:
            self.send()

    @property
    def is_sent(self) -> bool:
        """Whether the answer was sent after all."""
        return self._sent_after is not None

    def send(self) -> None:
        """Sends the answer after all, once."""
        if not self.is_sent and self.call is not None:
            self._sent_after = len(self._fake.received_lines)
            self._fake.reply(self.call, text("At last."))

    def judge(self) -> None:
        """At the end: what did the late answer do to the client?"""
        fake = self._fake
        complaint = next((message for message in fake.responses() if "error" in message.members), None)
        broken = self._what_broke() or ("the client complained" if complaint is not None else "")
        went_on = any(message.number >= (self._sent_after or 0) for message in fake.requests())
        for rule in ("CA-06", "CA-07"):
            if not broken and not went_on:
                fake.skip(rule, "the client asked nothing more after it had given up a call, which is its own business")
                continue
            fake.expect(
                rule,
                not broken,
                f"after an answer to a call that it had given up, {broken}",
                fix="Drop an answer whose request is not open any more.",
                about=complaint,
            )

    def _what_broke(self) -> str:
        """What only the late answer can have done: to call no more tools once a call has failed may be what the client wants."""
        fake = self._fake
        if fake.left_at is not None and fake.exit is not None and fake.exit.signal is not None:
            return f"the client ended with {fake.exit.describe()}"
        if self.before is None or fake.baseline is None or fake.was_cut_short(self.before.at):
            return ""
        before = self.before
        if any(message.number > before.number for message in fake.requests()):
            return ""
        calls = {asked for asked in fake.baseline.asked if asked.startswith("tools/call")}
        missing = sorted(calls - {asked_for(message) for message in fake.requests()})
        return f"the client went on with {asked_for(before)}, and no further: {', '.join(missing)} is missing" if missing else ""


def _judge_notice(fake: FakeServer, call: ClientMessage, notice: ClientMessage) -> None:
    named, reason = notice.params.get("requestId"), notice.params.get("reason", "")
    fake.expect(
        "CA-12",
        isinstance(named, str | int) and not isinstance(named, bool),
        f"the requestId of a notifications/cancelled is {named!r}",
        fix="Put the id of the request that is given up into requestId.",
        about=notice,
    )
    sent = [message.id for message in fake.requests() if message.number < notice.number]
    for rule in ("CA-02", "CA-08"):
        fake.expect(
            rule,
            any(same_id(named, each) for each in sent),
            f"the client cancelled {named!r}, which it never sent",
            fix="Cancel only requests that this side has sent.",
            about=notice,
        )
    fake.expect(
        "CA-01",
        same_id(named, call.id) and isinstance(reason, str),
        f"the client gave up its request {call.id!r} by cancelling {named!r}, with the reason {reason!r}",
        fix="Name the request by its id, of the same JSON type; a reason is a string.",
        about=notice,
    )


@scenario("CA-03", "CA-07", "CA-13")
async def takes_its_questions_back(fake: FakeServer) -> None:
    """During a call the server asks several things, and cancels them at once; once under an id of another type."""
    if fake.is_modern:
        raise Skip("on the stateless wire a server asks nothing that it could take back")
    done = asyncio.Event()

    async def wait(_said: ClientMessage) -> None:
        await done.wait()

    fake.on["tools/call"] = wait
    try:
        call = await fake.wait_for("tools/call")
        question = question_for(call.connection.client_capabilities, fake.revision)
        if question is None:
            raise Skip("the client declares nothing that it could be asked")
        control = await fake.ask(*question)
        if control is None or "result" not in control.members:
            raise Skip(f"the client did not answer {question[0]}")
        await _cancel_by_another_type(fake, *question)
        await _ask_and_take_back(fake, *question)
    finally:
        done.set()
    await fake.client_exited()
    fake.expect("CA-07", not fake.what_differs, f"after questions that the server took back, {fake.what_differs}")


async def _cancel_by_another_type(fake: FakeServer, method: str, params: Any) -> None:
    fake.send({"jsonrpc": "2.0", "id": _UNUSED, "method": method, "params": params})
    fake.send(cancelled(str(_UNUSED)))
    response = await fake.until(lambda: next(iter(_responses(fake, _UNUSED)), None))
    fake.expect(
        "CA-13",
        response is not None,
        f"{method} with the id {_UNUSED} got no answer after a cancellation of {str(_UNUSED)!r}, which is another id",
        fix="Compare ids with their JSON type.",
    )


async def _ask_and_take_back(fake: FakeServer, method: str, params: Any) -> None:
    ids = [f"taken-back-{number}" for number in range(_TIMES)]
    for each in ids:
        fake.send({"jsonrpc": "2.0", "id": each, "method": method, "params": params})
        fake.send(cancelled(each))
    fence = await fake.ask("ping")
    if fence is None:
        raise Skip("the client does not answer a ping, so the check cannot tell what it has read")
    await fake.until(lambda: None, fake.timeouts.grace + _LONGER)
    answers = [message for each in ids for message in _responses(fake, each)]
    late = next((message for message in answers if message.at > fence.at + fake.timeouts.grace), None)
    if answers and late is None:
        fake.skip("CA-03", "the client answered before it had read that the question was taken back")
    else:
        fake.expect(
            "CA-03",
            late is None,
            f"the client answered {method} although the server had cancelled it",
            fix="When a question is cancelled, take the form or the model away from it, and send no response.",
            about=late,
        )
    twice = next((each for each in ids if len(_responses(fake, each)) > 1), None)
    fake.expect("CA-07", twice is None, f"the client answered {method} {twice!r}, which was cancelled, more than once")


def _responses(fake: FakeServer, request_id: Any) -> list[ClientMessage]:
    return [message for message in fake.responses() if same_id(message.id, request_id)]


@scenario("CA-05")
async def cancels_what_makes_no_sense(fake: FakeServer) -> None:
    """With the list of tools come cancellations of nothing, of what is over, and malformed ones."""
    seen = False

    def cancel(message: ClientMessage) -> None:
        nonlocal seen
        if not seen:
            seen = True
            first = next(iter(fake.requests())).id
            strange: list[dict[str, Any]] = [
                {"requestId": _UNUSED},
                {"requestId": first},
                {},
                {"requestId": {}},
                {"requestId": None},
            ]
            for params in strange:
                message.connection.send({"jsonrpc": "2.0", "method": _CANCELLED, "params": params})
            message.connection.send({"jsonrpc": "2.0", "method": _CANCELLED})

    fake.on["tools/list"] = cancel
    await fake.wait_for("tools/list")
    await fake.client_exited()
    complaint = next((message for message in fake.responses() if "error" in message.members), None)
    fake.expect(
        "CA-05",
        complaint is None and not fake.what_differs,
        f"after cancellations that make no sense, {fake.what_differs or 'the client complained'}",
        fix="Look the request up; if it is not there, or the notification cannot be read, do nothing.",
        about=complaint,
    )


@scenario("CA-10")
async def cancels_a_call_of_the_client(fake: FakeServer) -> None:
    """The server cancels a call, which it may not, and then answers so that one sees who still waits: by wanting it once more."""

    def again(message: ClientMessage) -> Any:
        return text("Done.") if "requestState" in message.params else {"resultType": "input_required", "requestState": "once more"}

    async def cancel_first(message: ClientMessage) -> Any:
        if "requestState" not in message.params:
            message.connection.send(cancelled(message.id))
            await asyncio.sleep(fake.timeouts.grace)
        return again(message)

    fake.add_tool("comes_back", again)
    fake.add_tool("comes_back_cancelled", cancel_first)

    def calls(name: str, *, is_retry: bool) -> Callable[[ClientMessage], bool]:
        return lambda message: (
            message.is_request and message.params.get("name") == name and ("requestState" in message.params) is is_retry
        )

    await fake.wait_for(calls("comes_back", is_retry=False))
    await fake.wait_for(calls("comes_back", is_retry=True))
    first = await fake.wait_for(calls("comes_back_cancelled", is_retry=False))
    await fake.client_exited()
    waited = any(map(calls("comes_back_cancelled", is_retry=True), fake.received_lines))
    fake.expect(
        "CA-10",
        waited,
        "after a notifications/cancelled that names its call, the client took no notice of the answer to that call",
        fix="Let a notifications/cancelled of the server end subscriptions, and nothing else.",
        about=first,
    )


@scenario("CA-11")
async def lets_a_task_work_for_ever(fake: FakeServer) -> None:
    """A call that the client makes a task never ends; if the client gives it up, the way it does so is looked at."""
    task = {"taskId": "fake-task", "status": "working", "ttl": 600000, "pollInterval": 50}
    task |= {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
    fake.healthy.capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    fake.add_tool(
        "stuck",
        lambda message: {"task": task} if "task" in message.params else text("Done."),
        execution={"taskSupport": "optional"},
    )
    fake.on["tasks/get"] = lambda _said: task
    fake.on["tasks/result"] = lambda _said: SILENCE
    fake.on["tasks/cancel"] = lambda _said: {**task, "status": "cancelled"}
    await fake.client_exited()
    tasks = [message for message in fake.requests("tools/call") if "task" in message.params]
    if not tasks:
        raise Skip("the client made no task of a call")
    wrong = next(
        (
            message
            for message in fake.notifications(_CANCELLED)
            if any(same_id(message.params.get("requestId"), call.id) for call in tasks)
        ),
        None,
    )
    if wrong is None and not fake.requests("tasks/cancel"):
        raise Skip("the client did not give its task up")
    fake.expect(
        "CA-11",
        wrong is None,
        "the client gave up a task by notifications/cancelled",
        fix="Send tasks/cancel with the id of the task.",
        about=wrong,
    )
