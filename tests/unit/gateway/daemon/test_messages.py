"""A request and its reply over a real socket."""

import socket
import threading

import pytest

from twopipes._gateway.daemon.messages import DaemonError, DaemonGone, exchange, serve_request, wait_for_close


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def answer(theirs, reply, *, then_close=False):
    """Read the request in a thread and reply."""

    def run():
        data = b""
        while not data.endswith(b"\n"):
            data += theirs.recv(65536)
        theirs.sendall(reply)
        if then_close:
            theirs.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_the_bytes_after_the_reply_are_returned(pair):
    ours, theirs = pair
    thread = answer(theirs, b'{"pid":7}\n{"jsonrpc"')
    assert exchange(ours, {"request": "status"}, timeout=30) == ({"pid": 7}, b'{"jsonrpc"')
    assert ours.gettimeout() is None
    thread.join()


def test_a_refusal_is_raised(pair):
    ours, theirs = pair
    thread = answer(theirs, b'{"error":"no such folder"}\n')
    with pytest.raises(DaemonError, match="no such folder"):
        exchange(ours, {"request": "status"}, timeout=30)
    thread.join()


def test_a_daemon_that_is_about_to_end_is_recognised(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(DaemonGone):
        exchange(ours, {"request": "status"}, timeout=30)


def test_an_invalid_reply_is_an_error(pair):
    ours, theirs = pair
    thread = answer(theirs, b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises(DaemonError, match="invalid reply"):
        exchange(ours, {"request": "status"}, timeout=30)
    thread.join()


def test_a_silent_daemon_does_not_hang_the_relay(pair):
    ours, _ = pair
    with pytest.raises(DaemonError, match=r"within 0\.01 s"):
        exchange(ours, {"request": "status"}, timeout=0.01)


def test_the_end_of_the_connection_is_waited_for(pair):
    ours, theirs = pair
    assert not wait_for_close(ours, 0.01)
    theirs.sendall(b"late")
    theirs.close()
    assert wait_for_close(ours, 30)


def test_the_request_has_everything_that_a_host_gives_to_a_server(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "t")
    request = serve_request(["x"], {"share_all": True})
    assert (request["argv"], request["cwd"], request["environment"]["TOKEN"]) == (["x"], str(tmp_path), "t")
