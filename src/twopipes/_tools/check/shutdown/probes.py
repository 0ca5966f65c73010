"""Shutdown and termination, from the side of a client."""

from __future__ import annotations

import re

from twopipes._channels.pipes import PipeChannel
from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.conversation import NoResponse
from twopipes._tools.check.probe import Case, probe

_SLOW_NAME = re.compile(r"slow|long|sleep|wait|delay", re.IGNORECASE)
# Requests that arrive when stdout is no longer read: at once, and one after the other.
_CROWD = 20
_REMINDERS = 10


@probe("SD-02", runs_last=True, needs="process")
async def the_end_of_input_ends_an_idle_server(case: Case) -> None:
    """The input ends while the server has nothing to do."""
    await _expect_the_end(case, "while nothing was to do")


@probe("SD-02", runs_last=True, needs=("process", "call"))
async def the_end_of_input_ends_a_server_at_work(case: Case) -> None:
    """The input ends in the middle of a call."""
    calls = case.features.safe_calls(case.permissions)
    call = min(calls, key=lambda each: not _SLOW_NAME.search(each.name))
    case.conversation.start("tools/call", call.params)
    # What is under way may be finished first.
    await _expect_the_end(case, f"during a call of {call.name}", times=2)


@probe("SD-02", revisions=MODERN, runs_last=True, needs="process")
async def the_end_of_input_ends_subscriptions(case: Case) -> None:
    """The input ends while a subscription is open."""
    conversation = case.conversation
    listening = conversation.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await conversation.wait_for(
        lambda line: line.method == "notifications/subscriptions/acknowledged" or conversation.responses_to(listening)
    )
    if conversation.responses_to(listening):
        case.give_up(f"a listen got {conversation.responses_to(listening)[0].summary}")
    await _expect_the_end(case, "while a subscription was open")


def _patience(case: Case) -> float:
    """Seconds for an end. Whoever needs long to start, on a busy machine for one, may need as long to stop."""
    opening = case.conversation.opening
    at_least: float = case.timeouts.exit
    return at_least if opening is None else max(at_least, opening.took)


async def _expect_the_end(case: Case, when: str, *, times: int = 1) -> None:
    conversation = case.conversation
    limit = _patience(case) * times
    await conversation.end_input()
    status = await conversation.exit(limit)
    fix = "Read stdin all the time, and exit when it ends: the client is gone or no longer needs the server."
    why = f"stdin was closed {when}, and {limit:.3g} s later the server was still there"
    case.expect("SD-02", status is not None, why, fix=fix)
    if status is None or conversation.child is None:
        return
    await conversation.child.wait_until_gone(limit)
    case.expect(
        "SD-02",
        conversation.child.is_gone(),
        f"stdin was closed {when}, and the process ended, but something that it had started was still there {limit:.3g} s later",
        fix="End your own children before you exit; a wrapper waits for the server behind it, or is replaced by it.",
    )


@probe("SD-07", runs_last=True, needs="process")
async def what_was_asked_is_answered_before_the_end(case: Case) -> None:
    """A request, and the end of input right behind it."""
    conversation = case.conversation
    asked = conversation.start(case.harmless)
    await conversation.end_input()
    before = conversation.position  # what is printed at the start is another matter
    came = await conversation.until(lambda: conversation.responses_to(asked) or None, case.timeouts.response)
    case.expect(
        "SD-07",
        came,
        "a request that was followed at once by the end of input got no answer",
        fix="Answer what was read before the end of input, and flush stdout, before you exit.",
    )
    await conversation.ended(_patience(case))
    noise = next((line for line in conversation.received_lines[before:] if not line.parts and line.raw.strip()), None)
    case.expect("SD-07", noise is None, "after the end of input, something that is no message was written to stdout", about=noise)


@probe("SD-07", runs_last=True, needs="process")
async def a_reader_that_is_gone_ends_the_server(case: Case) -> None:
    """Our end of its stdout is closed, while its stdin stays open and requests come. What stderr says then is let be."""
    conversation = case.conversation
    channel = conversation.channel
    if not isinstance(channel, PipeChannel) or channel.is_threaded:  # a thread would hold the pipe open
        case.give_up("only one of the two pipes is to be closed, which cannot be done here")
    channel.close_read()
    for _ in range(_CROWD):
        conversation.start(case.harmless)
    limit = _patience(case)
    status = None
    for _ in range(_REMINDERS):
        # Some wait for one more line before they can go.
        conversation.start(case.harmless)
        status = status or await conversation.exit(limit / _REMINDERS)
    case.expect(
        "SD-07",
        status is not None,
        f"the server's stdout is no longer read, requests still arrive, and {limit:.3g} s later it was still there",
        fix="Take a broken pipe for what it is, the end: exit.",
    )


@probe("SD-08", needs="socket")
async def the_end_of_one_connection_is_not_that_of_another(case: Case) -> None:
    """Of two connections one is dropped in the middle of its work."""
    other = await case.open_conversation()
    calls = case.features.safe_calls(case.permissions)
    if calls:
        other.start("tools/call", min(calls, key=lambda each: not _SLOW_NAME.search(each.name)).params)
    else:
        other.start(case.harmless)
    await other.close()
    try:
        kept = (await case.conversation.request(case.harmless)).is_result
    except NoResponse:
        kept = False
    case.expect(
        "SD-08",
        kept,
        "when one connection was dropped in the middle of its work, another one was not served any more",
        fix="Keep what belongs to a connection (requests, subscriptions, the session) with it, and end only that.",
    )
