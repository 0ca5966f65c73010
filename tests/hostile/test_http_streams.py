"""Clients that open and do not read, do not write, or leave."""

import json
import socket
import struct

import pytest

from hostile_target import Target
from http_server import PATIENCE, RawConnection, call_tool, listen, request_bytes
from twopipes._http.sse import SseParser
from twopipes.http import HttpOptions

URI = "test://changing"


def reset(connection):
    """End a connection at once, without the usual goodbye."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.file.close()
    connection.socket.close()


def acquire(semaphore, times=1):
    for _ in range(times):
        assert semaphore.acquire(timeout=PATIENCE)


def slow_reader(port):
    """A connection that holds as little as the system allows."""
    connection = RawConnection.__new__(RawConnection)
    connection.socket = socket.socket()
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.socket.settimeout(PATIENCE)
    connection.socket.connect(("127.0.0.1", port))
    connection.file = connection.socket.makefile("rb", buffering=0)
    connection.port = port
    return connection


def post(message, host="localhost"):
    return request_bytes(headers=message["headers"], body=message["body"], host=host)


def test_a_client_that_leaves_cancels_its_call(target):
    with target.connect() as connection:
        connection.send(post(call_tool("wait")))
        acquire(target.started)
    acquire(target.cancelled)
    target.assert_calm()


def test_a_client_that_closes_its_side_only_is_treated_as_gone(target):
    with target.connect() as connection:
        connection.send(post(call_tool("wait")))
        acquire(target.started)
        connection.socket.shutdown(socket.SHUT_WR)
        acquire(target.cancelled)
        connection.wait_until_closed()
    target.assert_calm()


def test_a_storm_of_disconnects_leaves_nothing_behind(target):
    for _ in range(5):
        connections = [RawConnection(target.port) for _ in range(60)]
        for number, connection in enumerate(connections):
            connection.send(post(call_tool("wait") if number % 3 else listen(resourceSubscriptions=[URI])))
        acquire(target.started, 40)
        for connection in connections:
            reset(connection)
        acquire(target.cancelled, 40)
    target.assert_calm()


@pytest.fixture(scope="module")
def impatient():
    """A server that waits half a second for a reader."""
    with Target(HttpOptions(write_timeout=0.5)).running() as target:
        target.note_idle_tasks()
        yield target
        target.assert_serves()
        target.assert_calm()


def test_a_reader_that_never_reads_a_large_result_is_given_up(impatient):
    connection = slow_reader(impatient.port)
    connection.send(post(call_tool("big", size=20_000_000)))
    acquire(impatient.started)
    impatient.assert_calm()
    connection.socket.close()


def test_a_reader_that_never_reads_its_events_is_given_up(impatient):
    connection = slow_reader(impatient.port)
    connection.send(post(call_tool("flood")))
    acquire(impatient.started)
    acquire(impatient.cancelled)
    impatient.assert_calm()
    connection.socket.close()


def test_many_readers_that_never_read_delay_no_other_client(impatient):
    connections = [slow_reader(impatient.port) for _ in range(30)]
    for connection in connections:
        connection.send(post(call_tool("flood")))
    acquire(impatient.started, 30)
    impatient.assert_serves()
    acquire(impatient.cancelled, 30)
    impatient.assert_calm()
    for connection in connections:
        connection.socket.close()


def test_a_listen_that_is_not_read_loses_its_stream_and_not_the_server(impatient):
    connection = slow_reader(impatient.port)
    connection.send(post(listen(resourceSubscriptions=[URI])))
    connection.file.read(1)
    for _ in range(300):
        if int(impatient.call("tasks")) <= impatient.idle_tasks:
            break  # given up
        impatient.announce(200)
    impatient.assert_calm()
    connection.socket.close()


@pytest.fixture(scope="module")
def narrow():
    """A server that holds few requests and streams."""
    with Target(HttpOptions(max_requests=5, max_streams=5)).running() as target:
        target.note_idle_tasks()
        yield target
        target.assert_serves()
        target.assert_calm()


def test_requests_beyond_the_limit_are_refused_and_leave_the_others_alone(narrow):
    connections = [RawConnection(narrow.port) for _ in range(5)]
    for connection in connections:
        connection.send(post(call_tool("wait")))
    acquire(narrow.started, 5)
    with narrow.connect() as connection:
        response = connection.request(**call_tool("echo", text="x"))
        assert response.status == 503
        assert response.headers["retry-after"]
    for connection in connections:
        reset(connection)
    acquire(narrow.cancelled, 5)
    narrow.assert_calm()


def test_bodies_that_do_not_arrive_count_as_requests(narrow):
    """Otherwise a client could hold a body of the largest size on each of any number of connections."""
    half = call_tool("echo", text="x")
    connections = [RawConnection(narrow.port) for _ in range(5)]
    for connection in connections:
        connection.send(request_bytes(headers=half["headers"], body=half["body"][:-1], length=len(half["body"]), host="localhost"))
    statuses = set()
    for _ in range(2000):
        with narrow.connect() as connection:
            statuses.add(connection.request(**half).status)
        if 503 in statuses:
            break
    assert 503 in statuses
    for connection in connections:
        reset(connection)
    narrow.assert_calm()


def test_streams_beyond_the_limit_are_refused_and_leave_the_others_alone(narrow):
    connections = [RawConnection(narrow.port) for _ in range(5)]
    for connection in connections:
        connection.send(post(listen(resourceSubscriptions=[URI])))
        assert connection.read_head().status == 200
        assert connection.read_event()["method"] == "notifications/subscriptions/acknowledged"
    with narrow.connect() as connection:
        response = connection.request(**listen(resourceSubscriptions=[URI]))
        assert response.status == 503
        assert "error" in response.json
    narrow.assert_serves()  # listens do not count as requests
    narrow.announce()
    for connection in connections:
        assert connection.read_event()["method"] == "notifications/resources/updated"
        reset(connection)
    narrow.assert_calm()


def test_hundreds_of_listens_are_served_and_end_with_their_connections(target):
    connections = [RawConnection(target.port) for _ in range(300)]
    for connection in connections:
        connection.send(post(listen(resourceSubscriptions=[URI])))
    for connection in connections:
        assert connection.read_head().status == 200
        connection.read_event()
    target.assert_serves()
    for connection in connections:
        reset(connection)
    target.assert_calm()


# What a text of a tool can do to a stream


HOSTILE_TEXTS = [
    'x\n\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
    "x\r\rdata: evil\r\r",
    "x\r\nevent: evil\r\nid: 7\r\nretry: 1\r\n\r\n",
    "x\u2028data: evil\u2029\x85\x0b\x0c",
    "\ufeffdata: evil",
    ":\n:\n",
    "\x00",
]


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=repr)
def test_no_text_of_a_tool_becomes_an_event_of_its_own(target, text):
    with target.connect() as connection:
        response = connection.request(**call_tool("repeat", text=text))
    assert response.headers["content-type"] == "text/event-stream"
    parser = SseParser(10_000)
    events = [event for event in parser.feed(response.body) if event.data]
    messages = [json.loads(event.data) for event in events]
    assert [message.get("method", "result") for message in messages] == [
        "notifications/message",
        "notifications/progress",
        "result",
    ]
    assert messages[0]["params"]["data"] == messages[1]["params"]["message"] == text
    assert messages[2]["result"]["content"][0]["text"] == text
    assert response.body.count(b"\ndata:") + response.body.startswith(b"data:") == 3
