"""Servers that listen: many independent connections, and the same messages as over stdio."""

import json
import signal
import socket
import stat
import struct

import pytest

from processes.launching import EXAMPLES, INITIALIZED, PING, call, modern, python, request, text_of
from systems import WINDOWS

EVERYTHING = EXAMPLES / "everything.py"


@pytest.fixture(params=["unix", "tcp"])
def place(request, tmp_path):
    """The options of `twopipes run` to listen."""
    return ["--unix", tmp_path / "server.sock"] if request.param == "unix" else ["--tcp", "127.0.0.1:0"]


@pytest.fixture
def serve(listening):
    def serve(place, server=EVERYTHING, **options):
        return listening(python("-m", "twopipes", "run", server, *place), **options)

    return serve


def test_connections_are_separate_sessions(place, serve, connect):
    """ST-05: the handshake, log level and history of a connection do not affect another."""
    child, address = serve(place)
    first, second, third = (connect(address) for _ in range(3))
    first.initialize(elicitation={})
    assert "error" in second.ask(request(1, "tools/list"))  # this one is not initialized
    third.ask(modern(1, "tools/call", name="echo", arguments={"text": "x"}))
    lists = [peer.ask(modern("list", "tools/list"))["result"]["tools"] for peer in (first, second, third)]
    assert lists[0] == lists[1] == lists[2]
    child.stop()


def test_a_lost_connection_does_not_affect_others(place, serve, connect):
    """SD-08: dropped in the middle of a call, a line, and a subscription."""
    child, address = serve(place)
    survivor = connect(address)
    survivor.initialize()
    survivor.send(call("long", "slow", steps=20, seconds=0.01))
    for number in range(4):
        victim = connect(address)
        victim.initialize()
        victim.send(modern("listen", "subscriptions/listen", notifications={"toolsListChanged": True}))
        victim.send(call(1, "block", seconds=1000.0), call(2, "echo", text="x" * 1_000_000))
        victim._send(b'{"jsonrpc":"2.0",')
        if number % 2 and isinstance(victim.socket, socket.socket):  # a reset instead of EOF, where the system distinguishes them
            victim.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("HH" if WINDOWS else "ii", 1, 0))
        victim.dispose()
    assert text_of(survivor.receive_response("long")) == "20 steps"
    assert survivor.ask(PING)["result"] == {}
    child.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_subscriptions_and_finishes_calls(number, place, serve, connect):
    """SU-13, SU-14: on every connection."""
    child, address = serve(place)
    peers = [connect(address) for _ in range(3)]
    for peer in peers:
        peer.send(modern(7, "subscriptions/listen", notifications={"toolsListChanged": True}))
        assert peer.receive()["method"] == "notifications/subscriptions/acknowledged"
    peers[0].send(modern(8, "tools/call", name="slow", arguments={"steps": 3, "seconds": 0.02}))
    peers[0].ask(modern(9, "tools/call", name="echo", arguments={"text": "in order"}))
    child.signal(number)
    said = [[json.loads(line) for line in peer.out.rest()] for peer in peers]
    assert [message["id"] for message in said[0] if "id" in message] == [8, 7]
    for messages in said:
        *_, cancelled, result = messages
        assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", 7)
        assert (result["id"], result["result"]["resultType"]) == (7, "complete")
    child.ended()


def test_a_stuck_tool_does_not_keep_a_listening_server_alive(place, write, serve, connect):
    program = """
        import sys, time
        from twopipes import Server, ServerSettings
        server = Server("stuck", settings=ServerSettings(drain=0.1, drain_on_signal=0.1))

        @server.tool
        async def stick() -> str:
            print("begun", file=sys.stderr, flush=True)
            time.sleep(1000)
    """
    child, address = serve(place, write(program))
    peer = connect(address)
    peer.send(modern(1, "tools/call", name="stick", arguments={}))
    child.err.until("begun")
    child.signal()
    assert child.wait() == 0
    assert peer.out.rest() == []


def test_a_unix_socket_is_private_and_removed_with_its_server(serve, connect, tmp_path):
    path = tmp_path / "server.sock"
    child, address = serve(["--unix", path])
    assert address == f"unix:{path}"
    if not WINDOWS:  # which has no modes
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert connect(address).ask(PING)["result"] == {}
    child.stop()
    if not WINDOWS:  # where a server that is killed leaves the file behind, and the next one replaces it
        assert not path.exists()


def test_run_listens_as_the_program_says(write, listening, connect, tmp_path):
    """`server.run(unix=...)` and `server.run(tcp=...)`, without the command, and both at once."""
    program = f"""
        from twopipes import Server
        server = Server("two doors")
        server.run(unix={str(tmp_path / "door")!r}, tcp=("127.0.0.1", 0))
    """
    child, unix = listening(write(program))
    tcp = child.err.until(" listens on ").partition(" listens on ")[2].strip()
    for address in (unix, tcp):
        assert connect(address).ask(modern(1, "server/discover"))["result"]["resultType"] == "complete"
    child.stop()


@pytest.mark.parametrize("kind", ["taken", "no such folder", "no such port", "no such host"])
def test_an_unusable_address_is_reported_in_one_line(kind, serve, run, tmp_path):
    if kind == "taken":
        child, _ = serve(["--unix", tmp_path / "taken"])
    place = {
        "taken": ["--unix", tmp_path / "taken"],
        "no such folder": ["--unix", tmp_path / "no" / "folder"],
        "no such port": ["--tcp", "127.0.0.1:65536"],
        "no such host": ["--tcp", "[::g]:1"],
    }[kind]
    done = run(python("-m", "twopipes", "run", EXAMPLES / "hello.py", *place))
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1
    if kind == "taken":
        child.stop()


def test_serve_inside_a_loop_ends_when_cancelled_and_handles_no_signals(write, run, tmp_path):
    program = f"""
        import asyncio, json, os, signal
        from twopipes import Server
        server = Server("guest")
        path = {str(tmp_path / "guest")!r}
        mine = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)

        async def main():
            serving = asyncio.create_task(server.serve(unix=path))
            while not os.path.exists(path):
                await asyncio.sleep(0)
            assert (signal.getsignal(signal.SIGTERM), ) == mine[:1]
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(LISTEN)
            assert b"acknowledged" in await reader.readline()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            said = [json.loads(line) for line in (await reader.read()).splitlines()]
            assert [message.get("method", message.get("id")) for message in said] == ["notifications/cancelled", 1], said
            assert not os.path.exists(path)
            assert len(asyncio.all_tasks()) == 1
            writer.close()

        asyncio.run(main())
        print("good")
    """
    listen = json.dumps(modern(1, "subscriptions/listen", notifications={"toolsListChanged": True})).encode() + b"\n"
    done = run(write(program.replace("LISTEN", repr(listen))))
    assert (done.stdout, done.stderr) == (b"good\n", b"")


# The same messages over every channel


def rounds(peer):
    """Run a conversation of both eras with questions, errors, progress and a subscription; return all messages in order."""
    heard = []

    def ask(message):
        peer.send(message)
        while True:
            heard.append(peer.receive())
            if "method" not in heard[-1] and heard[-1].get("id") == message["id"]:
                return heard[-1]

    ask(modern("probe", "server/discover"))
    ask(
        request(
            0,
            "initialize",
            protocolVersion="2025-11-25",
            capabilities={"elicitation": {}},
            clientInfo={"name": "test", "version": "1"},
        )
    )
    peer.send(INITIALIZED)
    ask(request(1, "tools/list"))
    ask(call(2, "echo", text="a\nb\u2028c"))
    ask(request(3, "tools/call", name="slow", arguments={"steps": 1, "seconds": 0}, _meta={"progressToken": 0}))
    ask(call(4, "add", a="one"))
    ask(request(5, "no/such/method"))
    peer.send(call(6, "ask"))
    heard.append(peer.receive())
    peer.send({"jsonrpc": "2.0", "id": heard[-1]["id"], "result": {"action": "accept", "content": {"name": "Ada", "age": 36}}})
    heard.append(peer.receive())
    peer.send("rubbish")
    heard.append(peer.receive())
    asked = ask(modern(7, "tools/call", {"elicitation": {}}, name="ask", arguments={}))["result"]
    answers = {key: {"action": "decline"} for key in asked["inputRequests"]}
    retry = {"requestState": asked["requestState"], "inputResponses": answers}
    ask(modern(8, "tools/call", {"elicitation": {}}, name="ask", arguments={}, **retry))
    peer.send(modern(9, "subscriptions/listen", notifications={"toolsListChanged": True}))
    heard.append(peer.receive())
    ask(modern(10, "resources/read", uri="note://first"))
    ask(modern(11, "prompts/get", name="review", arguments={"code": "x"}))
    return heard


def without_differences(messages):
    for message in messages:
        message.get("result", {}).pop("requestState", None)
    return messages


def test_the_same_conversation_over_stdio_and_sockets(launch, serve, connect, tmp_path):
    """FR-11, FR-12: pipes, a socket pair, a Unix socket and TCP carry the same messages."""
    heard = {}
    for wire in ("pipe",) if WINDOWS else ("pipe", "socket"):  # there a socket cannot be the standard input of a Python program
        child = launch(EVERYTHING, wire=wire)
        heard[wire] = rounds(child)
        child.finish()
    for place in (["--unix", tmp_path / "server.sock"], ["--tcp", "127.0.0.1:0"]):
        child, address = serve(place)
        heard[place[0]] = rounds(connect(address))
        child.stop()
    first, *others = map(without_differences, heard.values())
    assert len(first) > 14
    assert all(other == first for other in others)
