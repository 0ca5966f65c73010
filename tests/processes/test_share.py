"""``twopipes keep --share``: several hosts, one daemon, and servers that they share. Real processes on both sides."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

import twopipes
from processes.children import is_running
from processes.launching import NET, Child, call, lines, modern, python, text_of

SERVER = """
    import asyncio, os, sys
    from twopipes import Context, Server

    server = Server("shared", eras={eras!r})
    gate = asyncio.Event()
    print("the server starts", file=sys.stderr)

    @server.tool
    async def facts() -> dict[str, str]:
        return {{"pid": str(os.getpid()), "token": os.environ.get("TOKEN", ""), "cwd": os.getcwd()}}

    @server.tool
    async def big(size: int) -> str:
        return "x" * size

    @server.tool
    async def steps(count: int, name: str, ctx: Context) -> str:
        for number in range(count):
            await ctx.progress(number + 1, total=count, message=name)
        return name

    @server.tool
    async def ask(name: str, ctx: Context) -> str:
        answer = await ctx.elicit(f"Who is {{name}}?", {{"type": "object", "properties": {{"who": {{"type": "string"}}}}}})
        return f"{{name}}: {{answer.content['who']}}" if answer.action == "accept" else answer.action

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "opened"

    @server.tool
    async def open_gate() -> str:
        gate.set()
        return "done"

    @server.tool
    async def crash() -> str:
        os._exit(3)

    server.run()
"""


@pytest.fixture
def state():
    """A short folder: the path of a Unix socket is limited to about 100 bytes."""
    path = tempfile.mkdtemp(prefix="tp")
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def environment(environment, state):
    return {**environment, "XDG_STATE_HOME": str(state)}


def processes_of(state):
    """Return the processes with this state folder in their environment: relays, daemons and servers."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"XDG_STATE_HOME={state}".encode() in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
        except OSError:
            continue  # it has exited
    return {pid for pid in found if is_running(pid)}


def until(condition):
    """Wait until a condition of other processes holds, which nothing reports to us."""
    deadline = time.monotonic() + NET
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


@pytest.fixture
def keep(run):
    """Run `twopipes keep` with a command, and return its output."""

    def keep(*words, code=0):
        ended = run(python("-m", "twopipes", "keep", *words))
        assert ended.returncode == code, ended.stderr
        return (ended.stdout if code == 0 else ended.stderr).decode()

    return keep


@pytest.fixture
def status(keep):
    """Return what `keep status` shows, for one daemon or none."""

    def status():
        daemons = json.loads(keep("status", "--format", "json"))["daemons"]
        assert len(daemons) <= 1
        return daemons[0] if daemons else None

    return status


@pytest.fixture
def host(launch, write, environment, state, keep):
    """Start a relay as a host does. In the end all of them stop, and nothing is left."""
    files = {}

    def host(*options, eras="both", command=None, env=(), **other):
        if eras not in files:
            files[eras] = write(SERVER.format(eras=eras), f"{eras}.py")
        command = command or python(files[eras])
        return launch(python("-m", "twopipes", "keep", "--share", *options, "--", *command), env=env, **other)

    yield host
    keep("stop")
    until(lambda: not {pid for pid in processes_of(state) if not is_relay(pid)})


def is_relay(pid):
    """Return whether this is the process of a host, which may have sent nothing yet and so waits."""
    try:
        return b"--share" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def facts(child, id_=1):
    return child.ask(modern(id_, "tools/call", name="facts", arguments={}))["result"]["structuredContent"]


def pid_of(child):
    return int(facts(child)["pid"])


# Who shares


def test_hosts_of_both_eras_share_a_modern_server(host, status):
    new, old = host(), host()
    old.initialize()
    first = pid_of(new)
    assert json.loads(text_of(old.ask(call(1, "facts"))))["pid"] == str(first)
    (server,) = status()["servers"]
    assert (server["pid"], len(server["hosts"]), server["shared"], server["name"]) == (first, 2, True, "shared")
    assert new.finish() == old.finish() == []


def test_each_host_has_its_own_legacy_server(host):
    children = [host(eras="legacy") for _ in range(2)]
    assert len({pid_of(child) for child in children}) == 2
    for child in children:
        pid = pid_of(child)
        child.finish()
        until(lambda pid=pid: not is_running(pid))  # with its only host


def test_share_all_shares_a_legacy_server(host):
    children = [host("--share=all", eras="legacy") for _ in range(2)]
    assert len({pid_of(child) for child in children}) == 1


def test_hosts_that_start_at_the_same_moment_share_one_daemon_and_one_server(host, status):
    children = [host() for _ in range(6)]
    for child in children:
        child.send(modern(1, "tools/call", name="facts", arguments={}))
    assert len({child.receive_response(1)["result"]["structuredContent"]["pid"] for child in children}) == 1
    assert len(status()["servers"][0]["hosts"]) == 6


def test_hosts_with_another_environment_or_folder_have_their_own_server(host, tmp_path):
    (tmp_path / "other").mkdir()
    one = host(env={"TOKEN": "one", "TERM_SESSION_ID": "1"})
    same = host(env={"TOKEN": "one", "TERM_SESSION_ID": "2"})
    two = host(env={"TOKEN": "two"})
    elsewhere = host(env={"TOKEN": "one"}, cwd=tmp_path / "other")
    assert [facts(child)["token"] for child in (one, same, two, elsewhere)] == ["one", "one", "two", "one"]
    assert facts(elsewhere)["cwd"] == str(tmp_path / "other")
    assert len({pid_of(child) for child in (one, same, two, elsewhere)}) == 3


def test_another_version_of_twopipes_has_its_own_daemon(host, launch, keep, environment, write):
    first = host()
    assert pid_of(first)
    newer = "import twopipes._version as v; v.__version__ = '999.0'; from twopipes._cli import main; import sys; sys.exit(main())"
    second = launch(python("-c", newer, "keep", "--share", "--", *python(write(SERVER.format(eras="both"), "both.py"))))
    assert pid_of(second) != pid_of(first)
    daemons = json.loads(keep("status", "--format", "json"))["daemons"]
    assert len({daemon["pid"] for daemon in daemons}) == 2  # the old one serves its sessions to their end
    second.finish()
    assert pid_of(first)


@pytest.fixture
def installed(tmp_path):
    """Return a folder with twopipes, and a function that replaces it there by a version that cannot be imported."""
    source, folder = Path(twopipes.__file__).parent, tmp_path / "installed"
    shutil.copytree(source, folder / "twopipes", ignore=shutil.ignore_patterns("__pycache__"))

    def replace():
        shutil.rmtree(folder / "twopipes")
        (folder / "twopipes").mkdir()
        (folder / "twopipes" / "__init__.py").write_text("raise ImportError('another version')")

    return folder, replace


@pytest.mark.parametrize("options", [("--share",), ()], ids=["shared", "alone"])
def test_a_session_goes_on_when_the_files_of_twopipes_are_replaced(host, launch, write, installed, options):
    folder, replace = installed
    program = f"import sys; sys.path.insert(0, {str(Path(twopipes.__file__).parents[1])!r})\n"  # not the version that is replaced
    file = write(program + textwrap.dedent(SERVER.format(eras="both")))
    child = launch(python("-m", "twopipes", "keep", *options, "--", *python(file)), env={"PYTHONPATH": str(folder)})
    first = pid_of(child)
    replace()
    assert text_of(child.ask(modern(2, "tools/call", name="steps", arguments={"count": 2, "name": "n"}))) == "n"
    asked = child.ask(modern(3, "tools/call", {"elicitation": {}}, name="ask", arguments={"name": "Bob"}))
    assert asked["result"]["resultType"] == "input_required"
    assert "exit code 3" in child.ask(modern(4, "tools/call", name="crash", arguments={}))["error"]["message"]
    assert pid_of(child) != first
    child.finish()


# Independence


def test_progress_goes_to_the_caller_alone(host):
    children = [host() for _ in range(3)]
    for number, child in enumerate(children):  # the same ids and tokens at all hosts
        request = modern(7, "tools/call", name="steps", arguments={"count": 20, "name": f"host {number}"})
        request["params"]["_meta"]["progressToken"] = "token"
        child.send(request)
    for number, child in enumerate(children):
        seen = []
        while "id" not in (message := child.receive()):
            assert message["params"]["progressToken"] == "token"
            seen.append((message["params"]["progress"], message["params"]["message"]))
        assert seen == sorted(seen)
        assert {name for _, name in seen} <= {f"host {number}"}
        assert text_of(message) == f"host {number}"


@pytest.mark.parametrize("options", [(), ("--share=all",)])
def test_a_question_goes_to_the_caller_alone(host, options):
    one, other = host(*options), host(*options)
    for child, name in ((one, "Anna"), (other, "Ben")):
        child.initialize(elicitation={})
        child.send(call(5, "ask", name=name))
    for child, name in ((one, "Anna"), (other, "Ben")):
        question = child.receive()
        assert question.get("method") == "elicitation/create", question
        assert question["params"]["message"] == f"Who is {name}?"
        answer = {"action": "accept", "content": {"who": name.upper()}}
        child.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert text_of(child.receive_response(5)) == f"{name}: {name.upper()}"


def test_a_host_that_does_not_read_does_not_slow_down_another(host, environment, tmp_path):
    """Its pipe, its socket and the buffers of its connection fill up; another host is served."""
    fast = host()
    pid = pid_of(fast)
    command = fast.process.args
    slow = subprocess.Popen(command, env=environment, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        requests = [modern(number, "tools/call", name="big", arguments={"size": 1_000_000}) for number in range(100)]
        slow.stdin.write(lines(*requests))
        slow.stdin.flush()
        assert slow.stdout.read(1000)  # it is served, and reads no more
        for number in range(100):
            assert facts(fast, number)["pid"] == str(pid)
        assert slow.poll() is None
    finally:
        slow.kill()
        slow.communicate()


def test_a_call_of_one_host_does_not_wait_for_that_of_another(host):
    one, other = host(), host()
    one.send(modern(1, "tools/call", name="wait", arguments={}))
    assert text_of(other.ask(modern(2, "tools/call", name="open_gate", arguments={}))) == "done"
    assert text_of(one.receive_response(1)) == "opened"


def test_a_host_that_is_killed_does_not_affect_another(host, status):
    one, other = host(), host()
    pid = pid_of(one)
    assert pid_of(other) == pid
    one.send(modern(1, "tools/call", name="wait", arguments={}))
    one.signal(signal.SIGKILL)
    one.wait()
    until(lambda: len(status()["servers"][0]["hosts"]) == 1)
    assert pid_of(other) == pid


def test_a_question_of_a_legacy_server_is_refused_while_two_hosts_have_calls(host, status):
    """Nothing in the question names the call that caused it, so it may belong to either host."""
    one, other = (host("--share=all", eras="legacy") for _ in range(2))
    for child in (one, other):
        child.initialize(elicitation={})
    other.send(call(1, "wait"))
    until(lambda: status()["servers"][0]["open_calls"] == 1)
    refused = one.ask(call(2, "ask", name="Anna"))
    assert "error" in refused or refused["result"]["isError"]
    assert text_of(one.ask(call(3, "open_gate"))) == "done"
    other.receive_response(1)
    one.send(call(4, "ask", name="Anna"))
    question = one.receive()
    assert question["params"]["message"] == "Who is Anna?"
    one.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    assert text_of(one.receive_response(4)) == "decline"


# The life of the daemon


def test_the_daemon_belongs_to_no_host(host, status, environment):
    child = host(env={"TOKEN": "secret"})
    assert facts(child)["token"] == "secret"
    daemon = status()["pid"]
    stat = Path(f"/proc/{daemon}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    parent, session, terminal = int(stat[1]), int(stat[3]), int(stat[4])
    assert parent not in {os.getpid(), child.process.pid}
    assert session not in {os.getsid(0), child.process.pid}
    assert terminal == 0
    assert os.readlink(f"/proc/{daemon}/cwd") == "/"
    assert b"secret" not in Path(f"/proc/{daemon}/environ").read_bytes()
    streams = [os.readlink(f"/proc/{daemon}/fd/{number}") for number in range(3)]
    assert streams[:2] == ["/dev/null", "/dev/null"]
    assert streams[2].startswith(environment["XDG_STATE_HOME"])
    child.finish()  # the host sees the end of the output although the daemon goes on
    assert is_running(daemon)


def test_the_daemon_and_the_server_end_after_the_last_host(host, state):
    child = host("--idle", "50ms")
    server = pid_of(child)
    child.finish()
    until(lambda: not processes_of(state))
    assert not is_running(server)


def test_a_host_that_returns_in_time_finds_the_same_server(host):
    first = host()
    pid = pid_of(first)
    first.finish()
    assert pid_of(host()) == pid


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_the_end_of_the_daemon_ends_every_relay_and_every_server(host, status, state, number):
    children = [host(), host(), host(eras="legacy")]
    servers = {pid_of(child) for child in children}
    assert len(servers) == 2
    daemon = status()["pid"]
    os.kill(daemon, number)
    for child in children:
        assert child.wait() == 1
        assert f"(process {daemon}) ended" in child.complaints()
        assert "Restart the server in the host" in child.complaints()
    until(lambda: not processes_of(state))


def test_the_next_host_replaces_a_daemon_that_was_killed(host, status):
    first = host()
    pid_of(first)
    daemon = status()["pid"]
    os.kill(daemon, signal.SIGKILL)
    first.wait()
    second = host()
    assert pid_of(second)
    assert status()["pid"] != daemon


KILLED_WHILE_IT_STARTS = """
    import os, signal, sys

    if "twopipes._gateway.daemon" in sys.orig_argv:
        with open(os.environ["HOME"] + "/starts", "a+") as starts:
            starts.write("x")
            starts.seek(0)
            if len(starts.read()) <= {times}:
                os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed_while_it_starts(write, tmp_path):
    """Return the environment in which the daemon is killed before it listens, this many times."""

    def variables(times):
        write(KILLED_WHILE_IT_STARTS.format(times=times), "sitecustomize.py")
        return {"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)}

    return variables


def test_a_daemon_that_is_killed_while_it_starts_is_started_again(host, killed_while_it_starts, status, tmp_path):
    child = host(env=killed_while_it_starts(2))
    assert pid_of(child)
    assert (tmp_path / "starts").read_text() == "xxx"
    assert status()["servers"]
    assert child.finish() == []


def test_a_daemon_that_is_always_killed_while_it_starts_is_reported(host, killed_while_it_starts, tmp_path, state):
    child = host(env=killed_while_it_starts(1000))
    child.send(modern(1, "tools/list"))
    assert child.ended(code=3) == []
    assert "the daemon exited or was killed while it started; see " in child.complaints()
    assert "(tried 5 times)" in child.complaints()
    assert (tmp_path / "starts").read_text() == "xxxxx"
    assert processes_of(state) == set()


def test_a_crash_of_the_server_is_reported_and_the_next_call_succeeds(host, status):
    one, other = host(), host()
    pid = pid_of(one)
    other.send(modern(2, "tools/call", name="wait", arguments={}))
    until(lambda: status()["servers"][0]["open_calls"] == 1)
    failed = one.ask(modern(1, "tools/call", name="crash", arguments={}))
    assert "exit code 3" in json.dumps(failed)
    assert "error" in other.receive_response(2)
    assert pid_of(one) == pid_of(other) != pid


def test_a_command_that_cannot_be_started_is_an_error_for_the_host(host):
    child = host(command=["/nonexistent/server"])
    assert "/nonexistent/server" in json.dumps(child.ask(modern(1, "tools/list"))["error"])


def test_the_relay_ends_with_its_host(host, state, tmp_path, environment, write):
    """Even if another process holds the other end of its stdin."""
    program = write(SERVER.format(eras="both"))
    starter = """
        import os, subprocess, sys
        relay = subprocess.Popen([sys.executable, "-m", "twopipes", "keep", "--share", "--", *sys.argv[1:]], stdin=0, stdout=1)
        print(relay.pid, file=sys.stderr, flush=True)
        relay.wait()
    """
    child = host(command=["unused"])  # for its end
    child.signal(signal.SIGKILL)
    middle = Child(python(write(starter, "starter.py"), *python(program)), env=environment, cwd=tmp_path)
    try:
        relay = int(middle.err.next())
        assert pid_of(middle)
        middle.process.kill()  # our end of its stdin stays open
        until(lambda: not is_running(relay))
    finally:
        middle.dispose()


def test_a_folder_that_others_can_open_is_refused(host, state):
    (state / "twopipes" / "share").mkdir(parents=True, mode=0o755)
    (state / "twopipes" / "share").chmod(0o755)
    child = host()
    child.send(modern(1, "tools/list"))
    try:
        assert child.wait() == 3
        assert "chmod 700" in child.complaints()
    finally:
        (state / "twopipes" / "share").chmod(0o700)


def test_the_lists_are_answered_while_the_shared_server_starts(host, keep, write, state, tmp_path):
    """From the second start on. The server starts when the test lets it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    text = f"open({str(gate)!r}).read()\n" + textwrap.dedent(SERVER.format(eras="both"))
    command = python(write(text, "slow.py"))
    first = host(command=command)
    first.send(modern(1, "tools/list"))
    gate.write_text("start", encoding="utf-8")
    tools = first.receive_response(1)["result"]["tools"]
    until(lambda: list((state / "twopipes" / "manifests").glob("*.json")))
    first.finish()
    keep("stop")
    second, third = host(command=command), host(command=command)
    for child in (second, third):
        assert child.ask(modern(1, "tools/list"))["result"]["tools"] == tools
    gate.write_text("start", encoding="utf-8")
    assert pid_of(second) == pid_of(third)


# The commands


def test_status_shows_a_table(host, keep):
    assert keep("status") == "No server runs behind keep.\n"
    child = host()
    pid = pid_of(child)
    heading, _, row, daemon = keep("status").splitlines()
    assert heading.split() == ["ID", "SERVER", "PID", "STARTED", "HOSTS", "CALLS", "RESTARTS", "MEMORY", "COMMAND"]
    assert row.split()[1:3] == ["shared", str(pid)]
    assert row.endswith("both.py")
    assert daemon.startswith("daemon: process ")


def test_logs_show_what_the_server_wrote_to_stderr(host, keep):
    pid_of(host())
    assert "the server starts" in keep("logs")
    assert "the server starts" in keep("logs", "both.py")
    assert "no server matches 'other'" in keep("logs", "other", code=1)


def test_a_stopped_server_is_started_by_the_next_call(host, keep):
    child = host()
    pid = pid_of(child)
    assert "both.py" in keep("stop", "shared")
    assert not is_running(pid)
    assert pid_of(child) != pid
    assert "no server matches 'other'" in keep("stop", "other", code=1)


def test_stop_ends_everything(host, keep, state):
    child = host()
    pid_of(child)
    assert "stopped the daemon" in keep("stop")
    assert child.wait() == 1
    until(lambda: not processes_of(state))
    assert keep("stop") == "No server runs behind keep.\n"


def test_what_a_host_and_the_server_exchange_can_be_recorded(host, tmp_path, run):
    child = host("--trace", "trace.jsonl", "--log", "log.txt")
    pid_of(child)
    child.finish()
    until(lambda: "facts" in (tmp_path / "trace.jsonl").read_text(encoding="utf-8"))
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "the server starts\n"


# The commands, for a server that is not shared


@pytest.fixture
def alone(launch, write, host):
    """Start `twopipes keep` without --share."""
    program = write(SERVER.format(eras="both"), "alone.py")
    started = []

    def alone():
        started.append(launch(python("-m", "twopipes", "keep", "--", *python(program))))
        return started[-1]

    yield alone
    for child in started:  # before `host` checks that nothing is left
        child.dispose()


def test_servers_that_are_not_shared_are_listed_too(alone, host, keep):
    one, two, shared = alone(), alone(), host()
    pids = {pid_of(child) for child in (one, two, shared)}
    found = json.loads(keep("status", "--format", "json"))
    servers = [server for kind in ("daemons", "processes") for each in found[kind] for server in each["servers"]]
    assert {server["pid"] for server in servers} == pids
    assert [server["shared"] for server in servers] == [True, False, False]
    assert {each["pid"] for each in found["processes"]} == {one.process.pid, two.process.pid}
    assert keep("logs", "alone.py").count("the server starts") == 2
    assert keep("stop", f"p{one.process.pid}").count("stopped") == 1
    assert pid_of(one) not in pids  # started again
    assert pid_of(two) in pids


def test_a_process_that_ends_leaves_no_socket(alone, keep, state):
    one, two = alone(), alone()
    assert pid_of(one) != pid_of(two)
    sockets = state / "twopipes" / "share"
    assert len(list(sockets.glob("*-p*.sock"))) == 2
    one.finish()
    two.signal(signal.SIGKILL)
    two.wait()
    assert len(list(sockets.glob("*-p*.sock"))) == 1  # of the one that could not remove it
    assert keep("status") == "No server runs behind keep.\n"
    third = alone()
    pid_of(third)
    (left,) = sockets.glob("*-p*.sock")
    assert f"-p{third.process.pid}-" in left.name


# The relay


def test_the_relay_is_small(host, run):
    child = host()
    pid_of(child)
    empty = Child(python("-c", "input()"))
    try:
        more = resident(child.process.pid) - resident(empty.process.pid)
    finally:
        empty.dispose()
    assert more < 15 * 1024 * 1024
    libraries = Path(f"/proc/{child.process.pid}/maps").read_text(encoding="utf-8")
    assert "msgspec" not in libraries
    assert "_asyncio" not in libraries


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("wire", ["pipe", "socket"])
def test_large_messages_pass_in_both_directions(host, wire):
    child = host(wire=wire)
    assert len(text_of(child.ask(modern(1, "tools/call", name="big", arguments={"size": 5_000_000})))) == 5_000_000
    failed = child.ask(modern(2, "tools/call", name="steps", arguments={"count": 0, "name": "y" * 5_000_000}))
    assert len(text_of(failed)) == 5_000_000
    assert child.finish() == []


# Reload


def test_hosts_that_share_a_server_get_its_new_code(host, write):
    pytest.importorskip("watchfiles")
    file = write(SERVER.format(eras="both"))
    children = [host("--watch", file, command=python(file)) for _ in range(2)]
    assert len({pid_of(child) for child in children}) == 1
    write(SERVER.format(eras="both").replace('return "done"', 'return "new"'))
    for child in children:
        until(lambda child=child: text_of(child.ask(modern(2, "tools/call", name="open_gate", arguments={}))) == "new")
    assert len({pid_of(child) for child in children}) == 1
    for child in children:
        assert child.finish() == []
