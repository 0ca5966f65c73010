"""Timeouts of clients."""

from __future__ import annotations

import asyncio
from typing import Any

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.healthy_responses import SILENCE
from twopipes._tools.check.messages import ClientMessage
from twopipes._tools.check.scenario import scenario

# Seconds to watch a client that waits, if its own limit is not known.
_LONGEST = 15.0


@scenario("TO-01", "TO-02", transport="stream", judged=False)
async def never_answers_a_call(fake: FakeServer) -> None:
    """The first call of a tool gets no response; everything else does."""
    fake.on["tools/call"] = lambda message: SILENCE if fake.first("tools/call") is message else None
    call = await fake.wait_for("tools/call")
    if not await gives_up(fake, "TO-01", call):
        fake.skip("TO-02", "the client did not give up the call while it was watched")
        return
    await fake.client_exited()
    if call.cancellation is None and fake.what_differs:
        fake.give_up("the client ended the connection, which ends all its requests")
    fake.expect("TO-02", call.cancellation, "the client continued without a response, and did not cancel the call", about=call)


@scenario("TO-03", judged=False)
async def reports_progress_endlessly(fake: FakeServer) -> None:
    """The first call that asks for progress gets it endlessly, and never a response."""
    watched: list[ClientMessage] = []

    async def report(message: ClientMessage) -> Any:
        if watched or "progressToken" not in message.meta:
            return None
        watched.append(message)
        step = 0
        while not message.connection.is_over and message.cancellation is None:
            step += 1
            params = {"progressToken": message.meta["progressToken"], "progress": step}
            message.connection.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await asyncio.sleep(fake.timeouts.grace)
        return SILENCE

    fake.on["tools/call"] = report
    await fake.wait_for("tools/call")
    call = await fake.until(lambda: watched[0] if watched else None)
    if call is None:
        fake.give_up("the client does not ask for progress")
    await gives_up(fake, "TO-03", call)
    await fake.client_exited()


async def gives_up(fake: FakeServer, rule: str, request: ClientMessage) -> bool:
    """Judge a rule by whether the client stops waiting for a request: cancels it, or ends the connection or itself.

    A client that still waits breaks the rule only if its own limit is known. It gets its response then.
    """
    limit = fake.timeouts.limit
    within = min(fake.timeouts.stimulus / 2, _LONGEST) + (limit or 0.0)
    found = await fake.until(lambda: _has_stopped(fake, request) or None, within)
    # A client that the check ended has not given up.
    stopped = found is not None or fake.left_at is not None
    if stopped or limit is not None:
        why = f"the client has a limit of {limit or 0:g} s, and still waited for {request.method} after {within:g} s"
        fake.expect(rule, stopped, why, about=request)
    else:
        fake.skip(rule, f"the client still waited after {within:g} s; give its own limit with --gives-up-after")
    if not stopped:
        fake.reply(request, fake.healthy.response(request.method or "", request.params, is_modern=request.is_modern))
    return stopped


def _has_stopped(fake: FakeServer, request: ClientMessage) -> bool:
    ended = request.connection.input_ended_at
    return request.cancellation is not None or (ended is not None and ended < fake.timeouts.client)
