"""Shutdown of servers."""

from __future__ import annotations

from twopipes._channels.pipes import PipeChannel
from twopipes._protocol.revisions import MODERN
from twopipes._tools.check.probe import Case, probe
from twopipes._tools.check.setups import SLOW_NAME, listening

# Requests that arrive when stdout is no longer read: at once, and one after the other.
_CROWD = 20
_REMINDERS = 10


@probe("SD-02", runs_last=True, needs="process")
async def the_end_of_input_ends_an_idle_server(case: Case) -> None:
    """The input ends while the server is idle."""
    await _judge_exit(case, "while the server was idle")


@probe("SD-02", runs_last=True, needs=("process", "call"))
async def the_end_of_input_ends_a_busy_server(case: Case) -> None:
    """The input ends during a call."""
    call = min(case.safe_calls, key=lambda each: not SLOW_NAME.search(each.name))
    case.conversation.start("tools/call", call.params)
    await _judge_exit(case, f"during a call of {call.name}", times=2)  # the server may finish the call


@probe("SD-02", revisions=MODERN, runs_last=True, needs="process")
async def the_end_of_input_ends_subscriptions(case: Case) -> None:
    """The input ends while a subscription is open."""
    await listening(case.conversation, {"toolsListChanged": True})
    await _judge_exit(case, "while a subscription was open")


def _patience(case: Case) -> float:
    """Return the seconds to wait for an exit: a server that starts slowly may also stop slowly."""
    opening = case.conversation.opening
    at_least: float = case.timeouts.exit
    return at_least if opening is None else max(at_least, opening.took)


async def _judge_exit(case: Case, when: str, *, times: int = 1) -> None:
    conversation = case.conversation
    limit = _patience(case) * times
    await conversation.end_input()
    status = await conversation.exit(limit)
    case.expect("SD-02", status is not None, f"stdin was closed {when}, and the server was still running {limit:.3g} s later")
    if status is not None and conversation.child is not None:
        await conversation.child.wait_until_gone(limit)
        why = f"stdin was closed {when}, and a process that the server had started was still running {limit:.3g} s after it"
        case.expect("SD-02", conversation.child.is_gone(), why)


@probe("SD-07", runs_last=True, needs="process")
async def requests_before_the_end_get_a_response(case: Case) -> None:
    """A request is followed at once by the end of input."""
    conversation = case.conversation
    request_id = conversation.start(case.harmless)
    await conversation.end_input()
    since = conversation.position  # what is printed at the start is another matter
    response = await conversation.awaited(request_id)
    case.expect("SD-07", response, "a request that was followed at once by the end of input got no response")
    await conversation.ended(_patience(case))
    noise = [line for line in conversation.received_lines[since:] if not line.parts and line.raw.strip()]
    case.forbid("SD-07", noise, "after the end of input, the server wrote something that is not a message to stdout")


@probe("SD-07", runs_last=True, needs="process")
async def a_server_without_a_reader_exits(case: Case) -> None:
    """Its stdout is closed, while stdin stays open and requests arrive. Its stderr is not judged."""
    conversation = case.conversation
    channel = conversation.channel
    if not isinstance(channel, PipeChannel) or channel.is_threaded:  # a thread would hold the pipe open
        case.give_up("the check cannot close only one of the two pipes here")
    channel.close_read()
    for _ in range(_CROWD):
        conversation.start(case.harmless)
    limit = _patience(case)
    status = None
    for _ in range(_REMINDERS):
        conversation.start(case.harmless)  # some servers notice only at the next line
        status = status or await conversation.exit(limit / _REMINDERS)
    why = f"the server's stdout is no longer read, requests still arrive, and {limit:.3g} s later it was still running"
    case.expect("SD-07", status is not None, why)


@probe("SD-08", needs="socket")
async def the_end_of_a_connection_ends_only_that(case: Case) -> None:
    """One of two connections is dropped while it is in use."""
    other = await case.open_conversation()
    calls = sorted(case.safe_calls, key=lambda each: not SLOW_NAME.search(each.name))
    other.start(*(("tools/call", calls[0].params) if calls else (case.harmless,)))
    await other.close()
    response = await case.conversation.try_request(case.harmless)
    case.expect("SD-08", response.is_result, f"after the end of another connection, a request got {response.summary}")
