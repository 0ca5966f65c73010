"""Logging."""

from __future__ import annotations

from functools import partial

from twopipes._protocol.revisions import LEGACY, MODERN
from twopipes._rules.rule import Rule

_rule = partial(Rule, side="server", page="server/utilities/logging")

RULES = (
    _rule(
        id="LG-01",
        level="MUST",
        title="A server that sends log messages has declared logging",
        fix="Declare logging, or send no log messages.",
    ),
    _rule(
        id="LG-02",
        level="MUST",
        basis="schema",
        title="A log message has one of the eight levels and some data; the name of its logger, if there is one, is a string",
        fix="Give a log message a level (debug to emergency) and data, and a text for its logger.",
    ),
    _rule(
        id="LG-03",
        level="MAY",
        side="both",
        title="logging/setLevel sets the least level of the session, and is answered with an empty result",
        until=LEGACY[-1],
        partly_server="Two of the eight levels are set, with a tool that logs below the higher one",
        untestable_client="It permits something; a client that never chooses a level is right, too",
    ),
    _rule(id="LG-04", level="SHOULD", title="A level that does not exist is refused with -32602", until=LEGACY[-1]),
    _rule(
        id="LG-05",
        level="MUST",
        title="Nothing is logged for a request that did not ask for log messages",
        since=MODERN[0],
        fix="Send log messages for a request only if its _meta asks for them.",
    ),
    _rule(
        id="LG-06",
        level="MAY",
        title="What is logged for a request has at least the level it asked for, and comes before its answer",
        since=MODERN[0],
    ),
    _rule(
        id="LG-07",
        level="MUST",
        title="Log messages belong to the request that asked for them, never to a subscription or to another request",
        since=MODERN[0],
        lenient=(
            "One channel has no stream for each request: calls are made one at a time, so that it is clear where a message belongs"
        ),
        fix="Send a log message while the request that asked for it is open, and without the id of a subscription.",
    ),
    _rule(
        id="LG-08",
        level="SHOULD",
        title="A request for a log level that does not exist is refused with -32602",
        since=MODERN[0],
    ),
    _rule(
        id="LG-09",
        level="MUST",
        basis="schema",
        side="both",
        title="There is no logging/setLevel any more: a server answers -32601, a client does not send it",
        since=MODERN[0],
        fix="Ask for log messages by the log level in the _meta of a request.",
    ),
    _rule(
        id="LG-10",
        level="MUST",
        title="No secret of the server stands in its log messages",
        partly="Only values of environment variables that are called like secrets; personal data and rates are not judged",
    ),
)
