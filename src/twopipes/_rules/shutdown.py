"""Shutdown, termination, restart."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/lifecycle", modern_page="basic/transports/stdio")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "SD-01": _client(
        should="A client ends its server by closing its stdin and waiting, then by SIGTERM and waiting, then by SIGKILL",
        lenient=(
            "The text does not say how long to wait: 50 ms between two steps are enough. Since 2026-07-28 SIGTERM before"
            " SIGKILL is only typical, and a client without it is accepted there"
        ),
        partly="Windows has no signals that a process could report, so nothing is tried there",
        fix="Close the server's stdin, and wait a second or two for it to exit; then SIGTERM, another wait, and SIGKILL.",
    ),
    "SD-02": _server(
        should="A server exits soon after the end of its input, whatever it is doing",
        stated_since="2026-07-28",
        lenient=(
            "Before 2026-07-28 only the client is required to close the input and wait; that the server then exits is implied"
        ),
        fix="Read stdin at all times. When it ends, end your own children and exit; a wrapper waits for the server it started.",
    ),
    "SD-03": _rule(
        may="A server may exit by itself; open requests of the client then fail at once",
        untestable_server="It is a permission; a server that stays until it is stopped is correct, too",
        fix="When the server's stdout ends, let every request fail that waits for a response from it.",
    ),
    "SD-04": _client(
        should="A server that died is started again, but not endlessly",
        since=MODERN[0],
        fix="Start the server again, with a longer wait before each start, and give up after a few.",
    ),
    "SD-05": _client(
        may="A call that was lost with its server is sent again or fails; it does not hang",
        since=MODERN[0],
        fix="Send the call again to a new server, or report that it was lost.",
    ),
    "SD-06": _client(
        must="A restarted server gets a handshake before anything else",
        basis="inference",
        until=LEGACY[-1],
        lenient="It follows from the handshake that opens a session",
        fix="Begin with initialize (or the probe): the session has ended with the process.",
    ),
    "SD-07": _server(
        should="Requests from before the end of input still get a response; a server whose reader is gone exits",
        basis="inference",
        lenient=(
            "No sentence speaks of open requests at the end, nor of a reader that is gone while stdin is still open; stderr"
            " is free, so a traceback there is accepted"
        ),
        partly="One short response before the end of input is tried; what a closed reader does not read is not visible",
        fix="Respond to everything that was read before the end of input, and flush stdout; exit on a broken pipe.",
    ),
    "SD-08": _rule(
        should="On a socket, the end of a connection ends only that connection",
        basis="inference",
        untestable_client="There is no general way to make a client use a socket",
        lenient="The text leaves sockets to implementers",
        fix="Keep requests, subscriptions and the session with their connection, and end only these.",
    ),
}
