"""A gateway between a host in memory and a fake server, for tests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import sessions
from fake_server import FakeServer
from inmemory import LATEST_MODERN, Client, connected
from twopipes._gateway.back import Back, BackConfig
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer

REVISIONS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")


class Through(NamedTuple):
    """A host, the gateway and the server behind it."""

    host: Client
    gateway: GatewayServer
    fake: FakeServer

    @property
    def back(self) -> Back:
        """The shared server of the gateway."""
        (back,) = self.gateway.backs
        return back


def gateway_to(target: Any, *, isolated: bool = False, eras: Any = "both", **config: Any) -> GatewayServer:
    """Return a gateway to a target."""
    return GatewayServer(Backs(lambda: Back(target, config=BackConfig(**config)), isolated=isolated), eras=eras)


@asynccontextmanager
async def through(
    fake: FakeServer, front: str = LATEST_MODERN, *, can: Mapping[str, Any] = sessions.ABLE, **config: Any
) -> AsyncIterator[Through]:
    """Connect a host that speaks ``front`` to a fake server through a gateway."""
    gateway = gateway_to(fake, **config)
    async with gateway._running(), connected(gateway, front, can=can) as host:
        yield Through(host, gateway, fake)
