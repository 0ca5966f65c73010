"""A server of a blocking group, with a client that any thread may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from twopipes._blocking.client import Client
from twopipes._client.client import Client as AsyncClient
from twopipes._host.group_options import Config
from twopipes._host.group_server import GroupServer as AsyncGroupServer
from twopipes._host.group_server import State
from twopipes._host.group_tool import GroupTool
from twopipes.errors import LocalProtocolError, TwopipesError

T = TypeVar("T")


class Group(Protocol):
    """What a server needs of its group."""

    def _read(self, read: Callable[[], T]) -> T: ...

    def _client_of(self, inner: AsyncClient) -> GroupClient: ...


class GroupClient(Client):
    """The client of one server in a blocking group, which closes it."""

    def close(self) -> None:
        """Refuse: the group would not know.

        Raises:
            LocalProtocolError: Always.
        """
        raise LocalProtocolError("this client belongs to a group; use group.remove(name) or group.reconnect(name)")

    def __exit__(self, *_: object) -> None:
        """Do nothing: the group closes it."""

    def __del__(self) -> None:
        """Do nothing: the group closes it."""


class GroupServer:
    """One server of a :class:`twopipes.blocking.ServerGroup`, as it is at the moment. Any thread may read it."""

    def __init__(self, inner: AsyncGroupServer, group: Group) -> None:
        self._inner = inner
        self._group = group

    def __repr__(self) -> str:
        return repr(self._inner)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupServer) and self._inner is other._inner

    def __hash__(self) -> int:
        return hash(self._inner)

    @property
    def name(self) -> str:
        """The name that you gave it."""
        return self._inner.name

    @property
    def config(self) -> Config:
        """How to reach it."""
        return self._inner.config

    @property
    def state(self) -> State:
        """``waiting``, ``opening``, ``ready``, ``failed`` or ``closed``."""
        return self._inner.state

    @property
    def problem(self) -> TwopipesError | None:
        """The last error: it could not be opened, exited, or did not list its tools. ``None`` if it works."""
        return self._inner.problem

    @property
    def client(self) -> Client | None:
        """Its client, once it has been opened. It is replaced when the server is opened again. The group closes it."""
        inner = self._inner.client
        return None if inner is None else self._group._client_of(inner)  # noqa: SLF001 - the same package

    @property
    def tools(self) -> list[GroupTool]:
        """Its tools that are offered, in its order."""
        return self._read(lambda: self._inner.tools)

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._read(lambda: self._inner.restarts)

    @property
    def stderr(self) -> Sequence[str]:
        """The last lines that it wrote to its stderr."""
        return self._read(lambda: list(self._inner.stderr))

    def _read(self, read: Callable[[], T]) -> T:
        return self._group._read(read)  # noqa: SLF001 - the same package
