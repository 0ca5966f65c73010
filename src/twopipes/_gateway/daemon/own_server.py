"""The server that this process keeps for its own host, as ``twopipes keep status``, ``logs`` and ``stop`` see it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from twopipes._gateway.backs import Backs
from twopipes._gateway.daemon.control_server import Controlled, ControlServer
from twopipes._gateway.daemon.kept import DaemonServer
from twopipes._gateway.daemon.memory import resident_bytes
from twopipes._gateway.keeper import KeptBack


class OwnServer:
    """The one server of this process (:class:`.control_server.Controlled`)."""

    def __init__(self, argv: Sequence[str], back: KeptBack, since: float) -> None:
        self.identity = f"p{os.getpid()}"
        self.argv = list(argv)
        self._back = back
        self._state = DaemonServer(back)
        self._since = since

    def matches(self, name: str) -> bool:
        """Whether a user means this server: by its id, its name, or a part of its command."""
        return name in {self.identity, self._state.describe()["name"]} or any(name in word for word in self.argv)

    def describe(self) -> dict[str, Any]:
        """Return its row of ``keep status``."""
        pid = self._back.pid
        return {
            "id": self.identity,
            "command": self.argv,
            "cwd": os.getcwd(),
            "era": self._state.era,
            "shared": False,
            "hosts": [{"pid": os.getpid(), "host": os.getppid(), "since": self._since}],
            **self._state.describe(),
            "memory": None if pid is None else resident_bytes(pid),
        }

    def lines(self) -> list[str]:
        """Return the last lines that it wrote to stderr."""
        return list(self._back.stderr)

    async def stop(self) -> None:
        """End its process. The next request starts it again."""
        await self._back.stop()


class OwnControl(ControlServer):
    """Answers the commands about the server of this process."""

    def __init__(self, argv: Sequence[str], backs: Backs, started: float) -> None:
        super().__init__("keep", started)
        self._argv = argv
        self._backs = backs

    def _servers(self) -> Iterable[Controlled]:
        return [OwnServer(self._argv, back, self._started) for back in self._backs if isinstance(back, KeptBack)]
