"""Logging."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, side="server", page="server/utilities/logging")

RULES = {
    "LG-01": _rule(
        must="A server that sends log messages declares logging",
        fix="Declare logging, or send no log messages.",
    ),
    "LG-02": _rule(
        must="A log message has one of the eight levels and data; logger, if present, is a string",
        basis="schema",
        fix="Give a log message a level (debug to emergency) and data; logger is a string.",
    ),
    "LG-03": _rule(
        may="logging/setLevel sets the minimum level of the session, and has an empty result",
        side="both",
        until=LEGACY[-1],
        partly_server="Two of the eight levels are set, with a tool that logs below the higher one",
        untestable_client="It is a permission; a client that never sets a level is correct, too",
        fix="Respond to logging/setLevel with an empty object, and compare each message with the level that was set last.",
    ),
    "LG-04": _rule(
        should="An unknown level is rejected with -32602",
        until=LEGACY[-1],
        fix="Respond with -32602 to a level that is not one of the eight.",
    ),
    "LG-05": _rule(
        must="No log messages are sent for a request that did not ask for them",
        since=MODERN[0],
        fix="Send log messages for a request only if its _meta asks for them.",
    ),
    "LG-06": _rule(
        may="Log messages for a request have at least the requested level, and come before its response",
        since=MODERN[0],
        fix="Compare the level of each message with that of its request, and send it before the response or not at all.",
    ),
    "LG-07": _rule(
        must="Log messages belong to the request that asked for them, never to a subscription or to another request",
        since=MODERN[0],
        lenient=(
            "One channel has no separate stream for each request: calls are made one at a time, so that the owner of a"
            " message is clear"
        ),
        fix="Send a log message while the request that asked for it is open, and without the id of a subscription.",
    ),
    "LG-08": _rule(
        should="A request that asks for an unknown log level is rejected with -32602",
        since=MODERN[0],
        fix="Respond with -32602 before the tool is called.",
    ),
    "LG-09": _rule(
        must="logging/setLevel no longer exists: a server responds with -32601, a client does not send it",
        basis="schema",
        side="both",
        since=MODERN[0],
        fix="Put the log level into the _meta of a request; a server responds to logging/setLevel with -32601.",
    ),
    "LG-10": _rule(
        must="Log messages contain no secrets of the server",
        partly="Only values of environment variables whose names mean secrets; personal data and rates are not judged",
        fix="Do not log values from the environment, or redact them.",
    ),
}
