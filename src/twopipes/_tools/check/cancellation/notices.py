"""The content of a cancellation, for both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twopipes._tools.check.messages import ClientMessage, ReceivedLine, same_id
from twopipes._tools.check.verdict import VerdictRecorder

CANCELLED = "notifications/cancelled"
UNUSED_ID = 987654


def judge_notice(
    case: VerdictRecorder, notice: ReceivedLine | ClientMessage, rules: Sequence[str], *, given_up: Any, sent: Sequence[Any]
) -> None:
    """Judge a cancellation of the request with the id ``given_up``, by a side that sent requests with the ids ``sent``.

    CA-12 and CA-01 are always judged; ``rules`` are those that allow cancelling only what was sent.
    """
    named, reason = notice.params.get("requestId"), notice.params.get("reason", "")
    is_id = isinstance(named, str | int) and not isinstance(named, bool)
    case.expect("CA-12", is_id, f"the requestId of a {CANCELLED} is {named!r}", about=notice)
    was_sent = any(same_id(named, each) for each in sent)
    for rule in rules:
        case.expect(rule, was_sent, f"a {CANCELLED} names {named!r}; the requests sent were {sent!r}", about=notice)
    why = f"the request {given_up!r} was given up by a {CANCELLED} for {named!r}, with the reason {reason!r}"
    case.expect("CA-01", same_id(named, given_up) and isinstance(reason, str), why, about=notice)
