"""The servers of the daemon: made for the first host that asks for one, with its environment and in its folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import asdict

from twopipes._gateway.backs import Backs
from twopipes._gateway.daemon.requests import ServeRequest
from twopipes._gateway.keeper import KeepSettings, KeptBack, KeptServer, kept_config
from twopipes._process.command import ServerCommand
from twopipes._process.stderr import StderrLine
from twopipes._server.log import logger
from twopipes._server.wire_log import Tracing, open_tracing
from twopipes.settings import Sandbox


class DaemonServer:
    """The back of one server, as the daemon sees it (:class:`.service.Kept`)."""

    def __init__(self, back: KeptBack) -> None:
        self._back = back

    @property
    def era(self) -> Literal["modern", "legacy"] | None:
        """The era of its last start, or of its manifest."""
        known = self._back.known
        return None if known is None else known.era

    def on_decided(self, call: Callable[[], object]) -> None:
        """Call a function when the era is known, or the server could not be opened."""
        self._back.on_known.append(call)

    async def stop(self) -> None:
        """End the process. The next request starts it again."""
        await self._back.stop()

    def describe(self) -> dict[str, Any]:
        """Return the facts for ``keep status``."""
        back = self._back
        info = None if back.known is None else back.known.server_info
        return {
            "name": None if info is None else info.name,
            "version": None if info is None else info.version,
            "pid": back.pid,
            "started": back.started_at if back.pid is not None else None,
            "calls": back.calls_total,
            "open_calls": len(back.calls),
            "restarts": back.restarts,
            "last_error": None if back.last_error is None else str(back.last_error),
        }


def open_kept(request: ServeRequest, on_stderr: Callable[[StderrLine], object]) -> tuple[KeptServer, DaemonServer, Tracing | None]:
    """Make the front and the back of a server. It is not started yet.

    Raises:
        LocalProtocolError: The trace cannot be written, or an argument cannot be passed to a process.
    """
    options = request.options
    settings = KeepSettings(is_lazy=options.is_lazy, idle=options.idle, has_manifest=options.has_manifest, watch=options.watch)
    command = ServerCommand(
        request.argv,
        env=request.environment,
        environment="explicit",
        cwd=request.cwd,
        stderr="tail" if options.log is None else Path(options.log),
        sandbox=None if options.sandbox is None else Sandbox(**asdict(options.sandbox)),
    )
    back = KeptBack(command, settings, config=kept_config(settings, on_stderr))
    back.questions.how_to_isolate = "remove --share=all"
    tracing = None if options.trace is None else open_tracing(options.trace, _warn, target=request.command)
    return KeptServer(Backs(lambda: back, shared=options.share_all), settings), DaemonServer(back), tracing


def _warn(text: str) -> None:
    logger.warning("%s", text.removesuffix("\n"))
