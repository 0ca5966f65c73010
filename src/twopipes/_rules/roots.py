"""Roots: the folders of the client that a server may use."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/roots")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "RT-01": _client(
        must="Each root has a URI that begins with file://, and optionally a name",
        fix="Give each root a uri that begins with file://, percent-encoded.",
    ),
    "RT-02": _client(
        must="A client that declares roots answers roots/list with an array of roots",
        until="2025-11-25",
        fix='Answer with {"roots": [...]}; an empty array if there are none.',
    ),
    "RT-03": _client(
        must="A client that declares roots.listChanged announces changes of its roots",
        until="2025-11-25",
        fix="Send notifications/roots/list_changed when the roots change, or do not declare roots.listChanged.",
    ),
    "RT-04": _server(
        must="Roots are requested inside a result that asks for input, and only from clients that declare them",
        since="2026-07-28",
        fix="Return input_required with roots/list in inputRequests, without an envelope, if the request declares roots.",
    ),
    "RT-05": _client(
        must="In modern revisions, changes of roots are not announced",
        basis="schema",
        since="2026-07-28",
        fix="Leave the notification out; servers ask for roots when they need them.",
    ),
}
