"""Timeouts."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_SERVERS = "Servers ask people; how long a server waits for an answer, and whether it still waits, is not visible from outside"

_rule = partial(Rule, page="basic/lifecycle", modern_page="basic/patterns/cancellation", untestable_server=_SERVERS)
_client = partial(_rule, side="client")

RULES = {
    "TO-01": _rule(should="The wait for a response is bounded", fix="Give every request a timeout."),
    "TO-02": _rule(
        should="A sender that times out cancels the request, and stops waiting",
        since="2025-03-26",
        fix="When a request times out, send notifications/cancelled with its id as requestId.",
    ),
    "TO-03": _rule(
        should="Progress may extend the wait, but not endlessly",
        # Extending the wait on progress is a MAY, which cannot be broken; the upper limit is a SHOULD.
        since="2025-03-26",
        fix="Add a limit for the whole request that progress does not extend.",
    ),
    "TO-04": _client(
        should="A subscription may stay silent; only the wait for its acknowledgement is bounded",
        basis="inference",
        since="2026-07-28",
        untestable="A client that ends a subscription does not say whether it has timed out or lost interest",
        lenient="The text requires a timeout for all requests, and listens that stay open",
    ),
}
