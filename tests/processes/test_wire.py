"""Hostile, huge and early input to a real server: the next good line is always served."""

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest

from processes.launching import EXAMPLES, INITIALIZE, INITIALIZED, NET, PING, call, lines, modern, python, request, text_of
from systems import LINUX

if sys.platform != "win32":
    import fcntl

MIB = 1024 * 1024


@pytest.fixture
def everything(launch):
    child = launch(EXAMPLES / "everything.py")
    child.initialize()
    return child


BAD_LINES = {
    "no JSON": ("{", -32700, None),
    "half a message": ('{"jsonrpc":"2.0","id":1,"meth', -32700, None),
    "no object": ("17", -32600, None),
    "a string": ('"hello"', -32600, None),
    "no method": ('{"jsonrpc":"2.0","id":5}', -32600, 5),
    "another version": ('{"jsonrpc":"1.0","id":6,"method":"ping"}', -32600, 6),
    "a fraction as id": ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    "null as id": ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    "true as id": ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    "params that are not an object": ('{"jsonrpc":"2.0","id":7,"method":"ping","params":3}', -32600, 7),
    "a batch in a revision without batches": ('[{"jsonrpc":"2.0","id":8,"method":"ping"}]', -32600, None),
}


@pytest.mark.parametrize("kind", ["one after the other", "all at once"])
def test_malformed_lines_get_a_response_and_the_session_continues(kind, everything):
    """Defects 5 and 16 of the peers: they end the session, or send nothing."""
    if kind == "all at once":
        everything.send(*(line for line, _, _ in BAD_LINES.values()))
        answers = [everything.receive() for _ in BAD_LINES]
    else:
        answers = []
        for line, _, _ in BAD_LINES.values():
            everything.send(line)
            answers.append(everything.receive())
            assert everything.ask(PING)["result"] == {}
    found = {name: (answer["error"]["code"], answer.get("id")) for name, answer in zip(BAD_LINES, answers, strict=True)}
    expected_codes = {name: code for name, (_, code, _) in BAD_LINES.items()}
    assert {name: code for name, (code, _) in found.items()} == expected_codes
    assert {name: id_ for name, (_, id_) in found.items()} == {name: id_ for name, (_, _, id_) in BAD_LINES.items()}
    assert everything.ask(PING)["result"] == {}
    assert everything.finish() == []


def test_bytes_that_are_not_text_get_an_error(everything):
    everything._send(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}\n\xef\xbb\xbf\r\n\r\n' + lines(PING)[:-1] + b"\r\n")
    answers = []
    while not answers or answers[-1].get("id") != "ping":
        answers.append(everything.receive())
    assert all("error" in answer for answer in answers[:-1])
    assert answers[-1]["result"] == {}
    everything.finish()


def test_two_requests_with_one_id_get_one_response(everything):
    """Defect 10 of the peers: they respond twice."""
    everything.send(call(1, "block", seconds=0.2), call(1, "echo", text="me too"), PING)
    said = [everything.receive(), everything.receive()]
    said += everything.finish()
    about_one = [message for message in said if message.get("id") == 1]
    assert [text_of(message) for message in about_one] == ["done"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("tool", ["slow", "block"])
def test_no_message_after_a_cancellation(tool, era, launch):
    """CA-03, CA-04, defect 11 of the peers: not one message for that id or its token, up to the end."""
    child = launch(EXAMPLES / "everything.py")
    arguments = {"seconds": 0.001, "steps": 100_000} if tool == "slow" else {"seconds": 1000.0}
    if era == "legacy":
        child.initialize()
        child.send(request("x", "tools/call", name=tool, arguments=arguments, _meta={"progressToken": "p"}))
    else:
        asked = modern("x", "tools/call", name=tool, arguments=arguments)
        asked["params"]["_meta"]["progressToken"] = "p"
        child.send(asked)
    if tool == "slow":
        while child.receive()["params"]["progress"] < 3:
            pass
    child.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x", "reason": "enough"}})
    # Messages sent before the server read the cancellation may still arrive; the response to this was sent later.
    child.ask(modern("after", "tools/call", name="echo", arguments={"text": "still there"}))
    # The server does not wait for the cancelled tool, which could run for a quarter of an hour.
    assert child.finish() == []


def test_a_cancelled_id_may_be_used_again(everything):
    everything.send(call(1, "block", seconds=1000.0))
    everything.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert text_of(everything.ask(call(1, "echo", text="again"))) == "again"
    assert everything.finish() == []


@pytest.mark.parametrize("size", [10 * MIB, 63 * MIB], ids=["10 MiB", "63 MiB"])
def test_a_large_line_is_served(size, everything):
    """Defect 17 of the peers: they disconnect at 10 MB, or have no limit at all."""
    text = "x" * size
    assert len(text_of(everything.ask(call(1, "echo", text=text)))) == size
    assert everything.ask(PING)["result"] == {}
    if LINUX:
        # The text is in memory in the request and the response, with some copies in between; not hundreds of megabytes more.
        status = Path(f"/proc/{everything.process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s*(\d+)", status)[1]) * 1024
        assert peak < 64 * MIB + 8 * size
    everything.finish()


def test_a_line_over_the_limit_is_refused_and_the_next_one_served(everything):
    """Defect 17 of the peers: a limit must not close the connection. The error has the id if the id was near the start."""
    everything.send(call("large", "echo", text="x" * (65 * MIB)), PING)
    refused, pong = everything.receive(), everything.receive()
    assert refused["error"]["code"] in {-32600, -32700}
    assert pong["result"] == {}
    everything.finish()


def test_a_message_may_come_in_any_pieces(everything):
    """FR-13: byte by byte, or many in one."""
    for byte in lines(PING):
        everything._send(bytes([byte]))
    assert everything.receive()["id"] == "ping"
    everything.send(*(call(number, "add", a=number) for number in range(200)))
    assert {everything.receive()["id"] for _ in range(200)} == set(range(200))
    everything.finish()


def test_lines_of_concurrent_tools_do_not_mix(everything):
    """FR-13: large results of many tools at once, each on its line."""
    everything.send(*(call(number, "echo", text=str(number % 10) * 200_000) for number in range(50)))
    for _ in range(50):
        answer = everything.receive()
        assert set(text_of(answer)) == {str(answer["id"] % 10)}
    everything.finish()


def test_a_client_that_floods_and_never_reads_does_not_grow_the_server(environment):
    """While the peer does not read, we do not read."""
    into, writing = os.pipe()
    reading, out = os.pipe()
    process = subprocess.Popen(python(EXAMPLES / "everything.py"), stdin=into, stdout=out, env=environment)
    os.close(into)
    os.close(out)
    flood = lines(*(call(number, "echo", text="x" * 10_000) for number in range(100)))
    os.write(writing, lines(INITIALIZE, INITIALIZED))
    assert os.read(reading, 65536).startswith(b'{"jsonrpc"')
    fcntl.fcntl(writing, fcntl.F_SETFL, fcntl.fcntl(writing, fcntl.F_GETFL) | os.O_NONBLOCK)
    sent = 0
    # Up to 100 MB, or until the server has read nothing for a second, because its output is not read.
    rest = b""
    while sent < 100_000_000 and select.select([], [writing], [], 1.0)[1]:
        rest = rest or flood
        written = os.write(writing, rest)
        sent, rest = sent + written, rest[written:]
    assert sent < 50_000_000
    os.close(reading)
    os.close(writing)
    assert process.wait(NET) == 0


def test_pipelined_openings_get_responses_in_order(launch):
    """Discovery and a handshake in one read, as some hosts send them; then a plain modern request."""
    child = launch(EXAMPLES / "hello.py")
    child.send(modern("probe", "server/discover"), INITIALIZE, INITIALIZED, modern(1, "tools/list"), PING)
    heard = [child.receive()["id"] for _ in range(4)]
    # Responses of the session itself keep their order; those of handlers may come later.
    assert [id_ for id_ in heard if id_ != 1] == ["probe", 0, "ping"]
    assert 1 in heard
    assert child.finish() == []


def test_credentials_come_from_the_environment(write, launch):
    """FR-16: a server gets a secret from the environment, without any message about it on the wire."""
    program = """
        import os
        from twopipes import Server
        server = Server("vault")

        @server.tool
        def fingerprint() -> int:
            return len(os.environ["VAULT_TOKEN"])

        server.run()
    """
    child = launch(write(program), env={"VAULT_TOKEN": "top secret", "TWOPIPES_TRACE": "1"})
    opened = child.initialize()
    answer = child.ask(call(1, "fingerprint"))
    assert answer["result"]["structuredContent"] == {"result": 10}
    child.finish()
    assert "auth" not in json.dumps(opened)
    # It does not appear in the trace either.
    assert "top secret" not in child.complaints()
