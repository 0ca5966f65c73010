"""Statelessness."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic", since="2026-07-28")

RULES = (
    _rule(
        id="ST-01",
        level="MUST",
        side="server",
        title="Each request is served by its own content, not by what earlier requests on the connection contained",
    ),
    _rule(
        id="ST-02",
        level="SHOULD",
        side="server",
        title="Unrelated requests may be mixed on a connection, without harm to any of them",
    ),
    _rule(
        id="ST-03",
        level="SHOULD",
        side="server",
        title="A question of one process may be answered to another process of the same server",
    ),
    _rule(
        id="ST-04",
        level="SHOULD",
        side="client",
        title="One process serves many requests of the client; it is not started for each one",
        partly="A run of the client is one conversation; whether a second one would share its process is not visible",
    ),
    _rule(
        id="ST-05",
        level="MUST",
        side="server",
        page="server/tools",
        title=("The lists of tools, prompts and resources are the same on every connection, whatever was requested there before"),
    ),
    _rule(
        id="ST-06",
        level="MUST",
        side="server",
        page="server/tools",
        title="A server that declares tools, prompts or resources answers the list request, even if the list is empty",
        lenient="The page asks for a response: an error other than -32601 (Method not found) is accepted",
        fix="Answer the list request of each feature that you declare, with an empty list if there is nothing in it.",
    ),
)
