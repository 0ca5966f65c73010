"""Connecting to a daemon and starting one, with the daemon replaced by a listening socket."""

import os
import shutil
import socket
import tempfile
import threading

import pytest

from systems import WINDOWS, on_posix
from twopipes._gateway.daemon import start
from twopipes._gateway.daemon.messages import DaemonError, DaemonGone
from twopipes._gateway.daemon.place import make_folder, socket_path


@pytest.fixture
def listener(monkeypatch):
    """Listen where the daemon would, when called."""
    if WINDOWS:
        pytest.skip("POSIX: the daemon is replaced by a Unix socket; tests/windows/test_share.py has a real one")
    folder = tempfile.mkdtemp(prefix="tp")  # short, for the path of the socket
    monkeypatch.setenv("XDG_STATE_HOME", folder)
    with socket.socket(socket.AF_UNIX) as sock:

        def listen():
            make_folder()
            sock.bind(socket_path())
            sock.listen()
            return sock

        yield listen
    shutil.rmtree(folder)


def test_a_daemon_is_started_once(listener, monkeypatch):
    starts = []
    monkeypatch.setattr(start, "_start", lambda path, deadline: (starts.append(path), listener()))
    for _ in range(3):
        start.connect_or_start().close()
    assert starts == [socket_path()]


def test_a_socket_that_a_dead_daemon_left_does_not_count(listener, monkeypatch):
    listener().close()
    started = []
    monkeypatch.setattr(start, "_start", lambda path, deadline: started.append(path))
    with pytest.raises(DaemonGone, match="nothing listens"):
        start.connect_or_start()
    assert started == [socket_path()]


def test_another_daemon_that_was_faster_is_used(listener, monkeypatch):
    """The relay that started it was killed, and so released the lock too early."""

    def refused(path, deadline):
        listener()
        raise DaemonError("another server is listening there")

    monkeypatch.setattr(start, "_start", refused)
    start.connect_or_start().close()


def test_the_reason_of_a_failed_start_is_raised(listener, monkeypatch):
    def refused(path, deadline):
        raise DaemonError("no space left")

    monkeypatch.setattr(start, "_start", refused)
    with pytest.raises(DaemonError, match="no space left"):
        start.connect_or_start()


def test_a_request_is_sent_again_if_the_daemon_was_about_to_end(listener, monkeypatch):
    received = []

    def serve(sock):
        for answer in (None, b'{"pid":7}\nearly'):
            connection, _ = sock.accept()
            with connection:
                received.append(connection.recv(65536))
                if answer is not None:
                    connection.sendall(answer)

    sock = listener()
    thread = threading.Thread(target=serve, args=(sock,))
    thread.start()
    connection, reply, early = start.open_session({"request": "serve"}, b"first")
    connection.close()
    thread.join()
    assert (reply, early) == ({"pid": 7}, b"early")
    assert received == [b'{"request": "serve"}\nfirst'] * 2


@on_posix("the path of a named pipe has no such limit")
def test_a_path_that_is_too_long_is_named_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / ("x" * 100)))
    with pytest.raises(DaemonError, match="XDG_STATE_HOME"):
        start.connect_or_start()


def test_a_lock_that_is_never_released_does_not_hang_the_relay(listener, monkeypatch):
    monkeypatch.setattr(start, "START_TIMEOUT", 0.05)
    folder = make_folder()
    with start._locked(os.path.join(folder, "start.lock"), 0.0), pytest.raises(DaemonError, match="another process"):
        start.connect_or_start()
