"""Run a server between a host and us on Windows: :mod:`.relay` with the means of that system.

A job object takes the place of the process group and of the watchdog: the system ends everything in it when our process ends for
any reason. There are no signals to pass on but Ctrl-C and Ctrl-Break, which become a Ctrl-Break for the server.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in relay.py
if TYPE_CHECKING:
    from twopipes._process.relay import RelayObserver, Stream

if sys.platform == "win32":
    import _winapi
    import errno
    import os
    import signal
    import threading
    from collections.abc import Sequence
    from contextlib import suppress
    from types import FrameType

    from twopipes._process.batch_file import argument_refused
    from twopipes._process.exit_status import SIGKILL, SIGTERM
    from twopipes._process.lookup import look_up
    from twopipes._process.process_group import Launch, ProcessGroup
    from twopipes._process.windows import spawn

    READ_SIZE = 64 * 1024
    # Seconds that a child has to exit on EOF when its host is dead, and again after a Ctrl-Break.
    GRACE = 2.0
    # Seconds without output, after the child has exited, after which a process that it started is taken to hold the stream.
    QUIET = 0.5
    # Seconds between two looks at signals: a wait of Python on Windows is not interrupted by them.
    POLL = 0.1
    UNREAD = "the reader has closed it"
    HELD = "the server has exited, but a process that it started still holds this stream"

    class WindowsRelay:
        """A child between our three standard streams. Creating the object starts it. Use it once.

        The executable is searched for in PATH, with the extensions of PATHEXT. Raises ``OSError`` if it cannot be started.
        """

        def __init__(self, argv: Sequence[str]) -> None:
            self._host = os.getppid()
            found = look_up(argv[0], os.environ, os.getcwd())
            if found.found is None:
                raise FileNotFoundError(f"command {argv[0]!r} not found")
            command = [found.found, *argv[1:]]
            if (reason := argument_refused(command)) is not None:
                raise OSError(errno.EINVAL, reason)
            ends = [os.pipe() for _ in range(3)]
            (its_input, to_child), (from_child, its_output), (from_its_stderr, its_stderr) = ends
            theirs = (its_input, its_output, its_stderr)
            try:
                self._job: ProcessGroup = spawn(
                    Launch(command), env=dict(os.environ), cwd=os.getcwd(), streams=theirs, die_with_us=True
                )
            except BaseException:
                for each in (to_child, from_child, from_its_stderr):
                    os.close(each)
                raise
            finally:
                for each in theirs:
                    os.close(each)
            self.pid = self._job.pid
            self._in = _Pump(">", 0, to_child)
            self._out = _Pump("<", from_child, 1)
            self._err = _Pump("!", from_its_stderr, 2)

        def run(self, observer: RelayObserver) -> int:
            """Pass on bytes until the child has exited and all of its output is passed on. Return its exit code."""
            observer.event("spawn", pid=self.pid)
            for number in (signal.SIGINT, signal.SIGBREAK):
                signal.signal(number, lambda number, _frame: self._pass_on(observer, number))
            for pump in (self._in, self._out, self._err):
                pump.start(observer)
            threading.Thread(target=self._watch_host, args=(observer,), daemon=True).start()
            exited = threading.Event()
            threading.Thread(target=self._wait, args=(exited,), daemon=True).start()
            while not exited.wait(POLL):
                pass
            self._out.finish(observer)
            self._err.finish(observer)
            status = self._job.status
            code = status.code if status is not None and status.code is not None else 1
            observer.event("exit", code=code)
            return code

        def _wait(self, exited: threading.Event) -> None:
            self._job._wait()  # noqa: SLF001 - the relay is the only user of this group
            exited.set()

        def _pass_on(self, observer: RelayObserver, number: int, _frame: FrameType | None = None) -> None:
            observer.event("signal", signal=signal.Signals(number).name)
            self._job.signal(SIGTERM)

        def _watch_host(self, observer: RelayObserver) -> None:
            # EOF does not arrive while another process holds the other end of our stdin.
            wait_for_exit(self._host)
            observer.event("note", reason="the host is dead")
            # In a thread: closing waits for a write to a child that does not read.
            threading.Thread(target=self._in.close_target, daemon=True).start()
            pause = threading.Event()
            pause.wait(GRACE)
            self._job.signal(SIGTERM)
            pause.wait(GRACE)
            self._job.signal(SIGKILL)

    class _Pump:
        """Copies one stream in a daemon thread. When the source ends, the target is closed, unless it is our own stream."""

        def __init__(self, stream: Stream, source: int, target: int) -> None:
            self._stream: Stream = stream
            self._source = source
            self._target = target
            self._progress = threading.Event()
            self._closing = threading.Lock()
            self._is_open = True
            self._thread = threading.Thread(target=lambda: None)

        def start(self, observer: RelayObserver) -> None:
            self._thread = threading.Thread(target=self._run, args=(observer,), daemon=True)
            self._thread.start()

        def finish(self, observer: RelayObserver) -> None:
            """Wait for the end of the stream, as long as something comes."""
            while self._thread.is_alive():
                self._progress.clear()
                self._thread.join(QUIET)
                if self._thread.is_alive() and not self._progress.is_set():
                    observer.event("eof", stream=self._stream, reason=HELD)
                    return

        def _run(self, observer: RelayObserver) -> None:
            try:
                reason = self._copy(observer)
            except OSError as error:
                reason = error.strerror or str(error)
            observer.event("eof", stream=self._stream, reason=reason)
            # A host sees the end of our own stdout when we exit. It must not be closed earlier, because its number would be reused.
            if self._target > 2:
                self.close_target()

        def close_target(self) -> None:
            """Close the target, once."""
            with self._closing:
                is_open, self._is_open = self._is_open, False
            if is_open:
                os.close(self._target)

        def _copy(self, observer: RelayObserver) -> str | None:
            """Copy until the stream ends. Return the reason if it was not EOF from the source."""
            while data := _read(self._source):
                self._progress.set()
                # Record before writing, so that a request always precedes its response in the trace.
                observer.chunk(self._stream, data)
                if not write_all(self._target, data):
                    return UNREAD
            return None

    def _read(source: int) -> bytes:
        try:
            return os.read(source, READ_SIZE)
        except BrokenPipeError:
            return b""

    def write_all(target: int, data: bytes) -> bool:
        """Write all of the data, and block while the reader is slow. Return False if it has closed its end."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(target, view) :]
            except OSError:  # Windows reports a closed pipe as an invalid argument, too
                return False
        return True

    def wait_for_exit(pid: int) -> None:
        """Block until a process has exited; for ever if we may not watch it."""
        try:
            handle = _winapi.OpenProcess(_winapi.SYNCHRONIZE, False, pid)
        except PermissionError:
            threading.Event().wait()
        except OSError:
            return  # it has exited
        else:
            _winapi.WaitForSingleObject(handle, _winapi.INFINITE)
            _winapi.CloseHandle(handle)

    def write_stderr(text: str) -> None:
        """Write a text to stderr in one piece."""
        with suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace"))
