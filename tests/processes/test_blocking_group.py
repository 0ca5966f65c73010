"""The group without await and real servers: kills, Ctrl-C, exits, forks. No process or thread remains."""

import os
import signal
import sys

import pytest

from processes.children import is_running, no_thread_left
from processes.test_blocking import SERVER, STAYS, is_gone
from twopipes import ServerExited, Timeouts
from twopipes.blocking import ServerGroup

# The beginning of every host program below; argv[1] is the server.
HOST = """
    import os, signal, sys, threading
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
    from twopipes import Timeouts
    from twopipes.blocking import ServerGroup

    servers = {"first": [sys.executable, sys.argv[1]], "second": [sys.executable, sys.argv[1]]}
    SECONDS = Timeouts(connect=3600, probe=3600)

    def show(group):
        print(*(server.client.pid for server in group.servers.values()), flush=True)
"""


@pytest.fixture
def host(write, launch):
    """Start a program that begins with HOST."""

    def host(text, server=SERVER):
        path = write(HOST, "host.py")
        path.write_text(path.read_text() + "\n" + write(text, "rest.py").read_text())
        return launch(path, str(write(server, "server.py")))

    return host


def pids(child):
    return [int(pid) for pid in child.out.next().split()]


def test_a_server_that_exits_is_started_again_and_the_others_go_on(write):
    path = str(write(SERVER))
    with no_thread_left(), ServerGroup({"one": [sys.executable, path], "two": [sys.executable, path]}) as group:
        before = {name: server.client.pid for name, server in group.servers.items()}
        with pytest.raises(ServerExited):
            group.call("one__die")
        assert group.call("two__add", {"a": 1, "b": 2}).text == "3"
        assert group.call("one__add", {"a": 1, "b": 2}).text == "3"
        after = {name: server.client.pid for name, server in group.servers.items()}
        assert after["one"] != before["one"]
        assert after["two"] == before["two"]
    assert not any(is_running(pid) for pid in (*before.values(), *after.values()))


def test_stubborn_servers_are_ended_at_the_same_time(write):
    path = str(write(STAYS))
    servers = {f"s{number}": [sys.executable, path] for number in range(3)}
    with no_thread_left(), ServerGroup(servers, timeouts=Timeouts(shutdown=0.1)) as group:
        started = [server.client.pid for server in group.servers.values()]
    assert not any(is_running(pid) for pid in started)


def test_a_group_that_is_not_closed_ends_with_the_program(host):
    child = host("""
        group = ServerGroup(servers)
        group.open()
        show(group)
    """)
    started = pids(child)
    assert child.wait() == 0
    assert all(is_gone(pid) for pid in started)


def test_ctrl_c_while_servers_are_opened_ends_them(host):
    child = host(
        """
        started = []
        def on_stderr(server, line):
            started.append(int(line.text))
            if len(started) == 2:
                print(*started, flush=True)

        try:
            with ServerGroup(servers, timeouts=SECONDS, on_stderr=on_stderr):
                print("open", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """,
        server="""
            import os, sys
            print(os.getpid(), file=sys.stderr, flush=True)
            for line in sys.stdin:
                pass
        """,
    )
    started = pids(child)
    assert len(started) == 2
    child.signal(signal.SIGINT)
    child.out.until("interrupted")
    assert child.wait() == 0
    assert all(is_gone(pid) for pid in started)


def test_ctrl_c_during_a_call_leaves_the_group_usable(host):
    child = host("""
        def on_stderr(server, line):
            print(server, line.text, flush=True)

        with ServerGroup(servers, on_stderr=on_stderr) as group:
            try:
                group.call("first__forever")
            except KeyboardInterrupt:
                print(group.call("first__add", {"a": 1, "b": 2}).text, flush=True)
    """)
    child.out.until("first waiting")
    child.signal(signal.SIGINT)
    child.out.until("3")
    assert child.wait() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_the_group_to_its_parent(host):
    child = host("""
        from twopipes.errors import LocalProtocolError

        with ServerGroup(servers) as group:
            if (forked := os.fork()) == 0:
                try:
                    group.call("first__add", {"a": 1, "b": 2})
                except LocalProtocolError as error:
                    print("forked" in str(error), len(group.tools), flush=True)
                group.close()
                os._exit(0)
            os.waitpid(forked, 0)
            print(group.call("first__add", {"a": 1, "b": 2}).text, flush=True)
    """)
    child.out.until("True 8")
    child.out.until("3")
    assert child.wait() == 0
