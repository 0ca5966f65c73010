"""Servers on Windows, end to end: connect, call, ask, end."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from twopipes import connect
from twopipes._process.command import ServerCommand
from twopipes._trace.file import TraceFile

NET = 60

SERVER = """
    from twopipes import Server

    server = Server("windows", version="1")

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def prints() -> str:
        import ctypes, os, subprocess, sys
        print("a stray print \N{SPARKLES}")
        os.write(1, b"by its number\\n")
        os.system("echo by a shell")
        subprocess.run([sys.executable, "-c", "print('by a child')"])
        libc = ctypes.CDLL("ucrtbase")
        libc.puts(b"by C")
        libc.fflush(None)
        return "done"

    @server.tool()
    def listens() -> str:
        import subprocess, sys
        child = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"], capture_output=True)
        return repr((sys.stdin.read(), child.stdout.strip()))

    @server.tool()
    def handlers() -> list[str]:
        import signal
        return [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)]

    @server.tool()
    def raises(number: int) -> str:
        import signal
        signal.raise_signal(number)
        return "raised"

    @server.tool()
    def says_and_exits() -> str:
        import os, sys
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)

    if __name__ == "__main__":
        server.run()
"""

OPENING = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"test","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def run(body):
    async def bounded():
        async with asyncio.timeout(NET):
            return await body

    return asyncio.run(bounded())


def server_command(write):
    return ServerCommand([sys.executable, str(write(SERVER))], environment="inherit")


def test_a_call_with_text_of_every_language(write):
    async def scenario():
        async with connect(server_command(write)) as client:
            result = (await client.call_tool("echo", {"text": "Grüße, 世界 \N{SPARKLES}\r\n"})).text
            assert result == "Grüße, 世界 \N{SPARKLES}\r\n"
        assert client.closed.ended_by == "eof"
        assert client.closed.exit.code == 0

    run(scenario())


def test_nothing_but_messages_reaches_the_wire(write):
    """FR-04: prints, descriptors, shells, children and C code."""

    async def scenario():
        seen = []
        command = ServerCommand(
            [sys.executable, str(write(SERVER))], environment="inherit", stderr=lambda line: seen.append(line.text)
        )
        async with connect(command) as client:
            assert (await client.call_tool("prints")).text == "done"
            assert (await client.call_tool("listens")).text == "('', b'0')"
        found = {line.rstrip() for line in seen}
        assert {"a stray print \N{SPARKLES}", "by its number", "by a shell", "by a child", "by C"} <= found
        assert client.closed.ended_by == "eof"

    run(scenario())


def test_a_server_handles_ctrl_break(write):
    # Defect: only SIGINT and SIGTERM were handled, which no host can send on Windows.
    async def scenario():
        async with connect(server_command(write)) as client:
            handlers = (await client.call_tool("handlers")).structured["result"]
            assert all("ended_by_signals" in each for each in handlers), handlers

    run(scenario())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGBREAK"])
def test_a_signal_ends_a_server_whose_stdin_stays_open(write, name):
    # A thread is in a read of stdin at that moment, and nothing can wake it.
    params = {"name": "raises", "arguments": {"number": int(getattr(signal, name))}}
    request = OPENING + json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).encode() + b"\n"
    command = [sys.executable, str(write(SERVER))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(request)
        process.stdin.flush()
        try:
            assert process.wait(NET) == 0
        finally:
            process.kill()
        lines = process.stdout.read().splitlines()
        assert [json.loads(line)["id"] for line in lines] == [1, 2]
        assert process.stderr.read() == b""


def test_flushed_stderr_is_written_before_a_sudden_exit(write):
    # Defect: a thread writes stderr, and os._exit() does not wait for it.
    request = OPENING + b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"says_and_exits","arguments":{}}}\n'
    server = write(SERVER)
    for _ in range(3):
        done = subprocess.run([sys.executable, str(server)], input=request, capture_output=True, timeout=NET, check=False)
        assert done.returncode == 3
        assert b"last words" in done.stderr


def test_lines_end_with_a_bare_newline(write):
    done = subprocess.run(
        [sys.executable, str(write(SERVER))],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n',
        capture_output=True,
        timeout=NET,
        check=True,
    )
    assert done.stdout.endswith(b"}\n")
    assert b"\r" not in done.stdout


def test_the_doctor_does_not_report_a_healthy_server(write):
    # Defects: without a console it crashed, or reported that the server ignores SIGTERM.
    command = [sys.executable, "-m", "twopipes", "doctor", "--quick", "--", sys.executable, str(write(SERVER))]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * NET, check=False)
    assert b"SIGTERM" not in done.stdout, done.stdout.decode()
    assert done.stderr == b""
    # On a busy machine the server starts slowly, which the doctor reports.
    assert done.returncode == 0 or b"slow-start" in done.stdout, done.stdout.decode()


def test_the_example_of_two_eras_writes_to_a_code_page():
    done = subprocess.run(
        [sys.executable, "examples/two_eras.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=NET,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\u2728" in done.stdout


def test_an_earlier_recording_is_renamed(tmp_path):
    # Defect: the new name was held open while the file was renamed to it, which Windows refuses.
    path = tmp_path / "session.jsonl"
    for text in (b"first\n", b"second\n", b"third\n"):
        file = TraceFile(str(path))
        assert file.path == str(path)
        file.write(text)
        file.close()
    found = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert found == {"session.jsonl": b"third\n", "session-1.jsonl": b"first\n", "session-2.jsonl": b"second\n"}


def test_a_recording_that_another_program_writes_keeps_its_name(tmp_path):
    path = tmp_path / "session.jsonl"
    first = TraceFile(str(path))
    second = TraceFile(str(path))
    assert second.path == str(tmp_path / "session-1.jsonl")
    first.write(b"first\n")
    second.write(b"second\n")
    first.close()
    second.close()
    assert path.read_bytes() == b"first\n"
    assert (tmp_path / "session-1.jsonl").read_bytes() == b"second\n"
