"""``connect(trace=...)``: records the conversation of a client and its server. Imported only for a trace."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from twopipes._client.targets import CommandTarget, Endpoint, OnStderr, Target
from twopipes._trace.channel import ChildRecording, close_recorder
from twopipes._trace.recorder import Recorder, header_for, names_to_redact
from twopipes.errors import LocalProtocolError


class RecordedTarget(Target):
    """A target that records another one. Each opening is another connection in the same recording."""

    def __init__(self, inner: Target, trace: str | os.PathLike[str] | Recorder, redact: Iterable[str] = ()) -> None:
        self.description = inner.description
        self.identity = inner.identity
        self.reopens = inner.reopens
        self.renews_sessions = inner.renews_sessions
        self.may_be_silent = inner.may_be_silent
        self.plan = inner.plan
        self._inner = inner
        self._is_ours = not isinstance(trace, Recorder)
        self._recorder = trace if isinstance(trace, Recorder) else record(inner, trace, names_to_redact(redact))
        self._opened = 0

    async def open(self, on_stderr: OnStderr | None) -> Endpoint:
        """Open the inner target and record it."""
        number = self._opened
        self._opened += 1
        if isinstance(self._inner, CommandTarget):
            return await self._inner.open(on_stderr, observer=ChildRecording(self._recorder, connection=number))
        endpoint = await self._inner.open(on_stderr)
        endpoint.observe(self._recorder, connection=number)
        return endpoint

    async def release(self) -> None:
        """Close the file, unless the recorder is the caller's."""
        if self._is_ours:
            await close_recorder(self._recorder)

    def abandon(self) -> None:
        """Let the recorder close the file once everything is written, without waiting for it."""
        if self._is_ours:
            self._recorder.finish()


def record(target: Target, path: str | os.PathLike[str], redact: tuple[str, ...]) -> Recorder:
    """Return a recorder of the conversation with a target."""
    loop = asyncio.get_running_loop()

    def report_loss(reason: str) -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(loop.call_exception_handler, {"message": reason})

    return open_recorder(target, path, redact, on_loss=report_loss)


def open_recorder(
    target: Target, path: str | os.PathLike[str], redact: tuple[str, ...], *, on_loss: Callable[[str], None]
) -> Recorder:
    """Open the recording of a target. Raises ``LocalProtocolError`` if the file cannot be written."""
    if isinstance(target, CommandTarget):
        command = target.command
        header = header_for(
            "client", argv=command.argv, cwd=command.folder(), environment=command.child_environment(), redact=redact
        )
    else:
        header = header_for("client", target=target.description, redact=redact)
    try:
        return Recorder(path, header, redact, on_loss=on_loss, must_open=True)
    except OSError as error:
        raise LocalProtocolError(f"the trace cannot be written to {os.fspath(path)}: {error.strerror or error}") from error
