"""The other workers of a server: a request of a legacy session is passed to the worker that has the session.

The system gives each connection to any worker, and a legacy client uses several connections. So the id of a session names its
worker, and each worker also listens on a Unix socket in a folder that only the main process and the workers can open. What
arrives there was checked by the worker that passed it on.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from twopipes._http.refusal import Refusal
from twopipes._http.worker_bus import WorkerBus, unix_socket
from twopipes._server.http.asgi import Scope, refuse

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

    from twopipes._server.http.app import Arrived

_BACKLOG: Final = 2048
# Digits of the number of a worker.
_MAX_DIGITS: Final = 4
_LOST: Final = Refusal(502, "the worker that has this session ended before it responded; send initialize to open another session")
# Headers that belong to one connection (RFC 9110), and those that are written again for the next one.
_OF_CONNECTION: Final = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect")
)
_NOT_FORWARDED: Final = _OF_CONNECTION | {b"content-length"}
_NOT_RETURNED: Final = _OF_CONNECTION | {b"date"}


class Peers:
    """The workers of one server, seen from one of them.

    Args:
        folder: Has the sockets of the workers.
        count: How many workers there are.
        index: The number of this worker, from 0. The ids of its sessions begin with it.
    """

    def __init__(self, folder: str, count: int, index: int) -> None:
        self._folder = folder
        self._count = count
        self.index = index
        self._clients: dict[int, ClientSession] = {}

    def worker_in(self, session_id: str) -> int | None:
        """Return the number of the worker at the start of a session id, if it names another worker."""
        number, dot, _ = session_id.partition(".")
        if not dot or not number.isascii() or not number.isdecimal() or len(number) > _MAX_DIGITS:
            return None
        return int(number) if int(number) < self._count and int(number) != self.index else None

    def sent(self, scope: Scope) -> bool:
        """Whether a request was passed on by another worker."""
        server = scope.get("server")
        return server is not None and server[0] == self._path(self.index)

    def listen(self) -> socket.socket:
        """Open the socket for requests of other workers, in place of the one of a worker that has crashed."""
        path = self._path(self.index)
        with suppress(FileNotFoundError):
            os.unlink(path)
        sock = unix_socket(socket.SOCK_STREAM)
        try:
            sock.bind(path)
            sock.listen(_BACKLOG)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return sock

    def bus(self) -> WorkerBus:
        """Return a bus between the workers, for a server without another one."""
        return WorkerBus(self._folder, self._count, self.index)

    async def forward(self, worker: int, arrived: Arrived, body: bytes) -> bool:
        """Pass a request to another worker, and its response to the client. Return False if that worker does not run."""
        passing = asyncio.create_task(self._pass_on(worker, arrived, body), name="twopipes forward")
        watching = asyncio.create_task(_wait_for_disconnect(arrived), name="twopipes disconnect")
        try:
            await asyncio.wait({passing, watching}, return_when=asyncio.FIRST_COMPLETED)
            return passing.result() if passing.done() else True
        finally:
            for task in (passing, watching):
                task.cancel()
            await asyncio.gather(passing, watching, return_exceptions=True)

    async def close(self) -> None:
        """Close the connections to other workers."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def _pass_on(self, worker: int, arrived: Arrived, body: bytes) -> bool:
        from aiohttp import ClientConnectorError, ClientError

        scope = arrived.scope
        headers = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"] if name not in _NOT_FORWARDED
        ]
        url = "http://worker" + scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        request = self._client(worker).request(scope["method"], url, headers=headers, data=body or None, allow_redirects=False)
        try:
            response = await request
        except ClientConnectorError:
            return False
        except ClientError:
            await refuse(arrived.send, _LOST, more=arrived.cors)
            return True
        async with response:
            with suppress(ClientError):  # the response stays incomplete, and the ASGI server closes the connection
                await _return(response, arrived)
        return True

    def _client(self, worker: int) -> ClientSession:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, UnixConnector

        if worker not in self._clients:
            self._clients[worker] = ClientSession(
                connector=UnixConnector(self._path(worker), limit=0),
                timeout=ClientTimeout(total=None),  # the worker has limits of its own
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
            )
        return self._clients[worker]

    def _path(self, worker: int) -> str:
        return os.path.join(self._folder, str(worker))


async def _return(response: ClientResponse, arrived: Arrived) -> None:
    headers = [(name.lower(), value) for name, value in response.raw_headers if name.lower() not in _NOT_RETURNED]
    await arrived.send({"type": "http.response.start", "status": response.status, "headers": headers})
    async for part in response.content.iter_any():
        await arrived.send({"type": "http.response.body", "body": part, "more_body": True})
    await arrived.send({"type": "http.response.body", "body": b""})


async def _wait_for_disconnect(arrived: Arrived) -> None:
    message: Any = None
    while message is None or message["type"] != "http.disconnect":
        message = await arrived.receive()
