"""How clients cancel, and how they handle cancellations by the server."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._tools.check.asking_tools import open_call, question_for
from twopipes._tools.check.cancellation.notices import CANCELLED, UNUSED_ID, judge_notice
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE, text
from twopipes._tools.check.messages import ClientMessage, asked_for
from twopipes._tools.check.scenario import scenario
from twopipes._tools.check.verdict import Skip

# Requests with which a client may continue that calls no more tools.
_LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
# Seconds beside the grace that a client has to send an answer that it should not send.
_LONGER = 0.3


@scenario("CA-01", "CA-02", "CA-06", "CA-07", "CA-08", "CA-12")
async def answers_a_call_after_the_client_gave_it_up(fake: FakeServer) -> None:
    """Leaves the first tool call without a response until the client gives it up, and then responds."""
    # Clients whose author knows the name give this tool less time; for all others it is a tool like any other.
    fake.healthy.tools.insert(0, {"name": "stuck", "inputSchema": {"type": "object", "properties": {}}})
    fake.healthy.results["stuck"] = text("At last.")
    late = _LateResponse(fake)
    fake.on |= dict.fromkeys(_LISTS, late.before_list) | {"tools/call": late.hold}
    call = await fake.wait_for("tools/call")
    notice: ClientMessage | None = await fake.until(lambda: late.notice)
    if notice is None:
        late.send()
        raise Skip(f"the client did not give up a call that got no response for {fake.timeouts.stimulus:g} s")
    sent = [message.id for message in fake.requests() if message.number < notice.number]
    judge_notice(fake, notice, ["CA-02", "CA-08"], given_up=call.id, sent=sent)
    # A client that continues gets the late response just before the next one; all others get it now.
    await fake.until(lambda: late.is_sent or None, fake.timeouts.brief)
    late.send()
    await fake.client_exited()
    late.judge()


class _LateResponse:
    """The response to the first call of a tool, sent after the client has given it up."""

    def __init__(self, fake: FakeServer) -> None:
        self._fake = fake
        self._call: ClientMessage | None = None  # the first call
        self._next: ClientMessage | None = None  # the call with which the client continued
        self._sent_after: int | None = None

    @property
    def notice(self) -> ClientMessage | None:
        """The cancellation of the call, not that of a subscription."""
        if (call := self._call) is None:
            return None
        ended = [message.cancellation for message in self._fake.requests("subscriptions/listen")]
        found = [message for message in self._fake.notifications(CANCELLED) if message.number > call.number]
        return next((message for message in found if message not in ended), None)

    @property
    def is_sent(self) -> bool:
        """Whether the response was sent."""
        return self._sent_after is not None

    def hold(self, message: ClientMessage) -> Any:
        """Handle calls: all but the first get their response, after the late one."""
        if self._call is None:
            self._call = message
            return SILENCE
        if not self.is_sent and self.notice is not None:
            self._next = message
            self.send()
        return None

    def before_list(self, _message: ClientMessage) -> None:
        """Handle lists: once the call was given up, the late response comes first."""
        if self.notice is not None:
            self.send()

    def send(self) -> None:
        """Send the late response, once."""
        if not self.is_sent and self._call is not None:
            self._sent_after = len(self._fake.received_lines)
            self._fake.reply(self._call, text("At last."))

    def judge(self) -> None:
        """Judge the effect of the late response, after the client has exited."""
        fake = self._fake
        complaint = _complaint(fake)
        harm = self._harm() or ("the client sent an error" if complaint is not None else "")
        continued = any(message.number >= (self._sent_after or 0) for message in fake.requests())
        for rule in ("CA-06", "CA-07"):
            if harm or continued:
                fake.expect(rule, not harm, f"after the response to a call that it had given up, {harm}", about=complaint)
            else:
                fake.skip(rule, "the client sent no more requests after it had given up a call, which is allowed")

    def _harm(self) -> str:
        # A client may call no more tools once a call has failed, so only what the late response alone can cause counts.
        fake, following = self._fake, self._next
        if fake.left_at is not None and fake.exit is not None and fake.exit.signal is not None:
            return f"the client exited with {fake.exit.describe()}"
        if following is None or fake.baseline is None or fake.was_cut_short(following.at):
            return ""
        if fake.first(after=following) is not None:
            return ""
        calls = {asked for asked in fake.baseline.asked if asked.startswith("tools/call")}
        missing = ", ".join(sorted(calls - {asked_for(message) for message in fake.requests()}))
        return f"the client continued with {asked_for(following)}, but not with {missing}" if missing else ""


def _complaint(fake: FakeServer) -> ClientMessage | None:
    return next((message for message in fake.responses() if "error" in message.members), None)


@scenario("CA-03", "CA-07", "CA-13")
async def cancels_its_own_questions(fake: FakeServer) -> None:
    """Asks several questions during a call and cancels them at once, one of them by an id of another type."""
    if fake.is_modern:
        raise Skip("in modern revisions a server has no requests of its own to cancel")
    async with open_call(fake) as call:
        question = question_for(call.connection.client_capabilities, fake.revision)
        if question is None:
            raise Skip("the client does not declare that it answers questions")
        control = await fake.ask(*question)
        if control is None or "result" not in control.members:
            raise Skip(f"the client did not answer {question[0]}")
        await _cancel_by_another_type(fake, *question)
        await _ask_and_cancel(fake, *question)
    await fake.client_exited()
    fake.expect_as_usual("CA-07", "after the server cancelled its questions")


async def _cancel_by_another_type(fake: FakeServer, method: str, params: Any) -> None:
    fake.send({"jsonrpc": "2.0", "id": UNUSED_ID, "method": method, "params": params})
    fake.connection.notify(CANCELLED, {"requestId": str(UNUSED_ID)})
    response = await fake.until(lambda: next(iter(fake.responses_to(UNUSED_ID)), None))
    why = f"{method} with the id {UNUSED_ID} got no response after a cancellation of {str(UNUSED_ID)!r}"
    fake.expect("CA-13", response is not None, why)


async def _ask_and_cancel(fake: FakeServer, method: str, params: Any) -> None:
    ids = [f"cancelled-{number}" for number in range(5)]
    for each in ids:
        fake.send({"jsonrpc": "2.0", "id": each, "method": method, "params": params})
        fake.connection.notify(CANCELLED, {"requestId": each})
    fence = await fake.ask("ping")
    if fence is None:
        raise Skip("the client does not answer a ping, so the check does not know what it has read")
    await fake.until(lambda: None, fake.timeouts.grace + _LONGER)
    responses = [message for each in ids for message in fake.responses_to(each)]
    late = next((message for message in responses if message.at > fence.at + fake.timeouts.grace), None)
    if responses and late is None:
        fake.skip("CA-03", "the client responded before it had read the cancellation")
    else:
        fake.forbid("CA-03", late, f"the client responded to {method} although the server had cancelled it")
    twice = next((each for each in ids if len(fake.responses_to(each)) > 1), None)
    fake.expect("CA-07", twice is None, f"the client responded to the cancelled {method} {twice!r} more than once")


@scenario("CA-05")
async def sends_pointless_cancellations(fake: FakeServer) -> None:
    """Cancels requests that do not exist or have ended, and sends malformed cancellations, before the list of tools."""

    def cancel(message: ClientMessage) -> None:
        if fake.first("tools/list") is message:
            odd_ids: list[Any] = [UNUSED_ID, fake.requests()[0].id, {}, None]
            for params in [None, {}, *({"requestId": each} for each in odd_ids)]:
                message.connection.notify(CANCELLED, params)

    await fake.exited_after("tools/list", cancel)
    complaint = _complaint(fake)
    harm = fake.what_differs or ("the client sent an error" if complaint is not None else "")
    fake.expect("CA-05", not harm, f"after cancellations of unknown requests and malformed ones, {harm}", about=complaint)


@scenario("CA-10")
async def cancels_a_call_of_the_client(fake: FakeServer) -> None:
    """Cancels a call, which a server may not, and then asks for a retry, which shows whether the client still waits."""

    def retry(message: ClientMessage) -> Any:
        return text("Done.") if "requestState" in message.params else {"resultType": "input_required", "requestState": "once more"}

    async def cancel_first(message: ClientMessage) -> Any:
        if "requestState" not in message.params:
            message.connection.notify(CANCELLED, {"requestId": message.id})
            await asyncio.sleep(fake.timeouts.grace)
        return retry(message)

    fake.add_tool("comes_back", retry)
    fake.add_tool("comes_back_cancelled", cancel_first)
    await fake.wait_for(lambda message: _calls(message, "comes_back", is_retry=False))
    await fake.wait_for(lambda message: _calls(message, "comes_back", is_retry=True))
    first = await fake.exited_after(lambda message: _calls(message, "comes_back_cancelled", is_retry=False))
    waited = any(_calls(message, "comes_back_cancelled", is_retry=True) for message in fake.received_lines)
    why = f"after a {CANCELLED} of the server for its call, the client ignored the response to that call"
    fake.expect("CA-10", waited, why, about=first)


def _calls(message: ClientMessage, tool: str, *, is_retry: bool) -> bool:
    return message.is_request and message.params.get("name") == tool and ("requestState" in message.params) is is_retry


@scenario("CA-11")
async def runs_a_task_forever(fake: FakeServer) -> None:
    """Never finishes a call that the client runs as a task, and observes how the client gives it up."""
    time = "2026-01-01T00:00:00Z"
    task = {"taskId": "fake-task", "status": "working", "ttl": 600000, "pollInterval": 50, "createdAt": time, "lastUpdatedAt": time}
    fake.healthy.capabilities["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
    fake.add_tool(
        "stuck",
        lambda message: {"task": task} if "task" in message.params else text("Done."),
        execution={"taskSupport": "optional"},
    )
    fake.on["tasks/get"] = lambda _message: task
    fake.on["tasks/result"] = lambda _message: SILENCE
    fake.on["tasks/cancel"] = lambda _message: {**task, "status": "cancelled"}
    await fake.client_exited()
    tasks = [message for message in fake.requests("tools/call") if "task" in message.params]
    if not tasks:
        raise Skip("the client did not run a call as a task")
    wrong = next((notice for call in tasks if (notice := call.cancellation)), None)
    if wrong is None and not fake.requests("tasks/cancel"):
        raise Skip("the client did not give up its task")
    fake.forbid("CA-11", wrong, f"the client gave up a task with {CANCELLED}")
