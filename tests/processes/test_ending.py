"""How a server ends: always, in time, with every response sent and without a traceback."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from processes.children import watching
from processes.launching import (
    EXAMPLES,
    INITIALIZE,
    INITIALIZED,
    NET,
    PING,
    call,
    lines,
    modern,
    python,
    text_of,
)

# One tool for each way to take long. Each reports its start on stderr.
SLEEPER = """
    import asyncio, os, signal, subprocess, sys, threading, time
    from concurrent.futures import ThreadPoolExecutor
    from twopipes import Context, Server, ServerSettings

    server = Server("sleeper", settings=ServerSettings({settings}))
    released = asyncio.Event()
    pool = ThreadPoolExecutor()

    def begun(what="begun"):
        print(what, file=sys.stderr, flush=True)

    @server.tool
    async def wait() -> str:
        begun()
        await released.wait()
        return "waited"

    @server.tool
    async def release() -> str:
        released.set()
        return "released"

    @server.tool
    async def nap(seconds: float) -> str:
        begun()
        await asyncio.sleep(seconds)
        return "woke up"

    @server.tool
    def sleep_in_a_thread() -> str:
        begun()
        time.sleep(1000)

    @server.tool
    async def sleep_in_the_loop() -> str:
        begun()
        time.sleep(1000)

    @server.tool
    async def sleep_in_a_library() -> str:
        begun()
        subprocess.run(["sleep", "1000"])

    @server.tool
    async def sleep_in_the_default_pool() -> str:
        begun()
        await asyncio.to_thread(time.sleep, 1000)

    @server.tool
    async def sleep_in_a_pool() -> str:
        begun()
        await asyncio.wrap_future(pool.submit(time.sleep, 1000))

    @server.tool
    async def refuse_to_be_cancelled() -> str:
        begun()
        while True:
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                pass

    if __name__ == "__main__":
        server.run()
"""
SHORT = "drain=0.1, drain_on_signal=0.1"
STUBBORN = ["sleep_in_a_thread", "sleep_in_the_default_pool", "sleep_in_a_pool", "refuse_to_be_cancelled"]
BLOCKING = ["sleep_in_the_loop", "sleep_in_a_library"]


@pytest.fixture
def sleeper(write, launch):
    def sleeper(settings="", **options):
        return launch(write(SLEEPER.format(settings=settings)), **options)

    return sleeper


# The end of input


@pytest.mark.parametrize("wire", ["pipe", "socket"])
@pytest.mark.parametrize("era", ["nothing said", "legacy", "modern"])
def test_an_idle_server_exits_on_eof(era, wire, launch):
    """SD-02: idle, it exits at once with status 0."""
    child = launch(EXAMPLES / "hello.py", wire=wire)
    if era == "legacy":
        child.initialize()
    elif era == "modern":
        assert child.ask(modern(1, "tools/list"))["result"]["tools"][0]["name"] == "greet"
    assert child.finish() == []
    assert child.complaints() == ""


@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_a_running_call_gets_a_response_after_eof(wire, sleeper):
    """SD-02, SD-07: during a call, the response comes first."""
    child = sleeper(wire=wire)
    child.initialize()
    child.send(call(1, "wait"))
    child.err.until("begun")
    child.send(call(2, "nap", seconds=0.05), call(3, "release"))
    answers = {answer["id"]: text_of(answer) for answer in child.finish()}
    assert answers == {1: "waited", 2: "woke up", 3: "released"}


def test_a_listen_does_not_hold_the_process(launch):
    """SD-02: with open listens."""
    child = launch(EXAMPLES / "everything.py")
    child.send(modern(1, "subscriptions/listen", notifications={"toolsListChanged": True}))
    assert child.receive()["method"] == "notifications/subscriptions/acknowledged"
    child.finish()


def test_an_unanswerable_question_does_not_hold_the_process(launch):
    """SD-02, MR-18: no retry can come any more."""
    child = launch(EXAMPLES / "everything.py", env={"TWOPIPES_STATE_KEY": "k" * 32})
    asked = child.ask(modern(1, "tools/call", {"elicitation": {}}, name="ask", arguments={}))
    assert asked["result"]["resultType"] == "input_required"
    assert child.finish() == []


@pytest.mark.parametrize("tool", STUBBORN)
def test_a_tool_that_never_returns_does_not_hold_the_process(tool, sleeper):
    """SD-02, defect 8 of the peers: the process exits although the tool does not return."""
    child = sleeper(SHORT)
    child.initialize()
    child.send(call(1, tool))
    child.err.until("begun")
    for answer in child.finish():
        assert "error" in answer


@pytest.mark.parametrize("tool", BLOCKING)
def test_a_blocked_event_loop_does_not_hold_the_process(tool, sleeper):
    """SD-02: the loop cannot see EOF, but a thread does."""
    child = sleeper(SHORT + ", blocked_after=0.05")
    child.initialize()
    child.send(call(1, tool))
    child.err.until("begun")
    # The child of a tool is ended before the server, so the tool may return in time for a response.
    assert [line["id"] for line in child.finish()] in ([], [1])


# Nothing is lost


LAST = [INITIALIZE, INITIALIZED, *(call(number, "add", a=number, b=1) for number in range(1, 101))]


@pytest.mark.parametrize("last_newline", [True, False])
@pytest.mark.parametrize("run_by", ["python", "twopipes run"])
def test_a_pipe_gets_every_response(run_by, last_newline, run):
    """SD-07, defect 3 of the peers: `printf '...' | python server.py`."""
    target = (
        python(EXAMPLES / "everything.py") if run_by == "python" else python("-m", "twopipes", "run", EXAMPLES / "everything.py")
    )
    said = lines(*LAST)
    done = run(target, input=said if last_newline else said[:-1])
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers[0]["id"] == 0
    assert {answer["id"] for answer in answers} == set(range(101))
    assert len(answers) == 101
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_shell_pipe_gets_every_response(run):
    """SD-07: with a real shell, and an `initialize` without `capabilities`."""
    line = (
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05",'
        '"clientInfo":{"name":"client","version":"1.0"}}}'
    )
    done = run(["sh", "-c", f"echo '{line}' | '{sys.executable}' '{EXAMPLES / 'hello.py'}'"])
    answer = json.loads(done.stdout)
    assert (answer["id"], answer["result"]["protocolVersion"]) == (1, "2024-11-05")
    assert (done.returncode, done.stderr) == (0, b"")


def test_files_get_every_response(run, tmp_path):
    """SD-07: `python server.py < in.jsonl > out.jsonl`."""
    (tmp_path / "in.jsonl").write_bytes(lines(*LAST))
    with (tmp_path / "in.jsonl").open("rb") as given, (tmp_path / "out.jsonl").open("wb") as taken:
        done = run(EXAMPLES / "everything.py", stdin=given, stdout=taken)
    answers = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {answer["id"] for answer in answers} == set(range(101))
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_response_larger_than_the_pipe_is_sent_completely(launch):
    """SD-07: a late reader still gets all of it."""
    child = launch(EXAMPLES / "everything.py")
    child.initialize()
    text = "x" * 3_000_000
    child.send(call(1, "echo", text=text))
    (answer,) = child.finish()
    assert text_of(answer) == text


# Signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_an_idle_server(number, launch):
    """Defect 2 of the peers: they ignore SIGINT."""
    child = launch(EXAMPLES / "hello.py")
    child.initialize()
    child.signal(number)
    assert child.ended() == []
    assert child.complaints() == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_subscriptions_properly(number, launch):
    """SU-13, SU-14: for each listen a cancellation, then the result."""
    child = launch(EXAMPLES / "everything.py")
    for listen in (1, "one"):
        child.send(modern(listen, "subscriptions/listen", notifications={"toolsListChanged": True}))
        assert child.receive()["method"] == "notifications/subscriptions/acknowledged"
    child.signal(number)
    said = child.ended()
    for listen in (1, "one"):
        own = [message for message in said if listen in {message.get("id"), message.get("params", {}).get("requestId")}]
        cancelled, result = [message for message in own if type(message.get("id", listen)) is type(listen)]
        assert cancelled["method"] == "notifications/cancelled"
        assert result["result"]["resultType"] == "complete"
        assert result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == listen


def test_a_signal_ends_subscriptions_properly_into_a_file(run, write, tmp_path):
    """SU-13, SD-07: also if a thread writes."""
    program = """
        import os, signal, sys
        from twopipes import Server
        server = Server("suicidal")

        @server.tool
        async def end() -> str:
            os.kill(os.getpid(), signal.SIGTERM)
            return "bye"

        server.run()
    """
    # There is no EOF: the other side of the pipe stays open here.
    reading, writing = os.pipe()
    os.write(writing, lines(modern(1, "subscriptions/listen", notifications={"toolsListChanged": True})))
    os.write(writing, lines(modern(2, "tools/call", name="end", arguments={})))
    with (tmp_path / "out.jsonl").open("wb") as taken:
        done = run(write(program), stdin=reading, stdout=taken)
    os.close(reading)
    os.close(writing)
    said = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [message.get("id", message.get("method")) for message in said] == [
        "notifications/subscriptions/acknowledged",
        2,
        "notifications/cancelled",
        1,
    ]
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_running_call_is_finished_after_a_signal(number, sleeper):
    child = sleeper("drain_on_signal=30")
    child.initialize()
    child.send(call(1, "wait"))
    child.err.until("begun")
    child.signal(number)
    child.send(call(2, "release"))
    assert {answer["id"]: text_of(answer) for answer in child.ended()} == {1: "waited", 2: "released"}


def test_a_signal_after_eof_cancels_calls_and_still_cleans_up(write, launch):
    """A host closes the input, waits, and sends SIGTERM: running calls are cancelled, and the lifespan ends normally."""
    program = """
        import asyncio, sys
        from contextlib import asynccontextmanager
        from twopipes import Server, ServerSettings

        @asynccontextmanager
        async def lifespan(server):
            yield
            print("lifespan ended", file=sys.stderr)

        settings = ServerSettings(drain=1000, drain_on_signal=0)
        server = Server("tidy", lifespan=lifespan, settings=settings)

        @server.tool
        async def work() -> str:
            print("begun", file=sys.stderr)
            try:
                await asyncio.sleep(1000)
            finally:
                print("tool tidied up", file=sys.stderr)

        server.run()
    """
    child = launch(write(program))
    child.initialize()
    child.send(call(1, "work"))
    child.err.until("begun")
    child.end_input()
    child.signal()
    for answer in child.ended():
        assert "error" in answer
    assert child.complaints().splitlines()[-2:] == ["tool tidied up", "lifespan ended"]


@pytest.mark.parametrize(
    ("tool", "number"),
    [(tool, signal.SIGTERM) for tool in ["sleep_in_a_thread", "refuse_to_be_cancelled", *BLOCKING]]
    + [("sleep_in_the_loop", signal.SIGINT)],
)
def test_a_signal_ends_a_server_whose_tool_never_returns(tool, number, sleeper):
    child = sleeper(SHORT)
    child.initialize()
    child.send(call(1, tool))
    child.err.until("begun")
    child.signal(number)
    child.ended()


@pytest.mark.parametrize("tool", ["sleep_in_a_thread", "sleep_in_the_loop", "refuse_to_be_cancelled"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_same_signal_again_exits_at_once(number, tool, sleeper):
    child = sleeper("drain=1000, drain_on_signal=1000")
    child.initialize()
    child.send(call(1, tool))
    child.err.until("begun")
    child.signal(number)
    wait_until_seen(child.process.pid, number)
    child.signal(number)
    assert child.wait() == -number
    assert "Traceback" not in child.complaints()


TIDYING = """
    import asyncio, os, sys
    from contextlib import asynccontextmanager
    from twopipes import Server, ServerSettings

    @asynccontextmanager
    async def lifespan(server):
        yield
        print("tidying up", file=sys.stderr, flush=True)
        {tidy}
        print("tidied up", file=sys.stderr, flush=True)

    server = Server("tidy", lifespan=lifespan, settings=ServerSettings(drain=1000, drain_on_signal=1000))

    @server.tool
    async def fine() -> str:
        return "fine"

    server.run(**{options})
"""


@pytest.mark.parametrize(
    "tidy", ["open('go').read()", "await asyncio.to_thread(lambda: open('go').read())"], ids=["blocking", "async"]
)
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("wire", ["stdio", "unix"])
def test_a_different_signal_does_not_cut_the_lifespan_short(wire, first, tidy, write, launch):
    """A host that sends SIGINT, SIGTERM and SIGKILL one after the other, as Claude Code does, means one shutdown."""
    program = write(TIDYING.format(tidy=tidy, options={} if wire == "stdio" else {"unix": "s.sock"}))
    go_on = program.parent / "go"
    os.mkfifo(go_on)
    child = launch(program)
    if wire == "stdio":
        child.initialize()
    else:
        child.err.until(" listens on ")
    second = signal.SIGTERM if first == signal.SIGINT else signal.SIGINT
    child.signal(first)
    child.err.until("tidying up")
    with go_on.open("w"):  # it waits there until the end of this block
        child.signal(second)
        if "await" in tidy:
            wait_until_seen(child.process.pid, second)
    child.err.until("tidied up")
    assert child.ended() == []


def wait_until_seen(pid, number):
    """Wait until a signal has reached the program; the system handles the next one."""
    caught = 1 << (number - 1)
    while int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())[1], 16) & caught:
        os.sched_yield()


# A closed output


@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_a_broken_output_ends_the_server_quietly(wire, write, environment, tmp_path):
    """SD-07: without a reader the server exits without a traceback, although the input is still open."""
    program = """
        import os, sys
        from twopipes import Server
        server = Server("chatty")

        @server.tool
        def shout(path: str) -> str:
            open(path).read()  # opened for writing when the reader has closed
            return "anybody?" * 100_000

        server.run()
    """
    os.mkfifo(tmp_path / "go")
    reading_out, out = os.pipe() if wire == "pipe" else (end.detach() for end in socket.socketpair())
    into, writing_in = os.pipe()
    process = subprocess.Popen(python(write(program)), stdin=into, stdout=out, stderr=subprocess.PIPE, env=environment)
    os.close(into)
    os.close(out)
    os.write(writing_in, lines(INITIALIZE, INITIALIZED, call(1, "shout", path=str(tmp_path / "go"))))
    with (tmp_path / "go").open("w"):  # waits for the tool
        os.close(reading_out)
    _, complaints = process.communicate(timeout=NET)
    os.close(writing_in)
    assert (process.returncode, complaints) == (0, b"")


# The parent


MIDDLE = """
    import os, subprocess, sys
    child = subprocess.Popen([sys.executable, *sys.argv[1:]])
    print(child.pid, file=sys.stderr, flush=True)
    child.wait()
"""


@pytest.mark.parametrize("tool", [None, "wait", "sleep_in_a_thread", "sleep_in_the_loop"])
def test_a_server_whose_launcher_was_killed_exits_while_another_process_holds_the_pipe(tool, write, launch):
    """Defect 15 of the peers. The test holds both ends all the time; the process in between dies."""
    server = write(SLEEPER.format(settings=SHORT + ", blocked_after=0.05"))
    middle = launch(write(MIDDLE, "middle.py"), server)
    with watching(int(middle.err.next())):
        middle.initialize()
        if tool is not None:
            middle.send(call(1, tool))
            middle.err.until("begun")
        middle.process.kill()
    assert "Traceback" not in middle.complaints()


def test_a_server_may_outlive_its_launcher_if_configured(write, launch):
    server = write(SLEEPER.format(settings="watch_parent=False"))
    middle = launch(write(MIDDLE, "middle.py"), server)
    middle.initialize()
    middle.process.kill()
    middle.process.wait(NET)
    assert middle.ask(PING)["result"] == {}
    middle.end_input()
    middle.out.rest()


@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_code_after_run_is_executed(wire, write, launch):
    program = """
        import sys
        from twopipes import Server
        server = Server("tidy")
        server.run()
        print("tidied up")
        sys.exit(3)
    """
    child = launch(write(program), wire=wire)
    child.initialize()
    child.end_input()
    assert child.out.rest() == [b"tidied up\n"]  # the program has its own output back
    assert child.ended(3) == []


def test_a_server_may_run_in_a_thread_that_gets_no_signals(write, launch):
    program = """
        import threading
        from twopipes import Server, ServerSettings
        server = Server("threaded", settings=ServerSettings(blocked_after=None))
        thread = threading.Thread(target=server.run)
        thread.start()
        thread.join()
    """
    child = launch(write(program))
    child.initialize()
    assert child.ask(PING)["result"] == {}
    assert child.finish() == []
    assert child.complaints() == ""


def test_run_inside_a_loop_names_the_alternative(write, run):
    program = """
        import asyncio
        from twopipes import Server
        async def main():
            Server("nested").run()
        asyncio.run(main())
    """
    done = run(write(program), input=b"")
    assert done.stdout == b""
    assert b"use await server.serve()" in done.stderr
