"""Framing and streams."""

from __future__ import annotations

from functools import partial

from twopipes._rules.rule import Rule

_rule = partial(Rule, page="basic/transports", modern_page="basic/transports/stdio")
_server = partial(_rule, side="server")
_client = partial(_rule, side="client")

RULES = {
    "FR-01": _rule(
        must="Each line is one message, and only newlines separate messages",
        fix="Write each message on its own line, followed by one newline.",
    ),
    "FR-02": _rule(
        must="A message contains no raw newline; newlines in strings are escaped",
        fix="Write messages with a JSON encoder that escapes control characters, without indentation.",
    ),
    "FR-03": _rule(
        must="Messages are UTF-8, without a byte order mark",
        since="2025-03-26",
        fix="Write UTF-8 without a byte order mark, whatever the locale is.",
    ),
    "FR-04": _server(
        must="Only messages are written to stdout, from start to exit",
        fix="Print to stderr, and keep libraries that print away from file descriptor 1.",
    ),
    "FR-05": _client(
        must="Only messages are written to the server's stdin",
        partly_client=(
            "Of the content of messages, only the params that a request requires; the rest belongs to the rules of each feature"
        ),
        fix="Write only messages to the server's stdin, with the params that their methods require.",
    ),
    "FR-06": _server(
        may="stderr is free for logging",
        untestable="It is a permission; anything a server does on stderr is correct",
    ),
    "FR-07": _client(
        may="The client continues, however much the server writes to stderr",
        fix="Read the server's stderr all the time, or discard it: a full pipe stops the server.",
    ),
    "FR-08": _client(
        should="Output on stderr is not treated as a failure",
        since="2025-11-25",
        fix="Judge a server by its responses and its exit, not by its logs.",
    ),
    "FR-09": _server(
        must="A server sends no requests in modern revisions",
        since="2026-07-28",
        fix="Return a result of type input_required, with the question in inputRequests.",
    ),
    "FR-10": _client(
        must="A client sends no responses in modern revisions",
        since="2026-07-28",
        fix="Drop requests from a modern server; its questions come as results of type input_required.",
    ),
    "FR-11": _rule(
        should="Sockets use the same framing as stdio",
        since="2026-07-28",
        modern_page="basic/transports",
        untestable_client="There is no general way to make a client use a socket",
        fix="Read a socket like stdin: collect bytes until a newline.",
    ),
    "FR-12": _rule(
        must="A custom transport keeps the message format and the order of a conversation",
        modern_page="basic/transports",
        untestable_client="There is no general way to make a client use a socket",
        fix="Read a socket like stdin: collect bytes until a newline.",
    ),
    "FR-13": _rule(
        must="Messages of any size arrive complete, however they are split on the way, and are never interleaved",
        basis="inference",
        lenient="No page speaks of sizes or chunks; it follows from messages being lines of a stream",
        fix=(
            "Collect bytes until a newline, of any length, or reject the one line that is too long; if a pipe is full, wait,"
            " and write the rest of the line before the next one."
        ),
    ),
    "FR-14": _rule(
        must="Responses are matched to requests by id, not by order",
        basis="inference",
        untestable_server="Only a server that sends two requests at once could confuse them, and no call makes every server do so",
        lenient="It follows from the ids of JSON-RPC; no sentence forbids matching by order",
        fix="Look up the request by the id of the response; drop responses without a request.",
    ),
    "FR-15": _rule(
        may="A carriage return, blank lines and a last line without a newline are tolerated, and never sent",
        basis="inference",
        lenient="The text names only the newline, and does not say what else is tolerated",
        fix="End lines with a single newline, also the last one, and write no blank lines; accept other line ends when reading.",
    ),
    "FR-16": _rule(
        should="HTTP authorization is not used over stdio; credentials come from the environment",
        page="basic/authorization",
        modern_page="basic/authorization",
        since="2025-03-26",
        untestable="No message of the protocol carries authorization, so its absence shows nothing",
    ),
}
