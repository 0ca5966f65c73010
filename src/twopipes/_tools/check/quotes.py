"""Lines to quote in a verdict about a client, if its last lines are not the relevant ones."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.server_reply import decoded, id_key, parts_of
from twopipes._tools.check.verdict import Quote


def exchanges(fake: FakeServer, method: str) -> Quote:
    """Return the requests of one method, and the responses of the fake server."""
    asked = fake.requests(method)
    keys = {(message.connection.number, id_key(message.id)) for message in asked}
    answers = [
        line
        for connection in fake.connections
        for line in connection.sent_lines
        for part in parts_of(decoded(line))
        if "method" not in part and (connection.number, id_key(part.get("id"))) in keys
    ]
    return Quote(sent=tuple(answers), received=tuple(message.raw for message in asked))


def sent_with(fake: FakeServer, *marks: str | bytes) -> Quote:
    """Return the lines of the fake server that contain one of these marks."""
    wanted = [mark.encode() if isinstance(mark, str) else mark for mark in marks]
    lines = [line for connection in fake.connections for line in connection.sent_lines]
    return Quote(sent=tuple(line for line in lines if any(mark in line for mark in wanted)))
