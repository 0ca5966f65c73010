"""``server.run(http=...)`` as a process: how it starts, how it ends, and several workers on one socket."""

import json
import signal
import socket
import stat
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from http_server import RawConnection, request_bytes
from processes.children import end
from processes.launching import INITIALIZED, KILLED, call, modern
from systems import WINDOWS
from twopipes._server.http.peers import Peers

SERVER = """
    import asyncio, os, sys
    from twopipes import Context, Server
    from twopipes.http import HttpOptions

    server = Server("demo", version="1")

    @server.tool
    def pid() -> int:
        return os.getpid()

    @server.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1, 2)
        while not os.path.exists("go"):
            await asyncio.sleep(0.01)
        return "waited"

    @server.tool
    async def forever(ctx: Context) -> str:
        await ctx.progress(1, 2)
        await asyncio.Event().wait()

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Which?", {"type": "object", "properties": {"name": {"type": "string"}}})).action

    @server.tool
    def crash() -> None:
        os._exit(7)

    server.run(http=sys.argv[1], workers=int(sys.argv[2]))
"""


@pytest.fixture
def serve(write, listening):
    """Start the server; return its process and its port."""

    def serve(*, workers=1, text=SERVER, **options):
        child, address = listening(write(text), "127.0.0.1:0", str(workers), **options)
        return child, int(address.partition("/mcp")[0].rpartition(":")[2])

    return serve


def modern_headers(message):
    params = message["params"]
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"]}
    return headers | ({"Mcp-Name": params["name"]} if "name" in params else {})


def ask(port, message):
    with RawConnection(port) as connection:
        return connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())


@contextmanager
def open_stream(port, message):
    """Send a modern request, and read its response event by event."""
    with RawConnection(port) as connection:
        body = json.dumps(message).encode()
        connection.send(request_bytes("POST", "/mcp", modern_headers(message), body, host=f"127.0.0.1:{port}"))
        assert connection.read_head().headers["content-type"] == "text/event-stream"
        yield connection


def tool(name, id_=1, **arguments):
    params = {"name": name, "arguments": arguments}
    request = modern(id_, "tools/call", **params)
    request["params"]["_meta"]["progressToken"] = "p"
    return request


def pids_of(port, count):
    """Call a tool on new connections until so many workers have answered."""
    seen = set()
    while len(seen) < count:
        with suppress(ConnectionError):  # a worker has just been killed
            seen.add(ask(port, tool("pid")).json["result"]["structuredContent"]["result"])
    return seen


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return True
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_calls_and_ends_subscriptions(number, serve, tmp_path):
    child, port = serve()
    listen = modern(7, "subscriptions/listen", notifications={"toolsListChanged": True})
    with open_stream(port, tool("wait")) as waiting, open_stream(port, listen) as listening:
        assert waiting.read_event()["method"] == "notifications/progress"
        assert listening.read_event()["method"] == "notifications/subscriptions/acknowledged"
        child.signal(number)
        while not is_refused(port):
            pass
        (tmp_path / "go").touch()
        assert waiting.read_event()["result"]["structuredContent"] == {"result": "waited"}
        end = listening.read_event()
        assert (end["id"], end["result"]["resultType"]) == (7, "complete")
        assert listening.read_chunk() == waiting.read_chunk() == b""
    child.ended()


def test_a_call_that_does_not_finish_gets_an_error(serve):
    text = SERVER.replace('version="1")', 'version="1", settings=ServerSettings(drain=0.2))')
    child, port = serve(
        text=text.replace("import Context, Server", "import Context, Server\n    from twopipes.settings import ServerSettings")
    )
    with open_stream(port, tool("forever")) as stream:
        stream.read_event()
        child.signal()
        assert stream.read_event()["error"]["message"] == "the handler was cancelled"
    child.ended()


def test_a_legacy_session_is_served_and_its_stream_ends_with_the_server(serve):
    child, port = serve()
    session = open_session(port)
    assert post(port, call(2, "pid"), session).json["result"]["structuredContent"] == {"result": child.process.pid}
    with open_legacy_stream(port, session) as get:
        child.signal()
        while get.read_chunk():
            pass
    child.ended()


def test_a_public_address_is_refused_without_auth(run, write):
    ended = run(write(SERVER), "0.0.0.0:0", "1")
    assert ended.returncode == 1
    assert b"refused to serve on 0.0.0.0:0 without auth=" in ended.stderr


def test_a_port_in_use_is_named(run, serve, write):
    child, port = serve()
    ended = run(write(SERVER, "other.py"), str(port), "1")
    assert ended.returncode == 1
    reason = "" if WINDOWS else "Address already in use"
    assert f"ListenFailed: cannot listen on 127.0.0.1:{port}: {reason}".encode() in ended.stderr
    child.stop()


def test_workers_share_a_port_and_one_that_crashes_is_replaced(serve):
    child, port = serve(workers=2)
    first = pids_of(port, 2)
    assert child.process.pid not in first
    victim = first.pop()
    end(victim)
    child.err.until("a worker ended with SIGKILL; another one is started")
    with RawConnection(port) as connection, suppress(ConnectionError):
        message = tool("crash")
        connection.request("POST", "/mcp", modern_headers(message), json.dumps(message).encode())
    child.err.until("a worker ended with status 7; another one is started")
    assert victim not in pids_of(port, 2)
    child.stop()


def test_workers_finish_calls_when_the_main_process_is_asked_to_end(serve, tmp_path):
    child, port = serve(workers=2)
    pids_of(port, 2)
    with open_stream(port, tool("wait")) as one, open_stream(port, tool("wait")) as two:
        one.read_event()
        two.read_event()
        child.signal()
        while not is_refused(port):  # also while calls are still running: no process holds the socket
            pass
        (tmp_path / "go").touch()
        for stream in (one, two):
            assert stream.read_event()["result"]["structuredContent"] == {"result": "waited"}
    child.ended()


def test_workers_end_when_the_main_process_is_killed(serve):
    child, port = serve(workers=2)
    pids_of(port, 2)
    child.kill()
    child.out.rest()  # ends when no process holds the pipe any more
    assert child.wait() == KILLED
    assert is_refused(port)


def open_session(port, **capabilities):
    """Open a legacy session and return its headers."""
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}}
    response = post(port, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {})
    session = {"Mcp-Session-Id": response.headers["mcp-session-id"]}
    assert post(port, INITIALIZED, session).status == 202
    return session


def post(port, message, headers):
    """Send a message on a connection of its own, which any worker may get."""
    with RawConnection(port) as connection:
        return connection.request("POST", "/mcp", headers, json.dumps(message).encode())


@contextmanager
def open_legacy_stream(port, session, message=None):
    with RawConnection(port) as connection:
        host = f"127.0.0.1:{port}"
        if message is None:
            connection.send(request_bytes("GET", "/mcp", session | {"Accept": "text/event-stream"}, host=host))
        else:
            connection.send(request_bytes("POST", "/mcp", session, json.dumps(message).encode(), host=host))
        head = connection.read_head()
        assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
        yield connection


def test_a_legacy_session_is_served_by_its_worker_whichever_gets_the_connection(serve):
    child, port = serve(workers=2)
    pids_of(port, 2)
    sessions = [open_session(port, elicitation={}) for _ in range(10)]
    owners = set()
    for session in sessions:
        seen = {post(port, call(n, "pid"), session).json["result"]["structuredContent"]["result"] for n in range(10)}
        assert len(seen) == 1
        owners |= seen
    assert len(owners) == 2
    for session in sessions:
        with open_legacy_stream(port, session) as get, open_legacy_stream(port, session, call("ask", "ask")) as asking:
            question = asking.read_event()
            assert question["method"] == "elicitation/create"
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
            assert post(port, answer, session).status == 202
            assert asking.read_event()["result"]["structuredContent"] == {"result": "decline"}
            with RawConnection(port) as connection:
                assert connection.request("DELETE", "/mcp", session).status == 204
            while get.read_chunk():
                pass
        assert post(port, call(1, "pid"), session).status == 404
    with ExitStack() as streams:
        gets = [streams.enter_context(open_legacy_stream(port, open_session(port))) for _ in range(6)]
        child.signal()
        for get in gets:
            while get.read_chunk():
                pass
    child.ended()


def test_the_sessions_of_a_worker_that_crashed_are_unknown(serve):
    child, port = serve(workers=2)
    pids_of(port, 2)
    session = open_session(port)
    owner = post(port, call(1, "pid"), session).json["result"]["structuredContent"]["result"]
    with open_legacy_stream(port, session) as get:
        end(owner)
        with suppress(ConnectionError, ValueError):  # the stream breaks, or ends in the middle of a part
            while get.read_chunk():
                pass
    child.err.until("another one is started")
    pids_of(port, 2)
    for _ in range(10):
        assert post(port, call(1, "pid"), session).status == 404
    child.stop()


def test_the_folder_of_the_workers_is_private(serve):
    with tempfile.TemporaryDirectory() as temporary:  # the path of a socket must be short, and that of a test is long
        child, port = serve(workers=2, env={"TMPDIR": temporary})
        pids_of(port, 2)
        (folder,) = Path(temporary).iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {"0", "1"} <= {path.name for path in folder.iterdir()}
        child.stop()
        assert not folder.exists()


@pytest.mark.parametrize("session_id", ["0.x", "1.x", "2.x", "99999.x", "-1.x", "1", "../0.x", "1.x/../../etc", "\u0661.x"])
def test_a_made_up_session_id_reaches_no_other_file(session_id, tmp_path):
    peers = Peers(str(tmp_path), 2, 0)
    assert peers.worker_in(session_id) in ({1} if session_id.startswith("1.") else {None})


def test_a_program_that_cannot_start_is_not_restarted_forever(run, write):
    text = SERVER.replace(
        "server.run(", "import os\n    assert 'TWOPIPES_HTTP_WORKER' not in os.environ, 'broken'\n    server.run("
    )
    ended = run(write(text), "127.0.0.1:0", "2")
    assert ended.returncode == 1
    assert b"AssertionError: broken" in ended.stderr
    assert b"a worker ended with status 1 and is not replaced; the server ends" in ended.stderr


@pytest.mark.parametrize("count", ["0", "-1", "True"])
def test_the_number_of_workers_is_at_least_one(count, run, write):
    ended = run(write(SERVER.replace("int(sys.argv[2])", count)), "0", "1")
    assert b"workers= must be an integer of at least 1, got " + count.encode() in ended.stderr


def test_worker_numbers_need_http(run, write):
    ended = run(write(SERVER.replace("http=sys.argv[1], ", "")), "0", "2")
    assert b"workers= needs http=, such as http=8000" in ended.stderr
