"""Logging of clients."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.scenario import scenario


@scenario("LG-09")
async def declares_logging(fake: FakeServer) -> None:
    """A modern server declares logging, but a client may not set a level for the session."""
    await fake.exited_after(lambda message: message.is_request and message.is_modern and message.method != "server/discover")
    fake.forbid("LG-09", fake.first("logging/setLevel"), "the client sent logging/setLevel, which modern revisions do not have")
