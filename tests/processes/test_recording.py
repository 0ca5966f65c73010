"""``connect(trace=...)`` and ``server.run(trace=...)`` with real servers: the recordings, and that recording disturbs nothing."""

import asyncio
import errno
import gc
import json
import os
import subprocess
import sys
import threading

import pytest

from processes.children import EXITS_AT_ONCE, no_thread_left, program
from processes.client_stage import AT_ONCE, IMPATIENT, PATIENT
from processes.launching import EXAMPLES, NET, lines, modern, python
from twopipes import Server, ServerCommand, ServerExited, blocking, connect
from twopipes.errors import LocalProtocolError, StartFailed
from twopipes.trace import Event, Line, Recorder, header_for, read
from twopipes.types import ClientOptions, EraCache

SERVER = """
    import os
    from twopipes import Server

    server = Server("real")

    @server.tool
    def add(a: int, b: int) -> str:
        os.write(2, b"adding \\xff\\n")
        return str(a + b)

    @server.tool
    def login(password: str) -> str:
        return "welcome"

    @server.tool
    def die() -> str:
        os._exit(7)

    server.run()
"""
# Implements just enough of the protocol, and ignores EOF and SIGTERM.
STUBBORN = """
    import json, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "public"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    while True:
        signal.pause()
"""


@pytest.fixture(autouse=True)
def _no_thread_remains():
    yield
    gc.collect()
    no_thread_left()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "x.jsonl"


def to(text, *arguments, **options):
    return connect(*program(text, *arguments), **{"timeouts": PATIENT, "options": ClientOptions(era_cache=EraCache()), **options})


def messages(entries, kind, connection=0):
    found = [entry for entry in entries if isinstance(entry, Line) and (entry.kind, entry.connection) == (kind, connection)]
    return [json.loads(line.data) for line in found]


def events(entries):
    return [entry for entry in entries if isinstance(entry, Event)]


def life_of(entries):
    """Return the events of a server without EOF, which may come before its exit, after it, or, if the client closes, not at all."""
    return [event for event in events(entries) if (event.name, event.stream) != ("eof", "<")]


# The client


def test_a_client_records_everything_between_the_launch_and_the_exit(file):
    async def main():
        async with to(SERVER, env={"TOKEN": "sesame"}, cwd=file.parent, trace=file) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
            return client

    asyncio.run(main())
    found = read(file)
    assert found.header.recorder == "client"
    assert found.header.argv == tuple(program(SERVER))
    assert found.header.cwd == str(file.parent)
    assert "TOKEN" in found.header.environment
    assert "sesame" not in file.read_text()
    entries = list(found)
    assert [message["method"] for message in messages(entries, ">")] == ["server/discover", "tools/call"]
    assert [message["id"] for message in messages(entries, "<")] == [message["id"] for message in messages(entries, ">")]
    assert [entry.data for entry in entries if isinstance(entry, Line) and entry.kind == "!"] == [b"adding \xff"]
    spawn, eof, exit_ = life_of(entries)
    assert entries[0] == spawn
    assert spawn.pid is not None
    assert (eof.name, eof.stream) == ("eof", ">")
    assert (exit_.name, exit_.code, exit_.signal) == ("exit", 0, None)
    assert [entry.at for entry in entries] == sorted(entry.at for entry in entries)


def test_signals_are_recorded_as_they_are_sent(file):
    async def main():
        async with to(STUBBORN, trace=str(file), shutdown=IMPATIENT):
            pass

    asyncio.run(main())
    *_, term, kill, exit_ = [event for event in events(read(file)) if event.name != "eof"]
    assert [term.signal, kill.signal] == ["SIGTERM", "SIGKILL"]
    assert (exit_.code, exit_.signal) == (None, "SIGKILL")


def test_a_restarted_server_is_the_next_connection_of_the_same_recording(file):
    async def main():
        async with to(SERVER, trace=file, restart=AT_ONCE) as client:
            with pytest.raises(ServerExited):
                await client.call_tool("die")
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"

    asyncio.run(main())
    entries = list(read(file))
    pids = [(event.connection, event.pid) for event in events(entries) if event.name == "spawn"]
    assert [number for number, _ in pids] == [0, 1]
    assert [(event.connection, event.code) for event in events(entries) if event.name == "exit"] == [(0, 7), (1, 0)]
    assert messages(entries, ">", 0)[-1]["params"]["name"] == "die"
    assert messages(entries, ">", 1)[-1]["params"]["name"] == "add"


def test_the_stderr_of_a_server_that_exits_at_once_is_recorded(file):
    async def main():
        with pytest.raises(ServerExited):
            await to(EXITS_AT_ONCE, trace=file)

    asyncio.run(main())
    entries = list(read(file))
    assert Line in {type(entry) for entry in entries}
    assert {entry.data.rstrip() for entry in entries if isinstance(entry, Line) and entry.kind == "!"} == {b"nothing works here"}
    assert {event.code for event in events(entries) if event.name == "exit"} == {3}


def test_the_recording_of_a_failed_start_has_a_header(file):
    async def main():
        with pytest.raises(StartFailed):
            await connect("there-is-no-such-command", trace=file)

    asyncio.run(main())
    assert read(file).header.argv == ("there-is-no-such-command",)
    assert list(read(file)) == []


def test_a_server_in_this_process_and_one_on_a_socket_are_recorded(tmp_path):
    server = Server("here")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async def main():
        async with connect(server, trace=tmp_path / "memory.jsonl") as client:
            await client.call_tool("add", {"a": 1, "b": 2})
        serving = asyncio.create_task(server.serve(unix=tmp_path / "s"))
        while not (tmp_path / "s").exists():
            assert not serving.done()
            await asyncio.sleep(0)
        async with connect(f"unix:{tmp_path / 's'}", trace=tmp_path / "socket.jsonl") as client:
            await client.call_tool("add", {"a": 1, "b": 2})
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(main())
    for name, target in [("memory", "in this process"), ("socket", f"unix:{tmp_path / 's'}")]:
        found = read(tmp_path / f"{name}.jsonl")
        assert found.header.argv == ()
        assert target in found.header.target
        assert [message["method"] for message in messages(found, ">")] == ["server/discover", "tools/call"]
        assert len(messages(found, "<")) == 2


def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_started(tmp_path):
    async def main():
        with pytest.raises(LocalProtocolError, match="cannot be written"):
            await to(SERVER, trace=tmp_path / "no" / "folder")

    asyncio.run(main())


def test_a_full_disk_is_reported_and_the_client_continues():
    async def main():
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
        async with to(SERVER, trace="/dev/full") as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        await asyncio.sleep(0)
        assert reported == [f"the trace /dev/full is incomplete: {os.strerror(errno.ENOSPC)}"]

    asyncio.run(main())


def test_a_blocked_disk_delays_no_call(tmp_path):
    """A FIFO whose reader sleeps. The trace lacks the entries that did not fit, and the client does not wait."""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    recorder = Recorder(tmp_path / "fifo", header_for("client"), max_queued=100_000)

    async def main():
        async with to(SERVER, trace=recorder) as client:
            while not recorder.losses:
                assert (await client.call_tool("login", {"password": "x" * 50_000})).text == "welcome"

    try:
        asyncio.run(main())
        assert not recorder.close(0.05)
        recorder._thread.join(NET)
    finally:
        os.close(reader)


def test_a_recorder_of_the_caller_stays_open_and_redacts_its_names(file):
    recorder = Recorder(file, header_for("client", redact=["password"]), redact=["password"])

    async def main():
        async with to(SERVER, trace=recorder) as client:
            await client.call_tool("login", {"password": "sesame"})

    asyncio.run(main())
    recorder.event("note", reason="still there")
    assert recorder.close(NET)
    *entries, note = read(file)
    assert note.reason == "still there"
    assert messages(entries, ">")[-1]["params"]["arguments"] == {"password": "[redacted]"}
    assert "sesame" not in file.read_text()


def test_a_client_redacts_the_given_names(file, monkeypatch):
    monkeypatch.setenv("TWOPIPES_REDACT", "token, ,password")

    async def main():
        async with to(SERVER, trace=file, redact=["PassWord"]) as client:
            await client.call_tool("login", {"password": "sesame"})

    asyncio.run(main())
    found = read(file)
    assert found.header.redacted == ("PassWord", "token", "password")
    assert messages(found, ">")[-1]["params"]["arguments"] == {"password": "[redacted]"}
    assert "sesame" not in file.read_text()


def test_names_that_would_redact_nothing_are_an_error_at_the_call(file):
    with pytest.raises(LocalProtocolError, match=r"write redact=\['password'\]"):
        connect("server", trace=file, redact="password")
    recorder = Recorder(file, header_for("client"))
    with pytest.raises(LocalProtocolError, match="pass the names to the Recorder"):
        connect("server", trace=recorder, redact=["password"])
    assert recorder.close(NET)


def test_the_recording_of_a_client_that_is_never_closed_is_complete(file):
    """The end of the loop ends everything."""

    async def main():
        client = await to(SERVER, trace=file)
        await client.call_tool("add", {"a": 1, "b": 2})

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name.startswith("twopipes trace"):
            thread.join(NET)
    first, *_, last = life_of(read(file))
    assert (first.name, last.name) == ("spawn", "exit")


def test_a_blocking_client_records_the_same(file):
    with blocking.connect(*program(SERVER), timeouts=PATIENT, trace=file) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    entries = list(read(file))
    assert [message["method"] for message in messages(entries, ">")] == ["server/discover", "tools/call"]
    assert [event.name for event in life_of(entries)] == ["spawn", "eof", "exit"]


def test_recording_does_not_redirect_stderr(file, tmp_path):
    async def main():
        command = ServerCommand(program(SERVER), stderr=tmp_path / "stderr")
        async with connect(command, timeouts=PATIENT, trace=file) as client:
            await client.call_tool("add", {"a": 1, "b": 2})

    asyncio.run(main())
    assert (tmp_path / "stderr").read_bytes() == b"adding \xff\n"
    assert [entry.data for entry in read(file) if isinstance(entry, Line) and entry.kind == "!"] == [b"adding \xff"]


def test_the_recorder_is_not_imported_by_default():
    text = """
        import asyncio, sys
        from twopipes import Server, connect
        async def main():
            async with connect(Server("s")) as client:
                await client.ping() if client.era == "legacy" else None
        asyncio.run(main())
        assert not [name for name in sys.modules if name.startswith("twopipes.trace") or name.endswith("recording")]
    """
    subprocess.run(program(text), check=True, timeout=NET)


# The server


TALK = [modern("a", "server/discover"), modern(2, "tools/call", name="greet", arguments={"name": "é"})]


def test_a_server_records_its_own_side(run, file):
    done = run(python("-m", "twopipes", "run", EXAMPLES / "hello.py", "--trace", file), input=lines(*TALK))
    assert (done.returncode, done.stderr) == (0, b"")
    found = read(file)
    assert found.header.recorder == "server"
    assert found.header.argv[1:3] == ("-m", "twopipes")
    entries = list(found)
    assert messages(entries, ">") == TALK
    assert sorted(map(str, messages(entries, "<"))) == sorted(str(json.loads(line)) for line in done.stdout.splitlines())
    assert Event(at=events(entries)[0].at, name="eof", stream=">") in entries


def test_the_connections_of_a_socket_share_a_recording(listening, connect, tmp_path, file):
    child, address = listening(python("-m", "twopipes", "run", EXAMPLES / "hello.py", "--unix", tmp_path / "s", "--trace", file))
    for peer in (connect(address), connect(address)):
        peer.ask(TALK[0])
    child.stop()
    found = read(file)
    assert found.header.target == f"unix:{tmp_path / 's'}"
    entries = list(found)
    for connection in (0, 1):
        assert messages(entries, ">", connection) == TALK[:1]
        assert len(messages(entries, "<", connection)) == 1


def test_a_server_with_a_full_disk_reports_it_and_continues(run):
    done = run(EXAMPLES / "hello.py", input=lines(*TALK), env={"TWOPIPES_TRACE": "/dev/full"})
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.decode() == f"Warning: the trace /dev/full is incomplete: {os.strerror(errno.ENOSPC)}\n"


def test_a_server_with_a_blocked_disk_continues_and_exits(run, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    said = [modern(number, "tools/call", name="greet", arguments={"name": "x" * 10_000}) for number in range(50)]
    try:
        done = run(EXAMPLES / "hello.py", input=lines(*said), env={"TWOPIPES_TRACE": str(tmp_path / "fifo")})
    finally:
        os.close(reader)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 50
    assert b"is incomplete" in done.stderr


SECRETIVE = """
from twopipes import Server
def greet(name: str) -> str:
    return "hello"
Server("s", tools=[greet]).run({options})
"""


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ("trace={file!r}, redact=['name']", {}),
        ("trace={file!r}", {"TWOPIPES_REDACT": "name"}),
        ("redact=['name']", {"TWOPIPES_TRACE": "{file}"}),
    ],
)
def test_a_server_redacts_the_names_of_its_options_and_environment(options, environment, run, write, file):
    server = write(SECRETIVE.format(options=options.format(file=str(file))))
    done = run(server, input=lines(TALK[1]), env={name: value.format(file=file) for name, value in environment.items()})
    assert done.returncode == 0, done.stderr
    found = read(file)
    (call,) = messages(found, ">")
    assert call["params"]["arguments"] == {"name": "[redacted]"}
    assert found.header.redacted == ("name",)


def test_the_trace_on_stderr_is_redacted_too(run, write):
    server = write(SECRETIVE.format(options="redact=['name']"))
    done = run(server, input=lines(TALK[1]), env={"TWOPIPES_TRACE": "1"})
    assert done.returncode == 0
    (sent,) = (line for line in done.stderr.decode().splitlines() if line.startswith("[TRACE] > "))
    assert '"arguments":{"name":"[redacted]"}' in sent.replace(" ", "").replace("[TRACE]>", "")


def test_a_server_refuses_names_that_would_redact_nothing(run, write):
    done = run(write(SECRETIVE.format(options="redact='name'")), input=lines(TALK[1]))
    assert done.returncode == 1
    assert b"write redact=['name']" in done.stderr


def test_a_server_may_use_its_own_recorder(run, write, file):
    server = write(
        f"""
        from twopipes import Server
        from twopipes.trace import Recorder, header_for
        def greet(name: str) -> str:
            return "hello"
        recorder = Recorder({str(file)!r}, header_for("server"), redact=["name"])
        Server("s", tools=[greet]).run(trace=recorder)
        assert recorder.close(10)
        """
    )
    done = run(server, input=lines(TALK[1]))
    assert done.returncode == 0, done.stderr
    (call,) = messages(read(file), ">")
    assert call["params"]["arguments"] == {"name": "[redacted]"}
    assert sys.executable not in read(file).header.argv
