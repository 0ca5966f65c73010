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
        title="Each request is served by what it says itself, and by nothing that an earlier one on the same connection said",
    ),
    _rule(
        id="ST-02",
        level="SHOULD",
        side="server",
        title="Requests that have nothing to do with one another may be mixed on a connection, without harm to any of them",
    ),
    _rule(
        id="ST-03",
        level="SHOULD",
        side="server",
        title="A question that one process asked may be answered to another process of the same server",
    ),
    _rule(
        id="ST-04",
        level="SHOULD",
        side="client",
        title="One process serves many requests of the client; it is not started for each of them",
        partly="A run of the client is one conversation; whether a second one would share its process is not seen",
    ),
    _rule(
        id="ST-05",
        level="MUST",
        side="server",
        page="server/tools",
        title="The lists of tools, prompts and resources are the same on every connection, whatever was asked there before",
    ),
    _rule(
        id="ST-06",
        level="MUST",
        side="server",
        page="server/tools",
        title="Whoever declares tools, prompts or resources answers the request for their list, be it with an empty one",
        lenient="The page asks for a response: an error other than -32601 (Method not found) is let pass",
        fix="Answer the request for each list that you declare, with an empty one if there is nothing in it.",
    ),
)
