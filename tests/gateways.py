"""A gateway between a host in memory and a fake server, for tests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypedDict

import pytest

import sessions
from fake_server import FakeServer
from inmemory import LATEST_LEGACY, LATEST_MODERN, Client, connected
from twopipes._gateway.back import Back, BackConfig
from twopipes._gateway.backs import Backs
from twopipes._gateway.front import GatewayServer
from twopipes._gateway.hub.server import HubServer

REVISIONS = ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28")
ERA_OF = {LATEST_LEGACY: "legacy", LATEST_MODERN: "modern"}
COMBINATIONS = [(front, back) for front in ERA_OF for back in ERA_OF]
combinations = pytest.mark.parametrize(
    ("front", "back"), COMBINATIONS, ids=[f"{ERA_OF[front]}-host-{ERA_OF[back]}-server" for front, back in COMBINATIONS]
)
fronts = pytest.mark.parametrize("front", list(ERA_OF), ids=[f"{era}-host" for era in ERA_OF.values()])


class Person(TypedDict):
    """A form."""

    name: str


def accept(**content: Any) -> dict[str, Any]:
    """Return the answer to a form."""
    return {"action": "accept", "content": content}


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


def gateway_to(target: Any, *, isolated: bool = False, shared: bool = False, eras: Any = "both", **config: Any) -> GatewayServer:
    """Return a gateway to a target."""
    return GatewayServer(Backs(lambda: Back(target, config=BackConfig(**config)), isolated=isolated, shared=shared), eras=eras)


@asynccontextmanager
async def through(
    fake: FakeServer, front: str = LATEST_MODERN, *, can: Mapping[str, Any] = sessions.ABLE, **config: Any
) -> AsyncIterator[Through]:
    """Connect a host that speaks ``front`` to a fake server through a gateway."""
    gateway = gateway_to(fake, **config)
    async with gateway._running(), connected(gateway, front, can=can) as host:
        yield Through(host, gateway, fake)


@asynccontextmanager
async def alone(target: Any, front: str, *, can: Mapping[str, Any] = sessions.ABLE, **config: Any) -> AsyncIterator[Client]:
    """Connect a host that speaks ``front`` to a target, which it has for itself."""
    gateway = gateway_to(target, isolated=True, **config)
    async with gateway._running(), connected(gateway, front, can=can) as host:
        yield host


class ThroughHub(NamedTuple):
    """A host, and the hub that it is connected to."""

    host: Client
    hub: HubServer


@asynccontextmanager
async def through_hub(
    servers: Mapping[str, Any], front: str = LATEST_MODERN, *, can: Mapping[str, Any] = sessions.ABLE, **options: Any
) -> AsyncIterator[ThroughHub]:
    """Connect a host that speaks ``front`` to servers through a hub."""
    hub = HubServer(servers, **options)
    async with hub._running(), connected(hub, front, can=can) as host:
        yield ThroughHub(host, hub)
