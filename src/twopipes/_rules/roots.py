"""Roots: the folders of the client that a server may use."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/roots")

RULES = (
    _rule(
        id="RT-01",
        level="MUST",
        side="client",
        title="Each root has a URI that begins with file://, and optionally a name",
        fix="Give each root a uri that begins with file://, percent-encoded.",
    ),
    _rule(
        id="RT-02",
        level="MUST",
        side="client",
        title="A client that declares roots answers roots/list with an array of roots",
        until="2025-11-25",
        fix='Answer with {"roots": [...]}; an empty array if there are none.',
    ),
    _rule(
        id="RT-03",
        level="MUST",
        side="client",
        title="A client that declares roots.listChanged announces changes of its roots",
        until="2025-11-25",
        fix="Send notifications/roots/list_changed when the roots change, or do not declare roots.listChanged.",
    ),
    _rule(
        id="RT-04",
        level="MUST",
        side="server",
        title="Roots are requested inside a result that asks for input, and only from clients that declare them",
        since="2026-07-28",
        fix="Return input_required with roots/list in inputRequests, without an envelope, if the request declares roots.",
    ),
    _rule(
        id="RT-05",
        level="MUST",
        side="client",
        basis="schema",
        title="In modern revisions, changes of roots are not announced",
        since="2026-07-28",
        fix="Leave the notification out; servers ask for roots when they need them.",
    ),
)
