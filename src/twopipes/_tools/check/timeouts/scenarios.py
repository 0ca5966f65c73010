"""Timeouts: a server that does not answer, and one that always says that it will."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._tools.check.fake_server import ClientMessage, FakeServer, scenario
from twopipes._tools.check.healthy_responses import SILENCE

__all__ = ["gives_up"]

# Seconds. However patient the check is: a client whose own request waits does not wait for ever, and nobody wants to look on.
_LONG = 15.0


@scenario("TO-01", "TO-02", name="never-answers-a-call", judged=False)
async def never_answers_a_call(fake: FakeServer) -> None:
    """The first call of a tool is never answered; everything else is."""
    fake.on["tools/call"] = _only_the_first(fake, lambda _said: SILENCE)
    call = await fake.wait_for("tools/call")
    if not await gives_up(fake, "TO-01", call):
        fake.skip("TO-02", "the client did not give the call up while it was watched")
        return
    await fake.client_exited()
    cancelled = _cancel_of(fake, call)
    if cancelled is None and fake.what_differs:
        fake.give_up("the client ended the connection, which ends all that was asked over it")
    fake.expect(
        "TO-02",
        cancelled is not None,
        "the client went on without the answer to a call, and did not cancel that",
        fix="When the time of a request is over, send notifications/cancelled with its id as requestId.",
        about=call,
    )


@scenario("TO-03", name="reports-progress-for-ever", judged=False)
async def reports_progress_for_ever(fake: FakeServer) -> None:
    """The first call that wants progress gets it, more and more, and never an answer."""

    async def go_on(message: ClientMessage) -> Any:
        step = 0
        while not message.connection.is_over and _cancel_of(fake, message) is None:
            step += 1
            told = {"progressToken": message.meta["progressToken"], "progress": step}
            message.connection.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})
            await asyncio.sleep(fake.timeouts.grace)
        return SILENCE

    begun: list[ClientMessage] = []

    def work(message: ClientMessage) -> Any:
        if begun or "progressToken" not in message.meta:
            return None
        begun.append(message)
        return go_on(message)

    fake.on["tools/call"] = work
    await fake.wait_for("tools/call")
    call = await fake.until(lambda: begun[0] if begun else None)
    if call is None:
        fake.give_up("the client does not ask for progress")
    await gives_up(fake, "TO-03", call)
    await fake.client_exited()


async def gives_up(fake: FakeServer, rule: str, request: ClientMessage) -> bool:
    """Waits until the client stops waiting for a request: cancels it, or ends the connection or itself. Judges a rule by that.

    A client that is still waiting then breaks the rule only if it is known how long it is set to wait at most. In any case it gets
    its answer then.
    """
    limit = fake.timeouts.limit
    within = min(fake.timeouts.stimulus / 2, _LONG) + (limit or 0.0)
    came = await fake.until(lambda: _stopped(fake, request), within)
    # A client that was ended by us at the end of our patience has not given up.
    stopped = came is not None or fake.left_at is not None
    if stopped or limit is not None:
        fake.expect(
            rule,
            stopped,
            f"the client is set to wait for {limit or 0:g} s at most, and still waited for {request.method} after {within:g} s",
            fix="Give every request a time limit, and one over all that progress does not prolong.",
            about=request,
        )
    if not stopped and limit is None:
        fake.skip(rule, f"the client still waited after {within:g} s; say by --gives-up-after how long it is set to wait at most")
    if not stopped:
        fake.reply(request, fake.healthy.response(request.method or "", request.params, is_modern=request.is_modern))
    return stopped


def _stopped(fake: FakeServer, request: ClientMessage) -> bool | None:
    if _cancel_of(fake, request) is not None:
        return True
    ended = request.connection.input_ended_at
    return True if ended is not None and ended < fake.timeouts.client else None


def _cancel_of(fake: FakeServer, request: ClientMessage) -> ClientMessage | None:
    cancels = fake.notifications("notifications/cancelled")
    return next((message for message in cancels if message.params.get("requestId") == request.id), None)


def _only_the_first(fake: FakeServer, response: Any) -> Any:
    def handle(message: ClientMessage) -> Any:
        return response(message) if fake.requests(message.method)[0] is message else None

    return handle
