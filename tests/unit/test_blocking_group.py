"""The group without await, with servers in this process."""

import gc
import inspect
import threading
import warnings

import pytest

from twopipes import Context, Server
from twopipes._blocking.loop import LoopThread
from twopipes._channels.memory import memory_pair
from twopipes.blocking import Client, ServerGroup
from twopipes.errors import CallDenied, ClientClosed, LocalProtocolError
from twopipes.host import Allow, Deny, Edit, ServerConfig
from twopipes.host import ServerGroup as AsyncGroup

# Seconds. The limit for a hang; nothing takes nearly as long.
NET = 30
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.fixture(autouse=True)
def nothing_left():
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(NET)
        assert not thread.is_alive(), thread
    assert LoopThread.current is None


def sums():
    server = Server("sums")

    @server.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @server.tool
    async def steps(ctx: Context, count: int) -> str:
        for number in range(count):
            await ctx.progress(number + 1, count)
        return "done"

    @server.tool
    async def grow(ctx: Context) -> str:
        """Add a tool."""
        server.add_tool(lambda: "new", name="grown", description="Was not there before.")
        return "grown"

    return server


def asking():
    server = Server("asking")

    @server.tool
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who is there?", FORM)
        return f"Hello, {answer.content['name']}"

    @server.tool
    async def places(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.list_roots())

    @server.prompt
    async def paint(colour: str) -> str:
        return f"Paint it {colour}."

    @server.resource("asking://colour")
    async def colour() -> str:
        return "green"

    return server


def servers():
    return {"sums": sums(), "asking": asking(), "broken": ServerConfig(command=["/no/such/program"])}


def test_it_has_every_public_member_of_the_async_group():
    for name, member in inspect.getmembers(AsyncGroup):
        if not name.startswith("_"):
            ours = getattr(ServerGroup, name)
            if inspect.isfunction(member):
                assert inspect.signature(ours).parameters == inspect.signature(member).parameters, name
    assert inspect.signature(ServerGroup) == inspect.signature(AsyncGroup)


def test_the_tools_of_all_servers():
    with ServerGroup(servers()) as group:
        assert [tool.name for tool in group.tools] == [
            "sums__add", "sums__steps", "sums__grow", "asking__greet", "asking__places"
        ]  # fmt: skip
        assert list(group.problems) == ["broken"]
        assert {name: server.state for name, server in group.servers.items()} == {
            "sums": "ready", "asking": "ready", "broken": "failed"
        }  # fmt: skip
        assert group.warnings == []
        assert group.approved.keys() == {tool.name for tool in group.tools}
        assert group.call("sums__add", {"a": 1, "b": 2}).text == "3"
        assert group.find_tool("sums__add").server == "sums"
        assert group.accept("sums__add").changed is False
        assert [each.name for each in group.list_prompts()] == ["asking__paint"]
        assert group.get_prompt("asking__paint", {"colour": "red"}).messages[0].content.text == "Paint it red."
        assert [each.uri for each in group.list_resources()["asking"]] == ["asking://colour"]
        assert group.read_resource("asking", "asking://colour").text == "green"


def test_servers_come_and_go():
    with ServerGroup({"sums": sums()}, lazy=True) as group:
        assert group.tools == []
        assert len(group.list_tools()) == 3
        group.remove("sums")
        assert group.list_tools() == []
        group.add("more", sums())
        assert group.call("more__add", {"a": 1, "b": 1}).text == "2"
        assert group.reconnect("more").state == "ready"
        with pytest.raises(LocalProtocolError, match="sums"):
            group.call("sums__add", {"a": 1, "b": 1})


def test_the_state_can_be_read_before_and_after():
    group = ServerGroup(servers())
    assert group.tools == []
    assert group.servers["sums"].state == "waiting"
    with group:
        pass
    assert group.servers["sums"].state == "closed"
    assert list(group.problems) == ["broken"]
    assert "sums: closed" in repr(group)


def test_calls_need_an_open_group():
    group = ServerGroup({"sums": sums()})
    with pytest.raises(LocalProtocolError, match=r"not open; use with ServerGroup\(...\) as group"):
        group.call("sums__add", {"a": 1, "b": 2})
    group.close()  # it was never open
    with group, pytest.raises(LocalProtocolError, match="open already"):
        group.open()
    group.close()
    with pytest.raises(ClientClosed):
        group.call("sums__add", {"a": 1, "b": 2})


def test_wrong_arguments_fail_at_once():
    with pytest.raises(LocalProtocolError, match="a dict of servers"):
        ServerGroup([sums()])
    with pytest.raises(TypeError, match="lasy"):
        ServerGroup({}, lasy=True)
    with pytest.raises(LocalProtocolError, match="belongs to an event loop"):
        ServerGroup({"channel": memory_pair()[0]})


# Threads


def test_progress_is_reported_in_the_thread_of_the_call():
    reports = []
    with ServerGroup({"sums": sums()}) as group:
        group.call("sums__steps", {"count": 3}, on_progress=lambda report: reports.append((report.progress, here())))
    assert reports == [(1, here()), (2, here()), (3, here())]


def here():
    return threading.current_thread()


def test_questions_and_approvals_run_in_threads_and_may_use_the_group():
    threads = []

    def approve(server, tool, arguments):
        threads.append(here())
        match tool.name:
            case "sums__grow":
                return Deny("it is big enough")
            case "asking__greet":
                return Edit({**arguments})
        return Allow()

    def on_elicit(server, question):
        threads.append(here())
        assert server == "asking"
        return {"name": group.call("sums__add", {"a": 40, "b": 2}).text}

    def roots(server):
        threads.append(here())
        return [f"file:///{server}"]

    with ServerGroup(servers(), approve=approve, on_elicit=on_elicit, roots=roots) as group:
        assert group.call("asking__greet").text == "Hello, 42"
        assert group.call("asking__places").text == "file:///asking"
        with pytest.raises(CallDenied, match="it is big enough"):
            group.call("sums__grow")
        loop_thread = group._loop_thread._thread
    assert len(set(threads)) == len(threads) == 6  # a thread for each
    assert not {loop_thread, here()} & set(threads)


def test_events_run_in_one_thread_in_which_the_group_can_be_used():
    threads, problems, lists = set(), [], []
    has_grown, is_reported = threading.Event(), threading.Event()

    def on_problem(server, problem):
        threads.add(here())
        problems.append(server)
        is_reported.set()

    def on_tools(tools):
        threads.add(here())
        lists.append(group.call("sums__add", {"a": 1, "b": 1}).text)
        if any(tool.name == "sums__grown" for tool in tools):
            has_grown.set()

    group = ServerGroup(servers(), on_problem=on_problem, on_tools=on_tools)
    with group:
        assert is_reported.wait(NET)
        assert problems == ["broken"]
        group.call("sums__grow")
        assert has_grown.wait(NET)
        loop_thread = group._loop_thread._thread
    assert set(lists) == {"2"}
    assert len(threads) == 1
    assert not {loop_thread, here()} & threads


def test_an_async_callback_can_read_the_state():
    seen = []

    async def approve(server, tool, arguments):
        seen.append(len(group.tools))
        return Allow()

    with ServerGroup({"sums": sums()}, approve=approve) as group:
        group.call("sums__add", {"a": 1, "b": 1})
    assert seen == [3]


def test_several_threads_share_a_group():
    texts = []
    with ServerGroup({"sums": sums()}) as group:
        threads = [
            threading.Thread(target=lambda n=n: texts.append(group.call("sums__add", {"a": n, "b": 0}).text)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(NET)
    assert sorted(texts) == [str(n) for n in range(8)]


def test_a_group_that_is_not_closed_is_reported_and_closed():
    group = ServerGroup({"sums": sums()})
    group.open()
    thread = group._loop_thread._thread
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        del group
        gc.collect()
        thread.join(NET)
    assert [each.category for each in complaints] == [ResourceWarning]
    assert "was not closed" in str(complaints[0].message)


# The client of one server


def test_the_client_of_a_server_is_a_blocking_one():
    reported = []
    with ServerGroup(servers()) as group:
        server = group.servers["sums"]
        client = server.client
        assert isinstance(client, Client)
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        client.call_tool("steps", {"count": 3}, on_progress=lambda progress: reported.append(progress.progress))
        with client:
            assert [tool.name for tool in client.list_tools()] == ["add", "steps", "grow"]
        assert client.capabilities.tools is not None
        assert server == group.servers["sums"]
        assert len({server, group.servers["sums"], group.servers["asking"]}) == 2
        assert repr(server) == "<GroupServer sums, ready, tools: 3>"
        assert [tool.name for tool in server.tools] == ["sums__add", "sums__steps", "sums__grow"]
        assert (server.name, server.restarts, server.problem, list(server.stderr)) == ("sums", 0, None, [])
    assert reported == [1, 2, 3]
    assert (server.state, server.client) == ("closed", None)


def test_only_the_group_closes_the_client_of_a_server():
    with ServerGroup(servers()) as group:
        with pytest.raises(LocalProtocolError, match=r"belongs to a group; use group\.remove"):
            group.servers["sums"].client.close()
        gc.collect()  # the client that was dropped closes nothing
        assert group.call("sums__add", {"a": 1, "b": 2}).text == "3"


def test_a_server_that_is_added_or_reconnected_has_a_blocking_client():
    with ServerGroup({}) as group:
        added = group.add("sums", sums())
        assert added.client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        again = group.reconnect("sums")
        assert again == added
        assert again.client.call_tool("add", {"a": 1, "b": 2}).text == "3"
        assert group.add("broken", ["/nonexistent/server"]).client is None


def test_a_client_can_be_used_in_several_threads():
    results = []
    with ServerGroup({"sums": sums()}) as group:
        client = group.servers["sums"].client
        threads = [
            threading.Thread(target=lambda n=n: results.append(client.call_tool("add", {"a": n, "b": 0}).text)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(NET)
    assert sorted(results) == [str(number) for number in range(8)]
