"""The client without await and real servers: Ctrl-C, exits, forks, threads. No process or thread remains."""

import asyncio
import os
import select
import signal
import sys
import threading

import pytest

from processes.children import EXITS_AT_ONCE, end, is_running, no_thread_left, program
from processes.launching import NET
from twopipes import ServerExited, Timeouts
from twopipes._blocking import callbacks
from twopipes.blocking import connect
from twopipes.errors import StartFailed

if sys.platform == "win32":
    from processes import windows_processes

SERVER = """
    import asyncio, os, sys
    from twopipes import Context, Server

    server = Server("real")

    @server.tool
    def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool
    async def forever(ctx: Context) -> str:
        print("waiting", file=sys.stderr, flush=True)
        try:
            await asyncio.sleep(3600)
        finally:
            print("cancelled", file=sys.stderr, flush=True)

    @server.tool
    def die() -> str:
        os._exit(7)

    @server.tool
    def say(words: str) -> str:
        print(words, file=sys.stderr, flush=True)
        return words

    server.run()
"""
# A server that ignores the end of its input and SIGTERM.
STAYS = """
    import signal, sys, time
    from twopipes import Server
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server("stays")
    @server.tool
    def add(a: int, b: int) -> str:
        return str(a + b)
    try:
        server.run()
    finally:
        while True:
            time.sleep(3600)
"""
# The beginning of every host program below; argv[1] is the server.
HOST = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
    from twopipes import Timeouts, TwopipesError
    from twopipes.errors import ClientClosed
    from twopipes.blocking import connect

    def started(**options):
        client = connect(sys.executable, sys.argv[1], **options)
        print(client.pid, flush=True)
        return client
"""


@pytest.fixture
def server(write):
    return write(SERVER)


@pytest.fixture
def client(server):
    with no_thread_left(), connect(sys.executable, server) as client:
        yield client


def is_gone(pid):
    """Return whether a process that is not our child ends, as the kernel reports it."""
    if sys.platform == "win32":
        return windows_processes.ends(pid, NET)
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], NET)[0])
    finally:
        os.close(descriptor)


@pytest.fixture
def host(write, launch, server):
    """Start a program that begins with HOST."""

    def host(text, target=server):
        path = write(HOST, "host.py")
        path.write_text(path.read_text() + "\n" + write(text, "rest.py").read_text())
        child = launch(path, str(target))
        return child, int(child.out.next())

    return host


def test_a_real_server_responds_and_has_ended_afterwards(client):
    pid = client.pid
    assert is_running(pid)
    assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    client.close()
    assert not is_running(pid)
    assert client.closed.ended_by == "eof"


def test_the_example_of_the_front_page(server):
    with connect(sys.executable, str(server)) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"


def test_many_clients_in_many_threads(server):
    wrong = []

    def work(number):
        try:
            with connect(sys.executable, server) as client:
                assert client.call_tool("add", {"a": number, "b": 1}).text == str(number + 1)
        except Exception as error:
            wrong.append(error)

    with no_thread_left():
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(NET)
    assert wrong == []


def test_it_works_inside_a_running_loop(server):
    async def notebook():
        with connect(sys.executable, server) as client:
            return client.call_tool("add", {"a": 1, "b": 2}).text

    with no_thread_left():
        assert asyncio.run(notebook()) == "3"


def test_a_failed_start_leaves_no_process():
    with no_thread_left():
        with pytest.raises(StartFailed):
            connect("no-such-program-anywhere")
        with pytest.raises(ServerExited, match="nothing works here"):
            connect(program(EXITS_AT_ONCE))


def test_lines_of_stderr_arrive_in_order(server, monkeypatch):
    monkeypatch.setattr(callbacks, "CALLBACK_WAIT", NET)  # however busy the machine is
    seen = []
    with no_thread_left(), connect(sys.executable, server, on_stderr=lambda line: seen.append(line.text)) as client:
        for number in range(20):
            client.call_tool("say", {"words": str(number)})
    assert seen == [str(number) for number in range(20)]


def test_a_server_that_dies_is_an_error_and_is_started_again(server):
    restarted = threading.Event()
    with no_thread_left(), connect(sys.executable, server, era="modern", on_restart=lambda _: restarted.set()) as client:
        with pytest.raises(ServerExited):
            client.call_tool("die")
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert restarted.wait(NET)
        assert client.restarts == 1


def test_variables_and_folder_reach_the_child(tmp_path, write):
    path = write(
        """
        import os
        from twopipes import Server
        server = Server("where")
        @server.tool
        def where() -> str:
            return os.environ["PLACE"] + " " + os.getcwd()
        server.run()
        """
    )
    with connect(sys.executable, path, env={"PLACE": "here"}, cwd=tmp_path) as client:
        assert client.call_tool("where").text == f"here {tmp_path}"


def test_a_stubborn_server_is_ended_by_its_plan(write):
    with no_thread_left(), connect(sys.executable, write(STAYS), timeouts=Timeouts(shutdown=0.1)) as client:
        pid = client.pid
    assert client.closed.ended_by == "SIGKILL"
    assert not is_running(pid)


# Ctrl-C


def test_ctrl_c_cancels_the_call_at_the_server_and_leaves_the_client_usable(host):
    child, pid = host("""
        def on_stderr(line):
            print(line.text, flush=True)

        with started(on_stderr=on_stderr) as client:
            try:
                client.call_tool("forever")
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            print(client.call_tool("add", {"a": 1, "b": 2}).text, flush=True)
            while "cancelled" not in client.stderr:
                client.ping()
        print("closed", flush=True)
    """)
    child.out.until("waiting")
    child.signal(signal.SIGINT)
    child.out.until("interrupted")
    child.out.until("closed")
    assert child.wait() == 0
    assert b"3\n" in child.out.seen
    assert is_gone(pid)


def test_ctrl_c_while_connecting_leaves_no_child(write, launch):
    silent = write(
        """
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid(), file=sys.stderr, flush=True)
        while True:
            time.sleep(3600)
        """,
        "silent.py",
    )
    host = write(
        """
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from twopipes import Timeouts
        from twopipes.blocking import connect
        def on_stderr(line):
            print(line.text, flush=True)

        try:
            connect(sys.executable, sys.argv[1], timeouts=Timeouts(shutdown=0.1), on_stderr=on_stderr)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """,
        "host.py",
    )
    child = launch(host, silent)
    pid = int(child.out.next())
    child.signal(signal.SIGINT)
    child.out.until("interrupted")
    assert child.wait() == 0
    assert child.err.rest() == []
    assert is_gone(pid)


def test_an_uncaught_ctrl_c_ends_the_host_and_its_server(host):
    child, pid = host("""
        client = started(on_stderr=lambda line: print(line.text, flush=True))
        client.call_tool("forever")
    """)
    child.out.until("waiting")
    child.signal(signal.SIGINT)
    assert child.wait() == -signal.SIGINT
    assert is_gone(pid)


# The end of the interpreter


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "threading.Thread(target=client.call_tool, args=('forever',), daemon=True).start()",
        "held = client.subscribe(tools=True); held.ready()",
        "threading.Thread(target=client.subscribe(tools=True).get, daemon=True).start()",
        "import atexit; atexit.register(client.ping)",
        "sys.exit(0)",
    ],
)
def test_an_exit_without_close_ends_the_server_quietly(host, ending):
    child, pid = host(f"client = started()\n{ending}\n")
    assert child.wait() == 0
    assert child.err.rest() == []
    assert is_gone(pid)


def test_an_exit_without_close_ends_a_stubborn_server_by_its_plan(host, write):
    child, pid = host("client = started(timeouts=Timeouts(shutdown=0.1))", target=write(STAYS, "stays.py"))
    assert child.wait() == 0
    assert child.err.rest() == []
    assert is_gone(pid)


def test_an_exit_does_not_wait_for_callbacks(host):
    child, pid = host("""
        client = started(on_stderr=lambda line: threading.Event().wait())
        client.call_tool("say", {"words": "hello"})
    """)
    assert child.wait() == 0
    assert child.err.rest() == []
    assert is_gone(pid)


def test_a_server_that_ignores_its_input_ends_with_a_killed_host(host, write):
    deaf = write(
        """
        import json, sys, time
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "deaf", "version": "1"}}
        opening = json.loads(sys.stdin.readline())
        print(json.dumps({"jsonrpc": "2.0", "id": opening["id"], "result": about}), flush=True)
        while True:
            time.sleep(3600)
        """,
        "deaf.py",
    )
    child, pid = host("client = started(era='legacy')\nthreading.Event().wait()", target=deaf)
    try:
        child.end_by("kill")
        assert is_gone(pid)
    finally:
        end(pid)


# Forks


def test_a_fork_cannot_use_the_client_and_does_not_disturb_it(host):
    child, pid = host("""
        client = started()
        forked = os.fork()
        if not forked:
            with client:
                try:
                    client.call_tool("add", {"a": 1, "b": 2})
                except TwopipesError as error:
                    print(error, flush=True)
            with started() as own:
                print(own.call_tool("add", {"a": 2, "b": 2}).text, flush=True)
            sys.exit(0)
        assert os.waitpid(forked, 0)[1] == 0
        print(client.call_tool("add", {"a": 3, "b": 3}).text, flush=True)
        client.close()
    """)
    assert "forked" in child.out.next().decode()
    own = int(child.out.next())
    assert child.out.next() == b"4\n"
    assert child.out.next() == b"6\n"
    assert child.wait() == 0
    assert [line for line in child.err.rest() if b"fork()" not in line] == []  # Python 3.12 and later warn of such a fork
    assert is_gone(pid)
    assert is_gone(own)
