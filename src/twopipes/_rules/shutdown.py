"""Shutdown, termination, restart."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", modern_page="basic/transports/stdio")

RULES = (
    _rule(
        id="SD-01",
        level="SHOULD",
        side="client",
        title="A client ends its server by closing its stdin and waiting, then by SIGTERM and waiting, then by SIGKILL",
        lenient=(
            "How long to wait is left open: 50 ms between two steps will do. Since 2026-07-28 SIGTERM before SIGKILL is only"
            " what is usual, and who does without is let pass there"
        ),
        partly="On Windows there are no signals that a process could tell of, and nothing is tried",
    ),
    _rule(
        id="SD-02",
        level="SHOULD",
        side="server",
        title="A server exits soon after the end of its input, whatever it is doing",
        stated_since="2026-07-28",
        lenient="Before 2026-07-28 only the client is told to close the input and wait; that the server leaves then is implied",
    ),
    _rule(
        id="SD-03",
        level="MAY",
        title="A server may end by itself; what its client waits for then fails at once",
        untestable_server="It permits something; a server that stays until it is told to go is right, too",
    ),
    _rule(
        id="SD-04",
        level="SHOULD",
        side="client",
        title="A server that died is started again, though not without end",
        since=MODERN[0],
    ),
    _rule(
        id="SD-05",
        level="MAY",
        side="client",
        title="A call that was lost with its server is sent again or fails, and is never waited for in vain",
        since=MODERN[0],
    ),
    _rule(
        id="SD-06",
        level="MUST",
        basis="inference",
        side="client",
        title="A server that was started again gets a handshake before anything else",
        until=LEGACY[-1],
        lenient="It follows from the handshake that opens a session",
    ),
    _rule(
        id="SD-07",
        level="SHOULD",
        basis="inference",
        side="server",
        title="What was asked before the end of input is still answered; a reader that is gone ends the server",
        lenient=(
            "No sentence speaks of what is under way at the end, nor of a reader that is gone while stdin is still open;"
            " stderr is free, so that a traceback there is let pass"
        ),
        partly="One short answer before the end of input is tried; what a reader no longer reads cannot be looked at",
    ),
    _rule(
        id="SD-08",
        level="SHOULD",
        basis="inference",
        title="On a socket, the end of a connection ends nothing but that connection",
        untestable_client="A client cannot be told to use a socket in a way that all clients understand",
        lenient="The text leaves sockets to whoever builds on them",
    ),
)
