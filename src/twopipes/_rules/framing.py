"""Framing and streams."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/transports", modern_page="basic/transports/stdio")

RULES = (
    _rule(
        id="FR-01",
        level="MUST",
        title="Each line is one message, and nothing but a newline separates messages",
        fix="Write each message on a line of its own, with one newline behind it.",
    ),
    _rule(
        id="FR-02",
        level="MUST",
        title="A message holds no raw newline; those in strings are escaped",
        fix="Write messages with a JSON encoder that escapes control characters, and without indentation.",
    ),
    _rule(
        id="FR-03",
        level="MUST",
        title="Messages are UTF-8, without a byte order mark",
        since="2025-03-26",
        fix="Write UTF-8 without a byte order mark, whatever the locale says.",
    ),
    _rule(
        id="FR-04",
        level="MUST",
        side="server",
        title="Nothing but messages is written to stdout, from the start to the end",
        fix="Print to stderr; give libraries that print no access to file descriptor 1.",
    ),
    _rule(
        id="FR-05",
        level="MUST",
        side="client",
        title="Nothing but messages is written to the server's stdin",
        partly_client="Of what stands in messages, the params without which a request is none; the rest is for the rules of each",
        fix="Write nothing to the server's stdin but messages, with the params that their methods require.",
    ),
    _rule(
        id="FR-06",
        level="MAY",
        side="server",
        title="stderr is free for logging",
        untestable="It permits something; whatever a server does on stderr is right",
    ),
    _rule(id="FR-07", level="MAY", side="client", title="However much a server writes to stderr, the client goes on"),
    _rule(
        id="FR-08",
        level="SHOULD",
        side="client",
        title="Output on stderr is not taken for a failure",
        since="2025-11-25",
    ),
    _rule(
        id="FR-09",
        level="MUST",
        side="server",
        title="The server sends no requests on the stateless wire",
        since="2026-07-28",
        fix="Answer the call with a result of type input_required, with the question in inputRequests.",
    ),
    _rule(
        id="FR-10",
        level="MUST",
        side="client",
        title="The client sends no responses on the stateless wire",
        since="2026-07-28",
        fix="Drop requests of the server on the stateless wire; questions come as results of type input_required.",
    ),
    _rule(
        id="FR-11",
        level="SHOULD",
        title="Over a socket, the same framing is used as over stdio",
        since="2026-07-28",
        modern_page="basic/transports",
        untestable_client="A client cannot be told to use a socket in a way that all clients understand",
    ),
    _rule(
        id="FR-12",
        level="MUST",
        title="A custom transport keeps the messages and the way a conversation goes",
        modern_page="basic/transports",
        untestable_client="A client cannot be told to use a socket in a way that all clients understand",
    ),
    _rule(
        id="FR-13",
        level="MUST",
        basis="inference",
        title="Messages of any size arrive whole, however they are cut on the way, and never mixed with one another",
        lenient="No page speaks of sizes or pieces; it follows from messages that are lines of a stream",
    ),
    _rule(
        id="FR-14",
        level="MUST",
        basis="inference",
        title="Answers belong to requests by their id, not by their order",
        untestable_server="Only a server that asks two things at once could mix them up, and no call makes every server do so",
        lenient="It follows from the ids of JSON-RPC; no sentence forbids to go by the order",
    ),
    _rule(
        id="FR-15",
        level="MAY",
        basis="inference",
        title="A carriage return, blank lines and a last line without a newline are tolerated, and never sent",
        lenient="The text names the newline alone, and leaves open what else is tolerated",
        fix="End lines with a single newline, write no blank ones, and take what ends otherwise for a line as well.",
    ),
    _rule(
        id="FR-16",
        level="SHOULD",
        title="No HTTP authorization over stdio; credentials come from the environment",
        page="basic/authorization",
        modern_page="basic/authorization",
        since="2025-03-26",
        untestable="No message of the protocol carries authorization, so that its absence shows nothing",
    ),
)
