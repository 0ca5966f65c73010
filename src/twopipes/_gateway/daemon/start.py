"""Connect to the daemon of this user, and start it if it does not run. Two relays at the same moment start one daemon."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager

from twopipes._gateway.daemon.messages import READ_SIZE, Connection, DaemonError, DaemonGone, exchange
from twopipes._gateway.daemon.place import make_folder, socket_path
from twopipes._process.user_files import open_private

if sys.platform == "win32":
    import msvcrt
    import subprocess
    import threading

    from twopipes._channels.named_pipe import open_pipe
else:
    import fcntl
    import select
    import signal
    import socket

    from twopipes._process.group_watchdog import inheritable_descriptors

TYPE_CHECKING = False  # importing typing would slow down the start of the relay
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO, Any, NoReturn

# Seconds. A daemon needs about 0.2 s to start on an idle machine.
START_TIMEOUT = 20.0
# Seconds. The daemon may wait for another host's server to start before it replies (daemon.py).
REPLY_TIMEOUT = 60.0
# Seconds between two attempts to take the lock, or to connect to a socket whose queue is full.
PAUSE = 0.01
# How often to try again after a daemon that was about to end, or that was killed while it started.
ATTEMPTS = 5
# What the daemon writes to its report when it listens.
READY = b"ready\n"
# The daemon's own environment. That of each server comes with the request for it and is not kept for others.
KEPT_VARIABLES = frozenset(
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PYTHONHOME", "PYTHONPATH", "TMPDIR", "TZ", "USER", "XDG_STATE_HOME"]
    if sys.platform != "win32"
    else ["APPDATA", "COMPUTERNAME", "LOCALAPPDATA", "PATH", "PYTHONHOME", "PYTHONPATH", "SYSTEMROOT", "TEMP", "TMP", "USERPROFILE"]
)


def open_session(request: Mapping[str, Any], first: bytes) -> tuple[Connection, dict[str, Any], bytes]:
    """Send a request to the daemon, which is started if necessary. Return the connection, the reply and the bytes after it.

    ``first`` are the first bytes of the host. They are sent again if a daemon ends before it replies, because it ignores them then.

    Raises:
        DaemonError: The daemon cannot be started, or refused the request.
        OSError: The folder of the socket cannot be used.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _try_session(request, first)
        except DaemonGone as error:
            if attempt == ATTEMPTS:
                raise DaemonGone(f"{error} (tried {ATTEMPTS} times)") from None
    raise AssertionError("unreachable")


def _try_session(request: Mapping[str, Any], first: bytes) -> tuple[Connection, dict[str, Any], bytes]:
    sock = connect_or_start()
    try:
        return sock, *exchange(sock, request, timeout=REPLY_TIMEOUT, first=first)
    except BaseException:
        sock.close()
        raise


def connect_or_start() -> Connection:
    """Return a connection to the daemon. Call it while the program has one thread: it forks."""
    folder = make_folder()
    path = socket_path()
    deadline = time.monotonic() + START_TIMEOUT
    found = connect(path, deadline)
    if found is not None:
        return found
    with _locked(os.path.join(folder, "start.lock"), deadline):
        found = connect(path, deadline)  # another relay may have started it meanwhile
        if found is not None:
            return found
        try:
            _start(path, deadline)
        except DaemonError:
            # A relay that was killed has released the lock, and its daemon was faster.
            found = connect(path, deadline)
            if found is None:
                raise
            return found
        found = connect(path, deadline)
    if found is None:
        raise DaemonGone(f"the daemon started, but nothing listens on {path}; see {log_path(path)}")
    return found


def connect(path: str, deadline: float) -> Connection | None:
    """Return a connection to the socket at a path, or ``None`` if no daemon listens there."""
    while True:
        try:
            return _try_to_connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except BlockingIOError:  # its queue is full
            if time.monotonic() > deadline:
                raise DaemonError(f"the daemon at {path} does not accept connections; end its process") from None
        except OSError as error:
            hint = "; set XDG_STATE_HOME to a shorter path" if error.errno is None else ""
            raise DaemonError(f"cannot connect to the daemon at {path}: {error.strerror or error}{hint}") from error
        time.sleep(PAUSE)


def log_path(path: str) -> str:
    """Return the file with the stderr of the daemon at this socket. It is empty unless the daemon crashed."""
    return f"{path}.log"


@contextmanager
def _locked(path: str, deadline: float) -> Iterator[None]:
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        while not _lock(descriptor):
            if time.monotonic() > deadline:
                raise DaemonError(f"another process has been starting the daemon for {START_TIMEOUT:g} s")
            time.sleep(PAUSE)
        yield
    finally:
        os.close(descriptor)  # releases the lock: no other process has this descriptor


def _start(path: str, deadline: float) -> None:
    """Start the daemon and wait until it listens. It is not our child, so that ending the tree of a host's processes spares it."""
    report = _start_and_wait(path, deadline)
    if not report:
        raise DaemonGone(f"the daemon exited or was killed while it started; see {log_path(path)}")
    if report != READY:
        raise DaemonError(f"the daemon cannot be started: {report.decode(errors='replace').strip()}")


def _argv(path: str, report: int) -> list[str]:
    # -P: a module in the current folder must not take the place of ours.
    return [sys.executable, "-P", "-m", "twopipes._gateway.daemon", path, str(report)]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}


def _open_log(path: str) -> int:
    return open_private(log_path(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)


if sys.platform == "win32":

    def _try_to_connect(path: str) -> Connection:
        return open_pipe(path)

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _start_and_wait(path: str, deadline: float) -> bytes:
        """Start the daemon, and return its report, which it writes to its stdout."""
        report: list[bytes] = []
        with _spawn(path) as stdout:
            reading = threading.Thread(target=lambda: report.append(stdout.read()), daemon=True)
            reading.start()
            reading.join(max(deadline - time.monotonic(), 0))
            if not report:
                raise DaemonError(f"the daemon did not start within {START_TIMEOUT:g} s")
        return report[0]

    def _spawn(path: str) -> IO[bytes]:
        """Start the daemon without a console and outside of the job of the host, and return its stdout."""
        log = _open_log(path)
        flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": log}
        options |= {"env": _environment(), "cwd": os.path.abspath(os.sep)}
        argv = _argv(path, 1)
        try:
            try:
                process = subprocess.Popen(argv, creationflags=flags | subprocess.CREATE_BREAKAWAY_FROM_JOB, **options)
            except PermissionError:  # the job does not allow it, and the daemon ends with it
                process = subprocess.Popen(argv, creationflags=flags, **options)
        finally:
            os.close(log)
        process.returncode = 0  # so that Python does not warn that it still runs
        assert process.stdout is not None
        return process.stdout

else:

    def _try_to_connect(path: str) -> Connection:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(path)
            sock.setblocking(True)
        except BaseException:
            sock.close()
            raise
        return sock

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _start_and_wait(path: str, deadline: float) -> bytes:
        """Start the daemon, and return its report."""
        report_r, report_w = os.pipe()
        try:
            child = os.fork()
            if child == 0:
                _fork_again(report_w, path)
        finally:
            os.close(report_w)
        try:
            os.waitpid(child, 0)
            return _read_report(report_r, deadline)
        finally:
            os.close(report_r)

    def _read_report(report_r: int, deadline: float) -> bytes:
        poll = select.poll()
        poll.register(report_r, select.POLLIN)
        data = b""
        while poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            chunk = os.read(report_r, READ_SIZE)
            if not chunk:
                return data
            data += chunk
        raise DaemonError(f"the daemon did not start within {START_TIMEOUT:g} s")

    def _fork_again(report_w: int, path: str) -> NoReturn:
        """Leave the session and the terminal of the host, and become the daemon in a process that the host does not know."""
        try:
            os.setsid()
            if os.fork() == 0:
                _become_daemon(report_w, path)
        finally:
            os._exit(0)

    def _become_daemon(report_w: int, path: str) -> None:
        try:
            for each in inheritable_descriptors():
                os.close(each)
            os.set_inheritable(report_w, True)
            null = os.open(os.devnull, os.O_RDWR)
            log = _open_log(path)
            for number, descriptor in enumerate((null, null, log)):
                os.dup2(descriptor, number)
            os.chdir("/")
            os.umask(0o077)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            os.execve(sys.executable, _argv(path, report_w), _environment())  # noqa: S606 - our own interpreter
        except OSError as error:
            os.write(report_w, f"{error.strerror}: {error.filename}".encode())
