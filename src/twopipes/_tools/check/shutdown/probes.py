"""Shutdown and termination, from the side of a client."""

from __future__ import annotations

import re

from twopipes._channels.pipes import PipeChannel
from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.conversation import Unanswered
from twopipes._tools.check.probe import Case, probe

_SLOW_NAME = re.compile(r"slow|long|sleep|wait|delay", re.IGNORECASE)
# Requests that come when nobody reads any more: at once, and one after the other.
_CROWD = 20
_REMINDERS = 10


@probe("SD-02", last=True, needs="process")
async def the_end_of_input_ends_an_idle_server(case: Case) -> None:
    """The input ends while the server has nothing to do."""
    await _expect_the_end(case, "while nothing was to do")


@probe("SD-02", last=True, needs=("process", "call"))
async def the_end_of_input_ends_a_server_at_work(case: Case) -> None:
    """The input ends in the middle of a call."""
    calls = case.features.safe_calls(case.permissions)
    call = min(calls, key=lambda each: not _SLOW_NAME.search(each.name))
    case.talk.start("tools/call", call.params)
    # What is under way may be finished first.
    await _expect_the_end(case, f"during a call of {call.name}", times=2)


@probe("SD-02", revisions=MODERN, last=True, needs="process")
async def the_end_of_input_ends_subscriptions(case: Case) -> None:
    """The input ends while a subscription is open."""
    talk = case.talk
    listening = talk.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    await talk.heard(lambda heard: heard.method == "notifications/subscriptions/acknowledged" or talk.answers_to(listening))
    if talk.answers_to(listening):
        case.give_up(f"a listen got {talk.answers_to(listening)[0].told}")
    await _expect_the_end(case, "while a subscription was open")


def _patience(case: Case) -> float:
    """Seconds for an end. Whoever needs long to start, on a busy machine for one, may need as long to stop."""
    opening = case.talk.opening
    at_least: float = case.waits.exit
    return at_least if opening is None else max(at_least, opening.took)


async def _expect_the_end(case: Case, when: str, *, times: int = 1) -> None:
    talk = case.talk
    limit = _patience(case) * times
    await talk.end_input()
    status = await talk.exit(limit)
    mend = "Read stdin all the time, and exit when it ends: whoever launched the server is gone or does not want it any more."
    why = f"stdin was closed {when}, and {limit:.3g} s later the server was still there"
    case.expect("SD-02", status is not None, why, mend=mend)
    if status is None or talk.child is None:
        return
    await talk.child.wait_until_gone(limit)
    case.expect(
        "SD-02",
        talk.child.is_gone(),
        f"stdin was closed {when}, and the process ended, but something that it had started was still there {limit:.3g} s later",
        mend="End your own children before you exit; a wrapper waits for the server behind it, or is replaced by it.",
    )


@probe("SD-07", last=True, needs="process")
async def what_was_asked_is_answered_before_the_end(case: Case) -> None:
    """A request, and the end of input right behind it."""
    talk = case.talk
    asked = talk.start(case.harmless)
    await talk.end_input()
    before = talk.position  # what is printed at the start is another matter
    came = await talk.until(lambda: talk.answers_to(asked) or None, case.waits.answer)
    case.expect(
        "SD-07",
        came,
        "a request that was followed at once by the end of input got no answer",
        mend="Answer what was read before the end of input, and flush stdout, before you exit.",
    )
    await talk.ended(_patience(case))
    noise = next((heard for heard in talk.heard_lines[before:] if not heard.parts and heard.line.strip()), None)
    case.expect("SD-07", noise is None, "after the end of input, something that is no message was written to stdout", about=noise)


@probe("SD-07", last=True, needs="process")
async def a_reader_that_is_gone_ends_the_server(case: Case) -> None:
    """Our end of its stdout is closed, while its stdin stays open and requests come. What stderr says then is let be."""
    talk = case.talk
    channel = talk.channel
    if not isinstance(channel, PipeChannel) or channel.is_threaded:  # a thread would hold the pipe open
        case.give_up("only one of the two pipes is to be closed, which cannot be done here")
    channel.close_read()
    for _ in range(_CROWD):
        talk.start(case.harmless)
    limit = _patience(case)
    status = None
    for _ in range(_REMINDERS):
        # Some wait for one more line before they can go.
        talk.start(case.harmless)
        status = status or await talk.exit(limit / _REMINDERS)
    case.expect(
        "SD-07",
        status is not None,
        f"nobody reads the server's stdout any more, though it is still asked, and {limit:.3g} s later it was still there",
        mend="Take a broken pipe for what it is, the end: exit.",
    )


@probe("SD-08", needs="socket")
async def the_end_of_one_connection_is_not_that_of_another(case: Case) -> None:
    """Of two connections one is dropped in the middle of its work."""
    other = await case.fresh_talk()
    calls = case.features.safe_calls(case.permissions)
    if calls:
        other.start("tools/call", min(calls, key=lambda each: not _SLOW_NAME.search(each.name)).params)
    else:
        other.start(case.harmless)
    await other.close()
    try:
        kept = (await case.talk.request(case.harmless)).is_result
    except Unanswered:
        kept = False
    case.expect(
        "SD-08",
        kept,
        "when one connection was dropped in the middle of its work, another one was not served any more",
        mend="Keep what belongs to a connection (requests, subscriptions, the session) with it, and end only that.",
    )
