"""A child that is recorded: its pipes, its stderr, the signals it gets, and its end."""

from __future__ import annotations

from twopipes._channels.base import Channel
from twopipes._process.exit_status import ExitStatus, signal_name
from twopipes._trace.channel import RecordedChannel
from twopipes._trace.recorder import Recorder

__all__ = ["ChildRecording"]


class ChildRecording:
    """Told by a :class:`twopipes._process.child.Child` what happens to it; see :class:`twopipes._process.observer.ProcessObserver`.

    Args:
        recorder: Who writes it down.
        connection: Which one this is, where a server is started again.
    """

    def __init__(self, recorder: Recorder, *, connection: int = 0) -> None:
        self._recorder = recorder
        self._connection = connection

    def started(self, pid: int, channel: Channel) -> Channel:
        """The pipes, watched from now on."""
        self._recorder.event("spawn", pid=pid, connection=self._connection)
        return RecordedChannel(channel, self._recorder, reads="<", connection=self._connection)

    def stderr(self, data: bytes) -> None:
        """Notes what it says beside the wire."""
        self._recorder.chunk("!", data, connection=self._connection)

    def signalled(self, number: int) -> None:
        """Notes a signal that it was sent."""
        self._recorder.event("signal", signal=signal_name(number), connection=self._connection)

    def exited(self, status: ExitStatus) -> None:
        """Notes how it ended."""
        self._recorder.event("exit", code=status.code, signal=status.signal_name, connection=self._connection)
