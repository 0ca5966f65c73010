"""Targets whose references are resolved whenever they are opened, so that a restarted server gets the present secrets.

Everything that is kept or shown about a target, such as its key in the era cache, is made from the references.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from twopipes._client.http_auth import ClientAuth, Credentials
from twopipes._client.http_target import HttpTarget
from twopipes._client.targets import CommandTarget, Endpoint, OnStderr
from twopipes._host.references import resolve
from twopipes._process.child import Child, ProcessObserver
from twopipes._process.command import ServerCommand


class ConfiguredCommand(CommandTarget):
    """A command with references in its variables."""

    def __init__(self, command: ServerCommand, folder: str | None = None) -> None:
        super().__init__(command)
        self._folder = folder

    async def open(self, on_stderr: OnStderr | None, *, observer: ProcessObserver | None = None) -> Endpoint:
        """Resolve the references and launch the command. Raises ``ConfigError`` if a reference cannot be resolved."""
        env = await resolve(self.command.env or {}, self._folder)
        child = await Child.start(structs.replace(self.command, env=env), on_stderr=on_stderr, observer=observer)
        return Endpoint(child.channel, child)


class ConfiguredUrl(HttpTarget):
    """A URL with references in its headers or its token."""

    def __init__(self, url: str, headers: Mapping[str, str], auth: ClientAuth | None = None, folder: str | None = None) -> None:
        super().__init__(url, headers, auth)
        self._folder = folder

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Resolve the references and create what sends the requests. Raises ``ConfigError`` if one cannot be resolved."""
        headers, auth = await resolve(self.headers, self._folder), self.auth
        if isinstance(auth, str):
            auth = (await resolve({"auth": auth}, self._folder))["auth"]
        elif self._credentials is None:  # the copy below shares it, with the answer to a challenge
            self._credentials = Credentials(auth, self.url)
        return await HttpTarget.open(self.replaced(headers, auth), on_stderr)
