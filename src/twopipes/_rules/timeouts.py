"""Timeouts."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_SERVERS = "Servers ask people; how long one waits for the answer, and whether it still does, cannot be seen from outside"

_rule = partial(Rule, page="basic/lifecycle", modern_page="basic/patterns/cancellation", untestable_server=_SERVERS)

RULES = (
    _rule(id="TO-01", level="SHOULD", title="No request is waited for without an end"),
    _rule(
        id="TO-02",
        level="SHOULD",
        title="Whoever has waited long enough cancels the request, and waits no more",
        since="2025-03-26",
    ),
    _rule(
        id="TO-03",
        # That progress prolongs the wait is a MAY, which nobody can break; the end of all patience is a SHOULD.
        level="SHOULD",
        title="Progress may prolong the wait, but not without an end",
        since="2025-03-26",
    ),
    _rule(
        id="TO-04",
        level="SHOULD",
        basis="inference",
        side="client",
        title="A subscription may stay silent for as long as it likes; only its acknowledgement is waited for with an end",
        since="2026-07-28",
        untestable="A client that ends a subscription does not say whether it has heard enough or waited too long",
        lenient="The text wants a timeout for all requests, and listens that stay open",
    ),
)
