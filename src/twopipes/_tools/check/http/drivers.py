"""Clients that connect to the fake server over HTTP."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twopipes._process.command import ServerCommand
from twopipes._tools.check.client_run import Driver, run_program
from twopipes._tools.check.fake_server import FakeServer
from twopipes._tools.check.http.front import HttpFront

URL_PLACEHOLDER = "{url}"


class HttpCommandDriver(Driver):
    """A client command with ``{url}`` as the placeholder for the URL of the fake server.

    Args:
        words: The words of the command. ``{url}`` is replaced in each.
        env: Additional environment variables for the client.
    """

    has_processes = False
    is_http = True

    def __init__(self, words: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> None:
        self.words = list(words)
        self.description = shlex.join(words)
        self._env = env
        self._cwd = cwd

    async def drive(self, fake: FakeServer) -> None:
        """Start the client, and end it if it does not exit in time."""
        async with HttpFront(fake).listening() as url:
            words = [word.replace(URL_PLACEHOLDER, url) for word in self.words]
            status = await run_program(fake, ServerCommand(words, env=self._env, environment="inherit", cwd=self._cwd))
        await fake.end(status)


class HttpInProcessDriver(Driver):
    """A client in this process: a function that connects to the URL it is given, and uses the server."""

    description = "a client in this process"
    has_processes = False
    is_http = True

    def __init__(self, tour: Callable[[str], Awaitable[Any]]) -> None:
        self._tour = tour

    async def drive(self, fake: FakeServer) -> None:
        """Run the tour. Its exceptions are ignored."""
        async with HttpFront(fake).listening() as url:
            with suppress(TimeoutError):
                async with asyncio.timeout(fake.timeouts.client):
                    with suppress(Exception):
                        await self._tour(url)
                    fake.left_at = fake.now()
        await fake.end()
