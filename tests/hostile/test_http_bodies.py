"""Bodies that are not what they should be: each gets an error, and the next request is served."""

import json
import socket
from itertools import repeat

import pytest

from hostile_target import Target
from http_server import RawConnection, call_tool, request_bytes
from twopipes.http import HttpOptions

GOOD = call_tool("echo", text="good")
DEEP = b"[" * 100_000
HEADERS = GOOD["headers"]
# The beginning of a request that does not say how long its body is.
CHUNKED = request_bytes(
    headers={**HEADERS, "Content-Type": "application/json", "Content-Length": None, "Transfer-Encoding": "chunked"}
)


def body_with(**members):
    message = {**json.loads(GOOD["body"]), **members}
    return json.dumps({name: value for name, value in message.items() if value != "left out"}).encode()


def serves_next(connection):
    response = connection.request(**GOOD)
    return response.status == 200 and response.json["result"]["content"][0]["text"] == "good"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"nonsense", -32700),
        (b"\x00", -32700),
        (b"\xef\xbb\xbf{}", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', -32700),
        (GOOD["body"][:-1], -32700),
        (GOOD["body"] + b"x", -32700),
        (GOOD["body"] + GOOD["body"], -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xed\xa0\x80"}', -32700),
        (DEEP, -32600),
        (b'{"a":' * 100_000, -32600),
        (b"null", -32600),
        (b"1", -32600),
        (b'"text"', -32600),
        (b"[]", -32600),
        (b"[" + GOOD["body"] + b"]", -32600),
        (b"{}", -32600),
        (body_with(jsonrpc="1.0"), -32600),
        (body_with(method=7), -32600),
        (body_with(id={}), -32600),
        (body_with(id=None), -32600),
        (body_with(params=[1]), -32600),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_a_malformed_body_gets_an_error_and_the_next_request_is_served(target, body, code):
    with target.connect() as connection:
        response = connection.request(headers=HEADERS, body=body)
        assert response.status == 400
        assert response.json["error"]["code"] == code
        assert serves_next(connection)


def test_an_empty_body_gets_an_error(target):
    with target.connect() as connection:
        response = connection.request(headers={**HEADERS, "Content-Type": "application/json"})
        assert response.status == 400
        assert serves_next(connection)


def test_depth_inside_the_params_is_bounded(target):
    deep = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":'
        + DEEP
        + b"]" * 100_000
        + b"}}}"
    )
    with target.connect() as connection:
        assert connection.request(headers=HEADERS, body=deep).status == 400
        assert serves_next(connection)


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        None,
        "",
        "application/jsonp",
        "application/json; charset=utf-16",
        "application/json, text/plain",
    ],
)
def test_a_wrong_content_type_is_refused(target, kind):
    """A page of another website can send the first three of these without a preflight."""
    with target.connect() as connection:
        response = connection.request(headers={**HEADERS, "Content-Type": kind}, body=GOOD["body"])
        assert response.status == 415
        assert serves_next(connection)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"'])
def test_other_spellings_of_json_are_accepted(target, kind):
    with target.connect() as connection:
        assert connection.request(headers={**HEADERS, "Content-Type": kind}, body=GOOD["body"]).status == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "identity, gzip"])
def test_a_compressed_body_is_refused_and_never_unpacked(target, encoding):
    with target.connect() as connection:
        response = connection.request(headers={**HEADERS, "Content-Encoding": encoding}, body=GOOD["body"])
        assert response.status == 415
        assert serves_next(connection)


@pytest.mark.parametrize("accepted", ["text/html", "application/json", "text/event-stream", "image/*"])
def test_a_response_that_is_not_accepted_is_refused(target, accepted):
    with target.connect() as connection:
        assert connection.request(headers={**HEADERS, "Accept": accepted}, body=GOOD["body"]).status == 406
        assert serves_next(connection)


@pytest.fixture(scope="module")
def small():
    """A server that accepts 10 kB, and waits a second for it."""
    with Target(HttpOptions(max_body=10_000, read_timeout=1.0)).running() as target:
        target.note_idle_tasks()
        yield target
        target.assert_serves()
        target.assert_calm()


@pytest.mark.parametrize("length", ["10001", "1000000000000", "9" * 30])
def test_a_body_that_says_it_is_too_large_is_refused_before_it_arrives(small, length):
    with small.connect() as connection:
        response = connection.request(headers=HEADERS, body=b"{", length=length)
        # The parser of HTTP refuses a number that fits into no integer.
        assert response.status == 413 or (length == "9" * 30 and response.status == 400)
        connection.wait_until_closed()


def test_a_body_that_does_not_say_its_length_is_refused_when_it_is_too_large(small):
    with small.connect() as connection:
        connection.send(CHUNKED)
        for _ in range(11):
            connection.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
        assert connection.read_response().status == 413
        connection.wait_until_closed()
    small.assert_serves()


def test_an_endless_body_is_cut_off(small):
    with small.connect() as connection:
        connection.send(CHUNKED)
        part = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            list(map(connection.send, repeat(part)))  # ends because the server closes the connection
    small.assert_serves()


def test_a_body_that_stops_arriving_is_given_up(small):
    with small.connect() as connection:
        response = connection.request(headers=HEADERS, body=GOOD["body"][:-1], length=len(GOOD["body"]))
        assert response.status == 408
        connection.wait_until_closed()
    small.assert_calm()


def test_a_body_that_drips_is_given_up(small):
    """Each byte arrives in time, and all of them together do not."""
    with small.connect() as connection:
        connection.send(request_bytes(headers=HEADERS, body=b"{", length=5000))
        connection.socket.settimeout(0.05)
        for _ in range(600):
            try:
                connection.send(b" ")
                if connection.socket.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
        connection.socket.settimeout(30)
        assert connection.read_response().status == 408


def test_a_client_that_leaves_in_the_middle_of_its_body_leaves_nothing_behind(target):
    for _ in range(50):
        with target.connect() as connection:
            connection.send(request_bytes(headers=HEADERS, body=GOOD["body"][:-1], length=len(GOOD["body"])))
    target.assert_calm()


def test_a_body_longer_than_it_says_is_not_part_of_the_request(target):
    with target.connect() as connection:
        connection.send(request_bytes(headers=HEADERS, body=GOOD["body"] + b"evil", length=len(GOOD["body"]), host="localhost"))
        received = connection.wait_until_closed()
    # The rest is a second request, and not a valid one. It may be refused before the first one is answered, or never be complete.
    assert received.count(b"HTTP/1.1 200") + received.count(b"HTTP/1.1 400") in {1, 2}
    assert received.count(b"HTTP/1.1 200") <= 1
    assert b"evil" not in received


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": [len(GOOD["body"]), 3]},
        {"Transfer-Encoding": "chunked", "Content-Length": len(GOOD["body"])},
        {"Content-Length": f"+{len(GOOD['body'])}"},
        {"Content-Length": "0x10"},
        {"Content-Length": "-1"},
        {"Transfer-Encoding": "xchunked", "Content-Length": None},
    ],
    ids=str,
)
def test_a_request_with_two_lengths_or_none_runs_nothing_twice(target, headers):
    """Request smuggling: a proxy and the server must not see different requests."""
    with RawConnection(target.port) as connection:
        connection.send(request_bytes(headers={**HEADERS, **headers}, body=GOOD["body"], host="localhost"))
        received = connection.wait_until_closed()
    assert received.count(b"HTTP/1.1") <= 1
    assert b'"good"' not in received


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(target, method):
    with target.connect() as connection:
        connection.send(request_bytes(method, "/mcp", host="localhost"))
        assert connection.read_head().status in {400, 404, 405, 501}
    target.assert_serves()


@pytest.mark.parametrize("path", ["/", "/mcp/", "/mcp/x", "/../mcp", "//mcp", "/mcp%00", "/MCP", "*", "http://localhost/mcpx"])
def test_other_paths_are_not_found(target, path):
    with target.connect() as connection:
        connection.send(request_bytes("POST", path, HEADERS, GOOD["body"], host="localhost"))
        assert connection.read_head().status in {400, 404}
    target.assert_serves()
