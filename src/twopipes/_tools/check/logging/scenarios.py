"""Logging, from the side of a server."""

from __future__ import annotations

from twopipes._tools.check.fake_server import FakeServer, scenario


@scenario("LG-09")
async def declares_logging(fake: FakeServer) -> None:
    """A server of the stateless wire declares logging, which is no invitation to set a level."""
    await fake.wait_for(lambda message: message.is_request and message.is_modern and message.method != "server/discover")
    await fake.client_exited()
    sent = next(iter(fake.requests("logging/setLevel")), None)
    fake.expect(
        "LG-09",
        sent is None,
        "the client sent logging/setLevel, which the stateless revisions do not have",
        fix="Put io.modelcontextprotocol/logLevel into the _meta of the requests whose log messages are wanted.",
        about=sent,
    )
