"""A group of real servers: kills, hangs and crashes of one of them reach no other, and no process is left behind."""

import asyncio
import functools
import sys
from contextlib import suppress

import pytest

from fake_server import scene
from processes.children import end, is_running
from processes.launching import EXAMPLES, python
from twopipes import RestartPolicy, Timeouts
from twopipes.errors import ClientClosed, OpeningFailed, ServerExited, StartFailed, TwopipesError
from twopipes.host import ServerConfig, ServerGroup, ToolFilter

pytestmark = pytest.mark.slow

WORKER = """
    import os, sys, time
    from twopipes import Server
    from twopipes.types import ToolAnnotations

    server = Server("worker", eras=os.environ.get("ERAS", "both"))

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def pid() -> int:
        return os.getpid()

    @server.tool
    def die() -> str:
        print("the disk is on fire", file=sys.stderr, flush=True)
        os._exit(7)

    @server.tool
    def hang() -> str:
        print("hanging", file=sys.stderr, flush=True)
        time.sleep(3600)

    @server.tool
    def grow(name: str) -> str:
        server.add_tool(lambda: name, name=name)
        return "grown"

    server.run()
"""
SILENT = "import sys; sys.stdin.read()"
# Ignores EOF and SIGTERM, and has a child that does the same.
STUBBORN = """
    import os, signal, sys
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.fork()
    print(os.getpid(), file=sys.stderr, flush=True)
    while True:
        signal.pause()
"""
SECRET = "hunter2-and-more"
AT_ONCE = RestartPolicy(first_delay=0.0)


class Kit:
    """Programs for the servers of a group."""

    def __init__(self, write):
        self._worker = write(WORKER, "worker.py")
        self._stubborn = write(STUBBORN, "stubborn.py")

    def worker(self, era="both", **options):
        return ServerConfig(command=python(self._worker), env={"ERAS": era, "TOKEN": SECRET}, **options)

    def stubborn(self, **options):
        return ServerConfig(command=python(self._stubborn), **options)


@pytest.fixture
def kit(write):
    return Kit(write)


def with_kit(test):
    """Run a coroutine as a test, with the kit."""

    @functools.wraps(test)
    def run(kit, **given):
        scene(test)(kit, **given)

    return run


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def pid_of(group, server):
    return int((await group.call(f"{server}__pid")).text)


@with_kit
async def test_both_eras_and_broken_servers_in_one_group(kit):
    servers = {
        "modern": kit.worker("modern"),
        "legacy": kit.worker("legacy"),
        "example": [sys.executable, str(EXAMPLES / "hello.py")],
        "missing": ["no-such-command-anywhere"],
        "crashes": python("-c", "import sys; sys.exit('no database')"),
        "silent": ServerConfig(command=python("-c", SILENT), timeouts=Timeouts(connect=0.5, probe=0.1)),
    }
    problems = {}
    async with ServerGroup(servers, on_problem=problems.__setitem__) as group:
        assert [name for name, server in group.servers.items() if server.state == "ready"] == ["modern", "legacy", "example"]
        assert [group.servers[name].client.era for name in ("modern", "legacy")] == ["modern", "legacy"]
        assert {name: type(problem) for name, problem in problems.items()} == {
            "missing": StartFailed,
            "crashes": ServerExited,
            "silent": OpeningFailed,
        }
        assert problems == group.problems
        assert list(group.servers["crashes"].stderr) == ["no database"]
        pids = [await pid_of(group, name) for name in ("modern", "legacy")]
        assert (await group.call("example__greet", {"name": "Ada"})).text == "Hello, Ada!"
    assert not any(map(is_running, pids))


@pytest.mark.parametrize("era", ["modern", "legacy"])
@with_kit
async def test_a_killed_server_comes_back_and_the_others_do_not_notice(kit, era):
    problems = []
    servers = {"a": kit.worker(era), "b": kit.worker()}
    async with ServerGroup(servers, restart=AT_ONCE, on_problem=lambda *problem: problems.append(problem)) as group:
        first, other = await pid_of(group, "a"), await pid_of(group, "b")
        end(first)
        assert await pid_of(group, "a") != first
        assert await pid_of(group, "b") == other
        assert (group.servers["a"].restarts, group.servers["b"].restarts) == (1, 0)
        assert [server for server, _ in problems] == (["a"] if era == "legacy" else [])
        assert group.problems == {}


@pytest.mark.parametrize("era", ["modern", "legacy"])
@with_kit
async def test_a_call_that_kills_its_server_fails_once_and_is_not_sent_again(kit, era):
    lines = []
    servers = {"a": kit.worker(era), "b": kit.worker()}
    async with ServerGroup(servers, restart=AT_ONCE, on_stderr=lambda server, line: lines.append((server, line.text))) as group:
        with pytest.raises(ServerExited) as caught:
            await group.call("a__die")
        assert (caught.value.exit_code, caught.value.stderr) == (7, ("the disk is on fire",))
        assert await pid_of(group, "a")
        assert lines == [("a", "the disk is on fire")]


@with_kit
async def test_a_crash_loop_is_given_up_and_the_others_go_on(kit):
    problems = []
    policy = RestartPolicy(first_delay=0.0, max_delay=0.0, max_restarts=2)
    servers = {"a": kit.worker("modern"), "b": kit.worker()}
    async with ServerGroup(servers, restart=policy, on_problem=lambda *problem: problems.append(problem)) as group:
        while group.servers["a"].state != "failed":
            with suppress(TwopipesError):
                await group.call("a__die")
        with pytest.raises(ServerExited, match="not restarted: the server crashed 3 times"):
            await group.call("a__pid")
        assert [server for server, _ in problems] == ["a"]
        assert await pid_of(group, "b")


@pytest.mark.parametrize("era", ["modern", "legacy"])
@with_kit
async def test_a_server_that_hangs_in_a_call_blocks_only_that_call(kit, era):
    hanging = asyncio.Event()
    servers = {"a": kit.worker(era), "b": kit.worker()}
    async with ServerGroup(servers, on_stderr=lambda server, line: hanging.set()) as group:
        call = asyncio.create_task(group.call("a__hang"))
        await hanging.wait()
        assert await pid_of(group, "b")
        assert await pid_of(group, "a")
        await group.remove("a")
        with pytest.raises(ClientClosed):
            await call


@pytest.mark.parametrize("era", ["modern", "legacy"])
@with_kit
async def test_a_server_that_gets_more_tools_reports_them(kit, era):
    changes = asyncio.Queue()
    async with ServerGroup({"a": kit.worker(era)}, on_tools=changes.put_nowait) as group:
        await group.call("a__grow", {"name": "extra"})
        assert "a__extra" in [tool.name for tool in await changes.get()]
        assert (await group.call("a__extra")).text == "extra"


@with_kit
async def test_a_filter_of_the_configuration_leaves_tools_out(kit):
    servers = {"a": kit.worker(tools=ToolFilter(read_only=True)), "b": kit.worker(tools=ToolFilter(include=["h*"]))}
    async with ServerGroup(servers) as group:
        assert [tool.name for tool in group.tools] == ["a__pid", "b__hang"]


@with_kit
async def test_a_lazy_group_starts_a_process_at_the_first_call(kit):
    async with ServerGroup({"a": kit.worker(), "b": kit.worker()}, lazy=True) as group:
        assert await pid_of(group, "a") == group.servers["a"].client.pid
        assert (group.servers["b"].state, group.servers["b"].client) == ("waiting", None)


@with_kit
async def test_closing_during_the_opening_leaves_no_process(kit):
    pids = []
    timeouts = Timeouts(shutdown=0.1)
    servers = {name: kit.stubborn() for name in ("a", "b", "c")}
    group = ServerGroup(servers, timeouts=timeouts, on_stderr=lambda server, line: pids.append(int(line.text)))
    opening = asyncio.create_task(group.open())
    await until(lambda: len(pids) == 6)
    await group.close()
    with pytest.raises(ClientClosed):
        await opening
    await until(lambda: not any(map(is_running, pids)))


@with_kit
async def test_cancelling_the_opening_leaves_no_process(kit):
    pids = []
    group = ServerGroup(
        {"a": kit.worker(), "b": kit.stubborn()},
        timeouts=Timeouts(shutdown=0.1),
        on_stderr=lambda server, line: pids.append(int(line.text)),
    )
    opening = asyncio.create_task(group.open())
    await until(lambda: len(pids) == 2 and group.servers["a"].state == "ready")
    pids.append(group.servers["a"].client.pid)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await until(lambda: not any(map(is_running, pids)))


@with_kit
async def test_the_conversation_with_each_server_is_recorded_without_its_secrets(kit, tmp_path):
    folder = tmp_path / "new" / "traces"
    async with ServerGroup({"a": kit.worker(), "b c": kit.worker()}, trace=folder) as group:
        first = await pid_of(group, "a")
        await group.reconnect("a")
        second = await pid_of(group, "a")
    recorded = {path.name: path.read_text() for path in folder.iterdir()}
    assert sorted(recorded) == ["a-1.jsonl", "a.jsonl", "b_c.jsonl"]
    assert str(first) in recorded["a-1.jsonl"]
    assert str(second) in recorded["a.jsonl"]
    assert not any(SECRET in text for text in recorded.values())
