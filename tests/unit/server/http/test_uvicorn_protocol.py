"""The bounds that are added to uvicorn, with both of its parsers."""

import asyncio
import logging
import threading
import time
from contextlib import suppress

import pytest

from http_server import PATIENCE, RawConnection, serve_asgi
from twopipes._server.http import uvicorn_protocol
from twopipes._server.http.uvicorn_protocol import bounded_protocol

pytestmark = pytest.mark.slow

# Seconds for headers that never arrive; and for those that do, on a busy machine.
SOON = 0.1
LATER = 1.0
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"


async def app(scope, receive, send):
    """Respond at once, without reading the body."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(params=["h11", "httptools"])
def parser(request, monkeypatch):
    pytest.importorskip(request.param)
    if request.param == "h11":
        monkeypatch.setattr(uvicorn_protocol.importlib.util, "find_spec", lambda name: None)
    return request.param


@pytest.fixture
def port(parser):
    with serve_asgi(app, read_timeout=SOON) as port:
        yield port


@pytest.fixture
def later_port(parser):
    with serve_asgi(app, read_timeout=LATER) as port:
        yield port


@pytest.fixture
def patient_port(parser):
    with serve_asgi(app) as port:
        yield port


def test_the_parser_is_the_one_that_is_installed(parser):
    assert (
        bounded_protocol(read_timeout=1.0, write_timeout=1.0).__name__
        == {"h11": "BoundedH11", "httptools": "BoundedHttpTools"}[parser]
    )


@pytest.mark.parametrize(
    "beginning", [b"", b"G", GET, GET + b"X: " + b"a" * 1000], ids=["nothing", "a letter", "a line", "a header"]
)
def test_headers_that_do_not_arrive_end_the_connection(port, beginning):
    with RawConnection(port) as connection:
        connection.send(beginning)
        assert connection.wait_until_closed() == b""


def test_the_headers_of_a_second_request_are_bounded_too(later_port):
    with RawConnection(later_port) as connection:
        assert connection.request("GET", "/").body == b"ok"
        connection.send(GET)
        assert connection.wait_until_closed() == b""


def test_the_rest_of_a_body_after_its_response_is_bounded(later_port):
    with RawConnection(later_port) as connection:
        assert connection.request("POST", "/", body=b"x", length=1000).body == b"ok"
        connection.send(b"x")
        assert connection.wait_until_closed() == b""


def test_requests_that_arrive_in_parts_are_served(patient_port):
    with RawConnection(patient_port) as connection:
        for _ in range(3):
            for part in (b"GET / HT", b"TP/1.1\r\nHost: local", b"host\r\n\r", b"\n"):
                connection.send(part)
            assert connection.read_response().body == b"ok"


def test_a_request_that_takes_longer_than_its_headers_may_is_served(parser):
    async def slow(scope, receive, send):
        await asyncio.sleep(1.2 * LATER)
        await app(scope, receive, send)

    with serve_asgi(slow, read_timeout=LATER) as port, RawConnection(port) as connection:
        assert connection.request("GET", "/").body == b"ok"
        assert connection.request("GET", "/").body == b"ok"


@pytest.mark.parametrize("ending", [b"", b"\r\n\r\n"])
def test_headers_that_are_too_large_are_refused(patient_port, ending):
    with RawConnection(patient_port) as connection:
        try:
            connection.send(GET + b"X: " + b"a" * 200_000 + ending)
            head = connection.wait_until_closed()
        except (BrokenPipeError, ConnectionResetError):
            return  # refused while it was being sent
    assert head[:12] in {b"HTTP/1.1 400", b"HTTP/1.1 431", b""}


def test_many_small_headers_are_too_large_together(patient_port):
    with RawConnection(patient_port) as connection:
        try:
            for number in range(20_000):
                connection.send(GET if number == 0 else b"X-%d: aaaaaaaaaaaaaaaa\r\n" % number)
            connection.wait_until_closed()
        except (BrokenPipeError, ConnectionResetError):
            return


def test_headers_of_the_usual_size_are_served(patient_port):
    with RawConnection(patient_port) as connection:
        assert connection.request("GET", "/", {"X-Token": "a" * 30_000}).body == b"ok"
        assert connection.request("GET", "/", {"X-Token": "a" * 30_000}).body == b"ok"
        assert connection.request("GET", "/", {"X-Token": "a" * 30_000}).body == b"ok"


async def large(scope, receive, send):
    """Send much at once."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 20_000_000, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def test_a_client_that_does_not_read_loses_its_connection(parser):
    is_gone = threading.Event()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * 20_000_000, "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone.set()

    with serve_asgi(app, write_timeout=SOON) as port, RawConnection(port) as connection:
        connection.send(GET + b"\r\n")
        assert is_gone.wait(PATIENCE)


def test_a_client_that_reads_slowly_keeps_its_connection(parser):
    with serve_asgi(large, write_timeout=LATER) as port, RawConnection(port) as connection:
        connection.send(GET + b"\r\n")
        connection.read_head()
        received = 0
        while received < 20_000_000:
            data = connection.file.read(1_000_000)
            assert data, f"the connection was closed after {received} bytes"
            received += len(data)
            time.sleep(LATER / 10)  # in total twice as long as the limit
    assert received >= 20_000_000


@pytest.mark.parametrize(
    "request_text",
    [b"garbage\r\n\r\n", GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", GET + b"X: " + b"a" * 200_000 + b"\r\n\r\n"],
    ids=["garbage", "upgrade", "huge"],
)
def test_what_a_client_sends_does_not_fill_the_log(parser, caplog, request_text):
    caplog.set_level(logging.WARNING)
    with serve_asgi(app) as port, RawConnection(port) as connection, suppress(ConnectionError):
        connection.send(request_text)
        connection.read_response()
    assert [record for record in caplog.records if "http" in record.name or "uvicorn" in record.name] == []


def test_an_error_of_the_application_is_logged(parser, caplog):
    async def broken(scope, receive, send):
        raise RuntimeError("broken on purpose")

    with serve_asgi(broken) as port, RawConnection(port) as connection:
        assert connection.request("GET", "/").status == 500
    assert "broken on purpose" in caplog.text


def test_a_response_that_is_not_finished_is_logged_for_those_who_look(parser, caplog):
    async def unfinished(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})

    caplog.set_level(logging.DEBUG, "twopipes.http.requests")
    with serve_asgi(unfinished) as port, RawConnection(port) as connection:
        connection.send(GET + b"\r\n")
        connection.wait_until_closed()
    (record,) = [record for record in caplog.records if record.name == "twopipes.http.requests"]
    assert record.levelname == "DEBUG"
