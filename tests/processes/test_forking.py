"""Tools that fork: only one server writes to a wire, whatever the copy in the child does (FR-04)."""

import json
import os
import signal
from contextlib import contextmanager

import pytest

from processes.launching import INITIALIZE, INITIALIZED, PING, TASKS_ARE_EAGER, call, lines, text_of

# Each tool forks, waits for its child and returns how it ended; or a library does that for it.
FORKING = """
    import asyncio, multiprocessing, os, signal, subprocess, sys, time
    from concurrent.futures import ProcessPoolExecutor
    from contextlib import asynccontextmanager
    from twopipes import Context, Server

    @asynccontextmanager
    async def lifespan(server):
        yield
        print("lifespan ended", file=sys.stderr)

    server = Server("forking", lifespan=lifespan)
    forks = multiprocessing.get_context("fork")

    def ended(pid):
        return str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def act(how):
        if how == "raise":
            raise ValueError("in the child")
        if how == "raise an uncommon error":
            raise GeneratorExit("in the child")
        if how == "exit":
            sys.exit(3)
        if how == "exit with a text":
            sys.exit("goodbye")
        if how == "os._exit":
            os._exit(4)
        if how == "write":
            os.write(1, b"noise on 1")
            print("noise")
            subprocess.run([sys.executable, "-c", "print('noise of a child', flush=True)"])
        if how == "serve a loop":
            asyncio.run(asyncio.sleep(0.01))
        if how == "be killed":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1000)
        return "in the child"

    @server.tool
    async def fork(how: str) -> str:
        pid = os.fork()
        return ended(pid) if pid else act(how)

    @server.tool
    async def fork_later(how: str) -> str:
        await asyncio.sleep(0)
        pid = os.fork()
        return ended(pid) if pid else act(how)

    @server.tool
    def fork_in_a_thread(how: str) -> str:
        pid = os.fork()
        return ended(pid) if pid else act(how)

    @server.tool
    async def fork_and_await() -> str:
        pid = os.fork()
        if pid:
            return ended(pid)
        await asyncio.sleep(0)
        return "in the child"

    @server.tool
    async def fork_and_report(ctx: Context) -> str:
        pid = os.fork()
        if pid:
            return ended(pid)
        ctx.progress(1)
        server.notify_resource_updated("x://y")
        return "in the child"

    @server.tool
    async def fork_in_a_subtask() -> str:
        async def subtask():
            pid = os.fork()
            return ended(pid) if pid else "in the child"
        return await asyncio.create_task(subtask())

    @server.tool
    async def fork_and_go_on() -> str:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(writing, b"!")
            time.sleep(1000)
        os.read(reading, 1)  # it runs
        return str(pid)

    def square(number):
        return number * number

    @server.tool
    async def multiprocess() -> str:
        process = forks.Process(target=square, args=(3,))
        process.start()
        process.join()
        return str(process.exitcode)

    @server.tool
    def multiprocess_in_a_thread() -> str:
        with forks.Pool(2) as pool:
            return str(pool.map(square, [1, 2, 3]))

    @server.tool
    async def pool() -> str:
        with ProcessPoolExecutor(2, mp_context=forks) as executor:
            loop = asyncio.get_running_loop()
            return str(await asyncio.gather(*(loop.run_in_executor(executor, square, number) for number in (1, 2, 3))))

    @server.tool
    async def terminate() -> str:
        processes = [forks.Process(target=time.sleep, args=(1000,)) for _ in range(30)]
        for process in processes:
            process.start()
            process.terminate()  # at once, while it is hardly there
        for process in processes:
            process.join()
        return str({{process.exitcode for process in processes}})

    @server.tool
    async def fine() -> str:
        return "fine"

    @server.tool
    def fine_in_a_thread() -> str:
        return "fine"

    server.run(**{options})
"""
WAYS = {
    "return": "0",
    "raise": "1",
    "raise an uncommon error": "1",
    "exit": "3",
    "exit with a text": "1",
    "os._exit": "4",
    "write": "0",
    "serve a loop": "0",
    "be killed": "-15",
}


@pytest.fixture
def program(write):
    return write(FORKING.format(options="{}"))


def assert_it_still_serves(wire):
    """Check reading, threads that wake the loop, and writing."""
    for number in range(3):
        assert text_of(wire.ask(call(f"fine {number}", "fine"))) == "fine"
        assert text_of(wire.ask(call(f"thread {number}", "fine_in_a_thread"))) == "fine"
    assert wire.ask(PING)["result"] == {}


@pytest.mark.parametrize("wire", ["pipe", "socket"])
@pytest.mark.parametrize("tool", ["fork", "fork_later", "fork_in_a_thread"])
def test_a_forked_child_ends_as_its_tool_says_and_never_writes_to_the_wire(tool, wire, program, launch):
    child = launch(program, wire=wire)
    child.initialize()
    calls = dict(enumerate(WAYS, start=1))
    child.send(*(call(number, tool, how=how) for number, how in calls.items()))
    answers = [child.receive() for _ in calls]
    assert sorted(answer["id"] for answer in answers) == sorted(calls)
    assert {calls[answer["id"]]: text_of(answer) for answer in answers} == WAYS
    assert_it_still_serves(child)
    child.end_input()
    assert child.out.rest() == []
    assert child.wait() == 0
    complaints = child.complaints()
    assert "ValueError: in the child" in complaints
    assert "goodbye" in complaints
    assert "noise of a child" in complaints
    assert complaints.count("lifespan ended") == 1


@pytest.mark.parametrize("tool", ["fork", "fork_in_a_thread"])
def test_a_fork_in_the_first_call_never_writes_to_the_wire(tool, program, run):
    """All input arrives in one piece before the server has started, with other calls after it."""
    said = lines(INITIALIZE, INITIALIZED, *(call(number, tool, how="return") for number in range(1, 4)), call(4, "fine"))
    done = run(program, input=said)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4]
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ("fork_and_await", "1"),
        ("fork_and_report", "0"),
        ("fork_in_a_subtask", "1"),
        ("multiprocess", "0"),
        ("multiprocess_in_a_thread", "[1, 4, 9]"),
        ("pool", "[1, 4, 9]"),
        ("terminate", "{-15}"),
    ],
)
def test_a_tool_that_forks_in_another_way_gets_one_response(tool, result, program, launch):
    if tool == "fork_in_a_subtask" and TASKS_ARE_EAGER:
        result = "0"  # the subtask runs within the handler, so the fork does not return to the event loop
    child = launch(program)
    child.initialize()
    child.send(call(1, tool), call(2, "fine"))
    answers = {answer["id"]: text_of(answer) for answer in (child.receive(), child.receive())}
    assert answers == {1: result, 2: "fine"}
    assert_it_still_serves(child)
    assert child.finish() == []


def test_a_fork_that_returns_to_the_event_loop_logs_a_warning(program, launch):
    child = launch(program)
    child.initialize()
    assert text_of(child.ask(call(1, "fork_and_await"))) == "1"
    assert child.finish() == []
    assert "a process that was forked from the server returned to the event loop" in child.complaints()


def test_a_child_that_keeps_running_ends_with_the_server(program, launch):
    child = launch(program)
    child.initialize()
    child.ask(call(1, "fork_and_go_on"))
    assert_it_still_serves(child)
    assert child.finish() == []  # which reads stderr to its end, and the child holds that


@contextmanager
def killed_at_the_end(pid):
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_a_running_child_does_not_keep_the_pipes_open(wire, program, launch):
    """SD-02: a host whose server is killed gets EOF, although the child still runs."""
    child = launch(program, wire=wire)
    child.initialize()
    with killed_at_the_end(int(text_of(child.ask(call(1, "fork_and_go_on"))))):
        child.signal(signal.SIGKILL)
        assert child.out.rest() == []


@pytest.mark.parametrize("tool", ["fork", "fork_in_a_thread"])
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_sockets_are_wires_too(kind, tool, write, listening, connect):
    folder = write("", "empty").parent
    where = {"unix": str(folder / "s.sock")} if kind == "unix" else {"tcp": ("127.0.0.1", 0)}
    server, address = listening(write(FORKING.format(options=where)))
    one, other = connect(address), connect(address)
    one.initialize()
    other.initialize()
    for number, how in enumerate(("return", "raise", "exit"), start=1):
        assert text_of(one.ask(call(number, tool, how=how))) == WAYS[how]
    with killed_at_the_end(int(text_of(one.ask(call(9, "fork_and_go_on"))))):
        third = connect(address)
        third.initialize()
        for peer in (one, other, third):
            assert_it_still_serves(peer)
        server.signal(signal.SIGKILL)
        assert one.out.rest() == other.out.rest() == third.out.rest() == []
        assert server.wait() == -signal.SIGKILL
        with pytest.raises(ConnectionRefusedError):
            connect(address)
