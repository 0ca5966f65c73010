"""Several processes that serve one socket: the main process starts them, replaces those that crash, and ends them.

A worker is the same command as the main process, started again: it runs the author's program from the start and shares nothing but
the listening socket. So it does not matter which threads or connections the program has when it calls ``server.run()``. Requests of
legacy sessions are passed to the worker that has the session; see :mod:`twopipes._server.http.peers`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import ClassVar, Final

from twopipes._process.restarts import Restarts
from twopipes._server.http.peers import Peers
from twopipes._server.log import logger
from twopipes.errors import LocalProtocolError
from twopipes.settings import RestartPolicy

# The descriptors of the socket and of the pipe on which a worker reports that it serves, then the arguments of Peers.
_VARIABLE: Final = "TWOPIPES_HTTP_WORKER"
_LONGEST_FOLDER: Final = 70
# A worker that crashes often has a reason that another start does not remove.
_POLICY: Final = RestartPolicy(when="always", first_delay=0.1, max_restarts=5, window=60.0, healthy_after=10.0)


class Worker:
    """What a worker process got from the main process; there is none in any other process."""

    current: ClassVar[Worker | None] = None

    def __init__(self, socket_fd: int, ready_fd: int, peers: Peers) -> None:
        self.socket = socket.socket(fileno=socket_fd)
        self.peers = peers
        self._ready_fd = ready_fd

    @classmethod
    def take(cls) -> Worker | None:
        """Return the current worker. The first call takes it from the environment, so that children do not inherit it."""
        given = os.environ.pop(_VARIABLE, None)
        if given is not None:
            try:
                socket_fd, ready_fd, count, index, folder = given.split(",", 4)
                cls.current = cls(int(socket_fd), int(ready_fd), Peers(folder, int(count), int(index)))
            except (ValueError, OSError) as error:
                raise LocalProtocolError(f"{_VARIABLE} is set by the main process only; unset it ({error})") from error
        return cls.current

    def report_ready(self) -> None:
        """Let the main process know that requests are served."""
        with suppress(OSError):  # the main process is gone, which another place notices
            os.write(self._ready_fd, b".")
            os.close(self._ready_fd)


class Supervisor:
    """Starts workers and keeps their number until the end.

    Args:
        listening: The socket that they share.
        count: How many.
        patience: Seconds that they may take to end.
    """

    def __init__(self, listening: socket.socket, count: int, *, patience: float) -> None:
        self._listening = listening
        self._count = count
        self._patience = patience
        self._ending = asyncio.Event()
        self._has_served = False  # a worker has reported that it serves
        self._failed = False

    async def run(self) -> bool:
        """Supervise until SIGINT or SIGTERM. Return False if the workers cannot be kept running."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._begin_end)
        try:
            with tempfile.TemporaryDirectory(prefix="twopipes-", dir=_short_folder()) as folder:
                async with asyncio.TaskGroup() as slots:
                    for index in range(self._count):
                        slots.create_task(self._keep_running(index, folder))
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        return not self._failed

    def _begin_end(self) -> None:
        # First: a connection that no worker accepts any more must be refused at once, and not wait here.
        self._listening.close()
        self._ending.set()

    async def _keep_running(self, index: int, folder: str) -> None:
        """Run one worker after another."""
        restarts = Restarts(_POLICY, random=random.random)
        loop = asyncio.get_running_loop()
        while not self._ending.is_set():
            started = loop.time()
            status = await self._run_one(index, folder)
            if self._ending.is_set():
                return
            delay = restarts.crashed(loop.time(), loop.time() - started) if self._has_served else None
            if delay is None:
                logger.error("Error: a worker ended with %s and is not replaced; the server ends", _describe(status))
                self._failed = True
                self._begin_end()
                return
            logger.error("Error: a worker ended with %s; another one is started", _describe(status))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), delay)

    async def _run_one(self, index: int, folder: str) -> int:
        """Run one worker to its end, and return its status."""
        ready, ready_w = os.pipe()
        try:
            socket_fd = self._listening.fileno()
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                *sys.orig_argv[1:],
                stdin=subprocess.DEVNULL,
                pass_fds=(socket_fd, ready_w),
                env={**os.environ, _VARIABLE: f"{socket_fd},{ready_w},{self._count},{index},{folder}"},
            )
        finally:
            os.close(ready_w)
        loop = asyncio.get_running_loop()
        loop.add_reader(ready, self._read_ready, ready)
        ended = asyncio.create_task(worker.wait())
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({ended, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self._end(worker, ended)
            return await ended
        finally:
            ending.cancel()
            loop.remove_reader(ready)
            os.close(ready)

    def _read_ready(self, ready: int) -> None:
        self._has_served |= os.read(ready, 1) == b"."
        asyncio.get_running_loop().remove_reader(ready)

    async def _end(self, worker: asyncio.subprocess.Process, ended: asyncio.Task[int]) -> None:
        with suppress(ProcessLookupError):
            worker.terminate()
        await asyncio.wait({ended}, timeout=self._patience)
        if not ended.done():
            logger.error("Error: a worker did not end within %g s and is killed", self._patience)
            with suppress(ProcessLookupError):
                worker.kill()


def _short_folder() -> str:
    """Return a folder for temporary files; the path of a Unix socket has at most 104 bytes on some systems."""
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) < _LONGEST_FOLDER else "/tmp"  # noqa: S108 - a private folder is made in it


def _describe(status: int) -> str:
    """Return a status as text: the name of a signal, or a number."""
    if status >= 0:
        return f"status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
