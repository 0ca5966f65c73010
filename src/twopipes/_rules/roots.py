"""Roots: the places of the client's file system that a server may look at."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="client/roots")

RULES = (
    _rule(
        id="RT-01",
        level="MUST",
        side="client",
        title="Each root has a URI that begins with file://, and perhaps a name",
        fix="Give each root a uri that begins with file://.",
    ),
    _rule(
        id="RT-02",
        level="MUST",
        side="client",
        title="A client that declares roots answers roots/list with an array of them",
        until="2025-11-25",
    ),
    _rule(
        id="RT-03",
        level="MUST",
        side="client",
        title="A client that declares roots.listChanged says so when its roots change",
        until="2025-11-25",
    ),
    _rule(
        id="RT-04",
        level="MUST",
        side="server",
        title="Roots are asked for inside of a result that asks for input, and only of clients that have them",
        since="2026-07-28",
    ),
    _rule(
        id="RT-05",
        level="MUST",
        side="client",
        basis="schema",
        title="Changed roots are not told on the stateless wire",
        since="2026-07-28",
    ),
)
