"""Records a child: its pipes, its stderr, the signals it gets, and its exit."""

from __future__ import annotations

from twopipes._channels.base import Channel
from twopipes._process.exit_status import ExitStatus, signal_name
from twopipes._trace.channel import Observer, RecordedChannel


class ChildRecording:
    """Records what a :class:`twopipes._process.child.Child` reports; see :class:`twopipes._process.child.ProcessObserver`.

    Args:
        recorder: Writes the recording.
        connection: The number of the connection, if a server is started several times.
    """

    def __init__(self, recorder: Observer, *, connection: int = 0) -> None:
        self.connection = connection
        self._recorder = recorder

    def started(self, pid: int, channel: Channel) -> Channel:
        """Record the start, and return the pipes wrapped in a recording channel."""
        self._recorder.event("spawn", pid=pid, connection=self.connection)
        return self.recorded(channel)

    def recorded(self, channel: Channel) -> Channel:
        """Wrap a channel in a recording one."""
        return RecordedChannel(channel, self._recorder, reads="<", connection=self.connection)

    def stderr(self, data: bytes) -> None:
        """Record output on stderr."""
        self._recorder.chunk("!", data, connection=self.connection)

    def signalled(self, number: int) -> None:
        """Record a signal that was sent to it."""
        self._recorder.event("signal", signal=signal_name(number), connection=self.connection)

    def exited(self, status: ExitStatus) -> None:
        """Record its exit."""
        self._recorder.event("exit", code=status.code, signal=status.signal_name, connection=self.connection)
