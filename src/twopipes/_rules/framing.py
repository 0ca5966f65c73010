"""Framing and streams."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/transports", modern_page="basic/transports/stdio")

RULES = (
    _rule(
        id="FR-01",
        level="MUST",
        title="Each line is one message, and only newlines separate messages",
        fix="Write each message on its own line, followed by one newline.",
    ),
    _rule(
        id="FR-02",
        level="MUST",
        title="A message contains no raw newline; newlines in strings are escaped",
        fix="Write messages with a JSON encoder that escapes control characters, without indentation.",
    ),
    _rule(
        id="FR-03",
        level="MUST",
        title="Messages are UTF-8, without a byte order mark",
        since="2025-03-26",
        fix="Write UTF-8 without a byte order mark, whatever the locale is.",
    ),
    _rule(
        id="FR-04",
        level="MUST",
        side="server",
        title="Only messages are written to stdout, from start to exit",
        fix="Print to stderr, and keep libraries that print away from file descriptor 1.",
    ),
    _rule(
        id="FR-05",
        level="MUST",
        side="client",
        title="Only messages are written to the server's stdin",
        partly_client=(
            "Of the content of messages, only the params that a request requires; the rest belongs to the rules of each feature"
        ),
        fix="Write only messages to the server's stdin, with the params that their methods require.",
    ),
    _rule(
        id="FR-06",
        level="MAY",
        side="server",
        title="stderr is free for logging",
        untestable="It is a permission; anything a server does on stderr is correct",
    ),
    _rule(
        id="FR-07",
        level="MAY",
        side="client",
        title="The client continues, however much the server writes to stderr",
        fix="Read the server's stderr all the time, or discard it: a full pipe stops the server.",
    ),
    _rule(
        id="FR-08",
        level="SHOULD",
        side="client",
        title="Output on stderr is not treated as a failure",
        since="2025-11-25",
        fix="Judge a server by its responses and its exit, not by its logs.",
    ),
    _rule(
        id="FR-09",
        level="MUST",
        side="server",
        title="A server sends no requests in modern revisions",
        since="2026-07-28",
        fix="Return a result of type input_required, with the question in inputRequests.",
    ),
    _rule(
        id="FR-10",
        level="MUST",
        side="client",
        title="A client sends no responses in modern revisions",
        since="2026-07-28",
        fix="Drop requests from a modern server; its questions come as results of type input_required.",
    ),
    _rule(
        id="FR-11",
        level="SHOULD",
        title="Sockets use the same framing as stdio",
        since="2026-07-28",
        modern_page="basic/transports",
        untestable_client="There is no general way to make a client use a socket",
        fix="Read a socket like stdin: collect bytes until a newline.",
    ),
    _rule(
        id="FR-12",
        level="MUST",
        title="A custom transport keeps the message format and the order of a conversation",
        modern_page="basic/transports",
        untestable_client="There is no general way to make a client use a socket",
        fix="Read a socket like stdin: collect bytes until a newline.",
    ),
    _rule(
        id="FR-13",
        level="MUST",
        basis="inference",
        title="Messages of any size arrive complete, however they are split on the way, and are never interleaved",
        lenient="No page speaks of sizes or chunks; it follows from messages being lines of a stream",
        fix=(
            "Collect bytes until a newline, of any length, or reject the one line that is too long; if a pipe is full, wait,"
            " and write the rest of the line before the next one."
        ),
    ),
    _rule(
        id="FR-14",
        level="MUST",
        basis="inference",
        title="Responses are matched to requests by id, not by order",
        untestable_server="Only a server that sends two requests at once could confuse them, and no call makes every server do so",
        lenient="It follows from the ids of JSON-RPC; no sentence forbids matching by order",
        fix="Look up the request by the id of the response; drop responses without a request.",
    ),
    _rule(
        id="FR-15",
        level="MAY",
        basis="inference",
        title="A carriage return, blank lines and a last line without a newline are tolerated, and never sent",
        lenient="The text names only the newline, and does not say what else is tolerated",
        fix="End lines with a single newline, also the last one, and write no blank lines; accept other line ends when reading.",
    ),
    _rule(
        id="FR-16",
        level="SHOULD",
        title="HTTP authorization is not used over stdio; credentials come from the environment",
        page="basic/authorization",
        modern_page="basic/authorization",
        since="2025-03-26",
        untestable="No message of the protocol carries authorization, so its absence shows nothing",
    ),
)
