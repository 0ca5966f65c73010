"""Ping."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_legacy = partial(Rule, page="basic/utilities/ping", until="2025-11-25")

RULES = {
    "PI-01": _legacy(
        must="A ping is answered promptly, with an empty result",
        fix="Respond to ping with an empty object as the result.",
    ),
    "PI-02": _legacy(
        must="A ping is answered at any time: before the handshake is complete, and during a long call",
        basis="inference",
        lenient=(
            "The text permits pings before the handshake is complete, and requires a prompt response; it does not name long calls"
        ),
        partly_server="If no slow tool may be called, only a ping before the handshake is complete is tried",
        fix="Read and respond at all times: before the session is open, while a tool runs, and while you wait for a response.",
    ),
    "PI-03": _legacy(
        may="The wait for the response to a ping is bounded",
        untestable_server="It is a permission; whether a server pings, and how it treats silence, is its own choice",
        fix="Limit the wait for the response to a ping.",
    ),
    "PI-04": Rule(
        must="Modern revisions have no ping: it is not sent, and it is rejected with -32601",
        basis="schema",
        page="changelog",
        since="2026-07-28",
        fix="Serve ping only after a handshake; in modern revisions, server/discover shows whether a server is alive.",
    ),
}
