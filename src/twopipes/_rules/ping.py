"""Ping."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_legacy = partial(Rule, page="basic/utilities/ping", until="2025-11-25")

RULES = (
    _legacy(
        id="PI-01",
        level="MUST",
        title="A ping is answered at once, with an empty result",
        fix="Answer ping with an empty object as the result.",
    ),
    _legacy(
        id="PI-02",
        level="MUST",
        basis="inference",
        title="A ping is answered at any time: before the handshake is complete, and while something long goes on",
        lenient=(
            "The text permits pings before the handshake is complete, and wants a prompt answer; it does not speak of long calls"
        ),
        partly_server="Where no tool that may be called takes its time, only a ping before the handshake is complete is tried",
    ),
    _legacy(
        id="PI-03",
        level="MAY",
        title="A ping without an answer is not waited for without an end",
        untestable_server="It permits something; whether a server pings, and what it makes of silence, is its own business",
    ),
    Rule(
        id="PI-04",
        level="MUST",
        basis="schema",
        title="There is no ping on the stateless wire: nobody sends it, and the answer to it is -32601",
        page="changelog",
        since="2026-07-28",
        fix="Leave ping out on the stateless wire; server/discover tells as well whether a server is alive.",
    ),
)
