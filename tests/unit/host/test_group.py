"""A group of servers: opening, names, calls, changes, closing. Every server but the one under test must go on."""

import asyncio
from contextlib import suppress

import pytest
from msgspec import Struct

from fake_server import SILENCE, FakeServer, Fault, acknowledge, legacy, scene, text
from twopipes import Context, RestartPolicy, Server, Timeouts
from twopipes._client.targets import target_of
from twopipes._host import group_server
from twopipes.errors import (
    ClientClosed,
    ConnectionLost,
    LocalProtocolError,
    McpError,
    OpeningFailed,
    RemoteProtocolError,
    StartFailed,
    TwopipesError,
)
from twopipes.host import ServerConfig, ServerGroup, ToolFilter
from twopipes.settings import Limits

AT_ONCE = RestartPolicy(first_delay=0.0)
CHANGED = "notifications/tools/list_changed"
ERAS = pytest.mark.parametrize("make", [FakeServer, legacy], ids=["modern", "legacy"])


def tools(*names, **members):
    """The result of tools/list."""
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}, **members} for name in names]}


def listing(*names, make=FakeServer, answers=None, **options):
    return make({"tools/list": tools(*names), **(answers or {})}, **options)


def configured(fake, **options):
    """A configuration that leads to a fake server."""

    class InMemory(ServerConfig):
        def target(self):
            return target_of(fake)

    return InMemory(command=["x"], **options)


def names_of(group):
    return [tool.name for tool in group.tools]


async def until(condition):
    """Run the event loop until a condition holds that has no event."""
    while not condition():
        await asyncio.sleep(0)


class Name(Struct):
    """A form."""

    name: str


class Problems(list):
    """Problems as the group reports them."""

    def __call__(self, server, problem):
        self.append((server, problem))

    @property
    def servers(self):
        return [server for server, _ in self]


# Opening


@ERAS
@scene
async def test_the_tools_of_all_servers_are_merged_in_the_order_of_the_servers(make):
    servers = {"b": listing("x", "y", make=make), "a": listing("x", make=make)}
    async with ServerGroup(servers) as group:
        assert names_of(group) == ["b__x", "b__y", "a__x"]
        assert [tool.server for tool in group.tools] == ["b", "b", "a"]
        assert [server.state for server in group.servers.values()] == ["ready", "ready"]
        assert group.problems == {}
        assert repr(group) == "<ServerGroup b: ready, a: ready>"
    assert {server.state for server in group.servers.values()} == {"closed"}


@ERAS
@scene
async def test_a_call_goes_to_the_server_and_the_tool_of_its_name(make):
    one, two = listing("x.y", make=make), listing("x.y", make=make, answers={"tools/call": text("two")})
    async with ServerGroup({"one": one, "two": two}) as group:
        assert (await group.call("two__x_y", {"a": 1})).text == "two"
    assert one.of("tools/call") == []
    assert two.of("tools/call")[0]["name"] == "x.y"
    assert two.of("tools/call")[0]["arguments"] == {"a": 1}


@scene
async def test_broken_servers_are_reported_and_skipped():
    problems = Problems()
    servers = {
        "gone": ["no-such-command-anywhere"],
        "wrong": ServerConfig(problem="the entry has no command"),
        "mute": listing("x", answers={"tools/list": Fault(-32603, "out of order")}),
        "fine": listing("x"),
    }
    async with ServerGroup(servers, on_problem=problems) as group:
        assert names_of(group) == ["fine__x"]
        assert sorted(problems.servers) == ["gone", "mute", "wrong"]
        assert list(group.problems) == ["gone", "wrong", "mute"]
        assert isinstance(group.problems["gone"], StartFailed)
        assert "no command" in str(group.problems["wrong"])
        assert isinstance(group.problems["mute"], McpError)
        assert {name: server.state for name, server in group.servers.items()} == {
            "gone": "failed",
            "wrong": "failed",
            "mute": "failed",
            "fine": "ready",
        }


@scene
async def test_servers_that_are_not_enabled_are_left_out():
    async with ServerGroup({"off": ServerConfig(command=["x"], enabled=False), "on": listing("x")}) as group:
        assert list(group.servers) == ["on"]


@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
@scene
async def test_a_server_that_hangs_while_it_is_opened_delays_the_group_for_its_own_limit(method):
    hangs = listing("x", answers={method: SILENCE, "initialize": SILENCE})
    servers = {"hangs": configured(hangs, timeouts=Timeouts(connect=0.2, probe=0.1)), "fine": listing("x")}
    async with ServerGroup(servers) as group:
        assert names_of(group) == ["fine__x"]
        assert isinstance(group.problems["hangs"], OpeningFailed)
        assert "0.2 s" in str(group.problems["hangs"])


@scene
async def test_a_list_of_endless_pages_is_bounded_by_the_same_limit():
    count = iter(range(10_000_000))

    async def page(asked):
        await asyncio.sleep(0.01)
        number = next(count)
        return {**tools(f"x{number}"), "nextCursor": str(number)}

    endless = listing(answers={"tools/list": page})
    servers = {"endless": configured(endless, timeouts=Timeouts(connect=0.3)), "fine": listing("x")}
    async with ServerGroup(servers) as group:
        assert names_of(group) == ["fine__x"]
        assert "did not list its tools within 0.3 s" in str(group.problems["endless"])


@scene
async def test_the_timeouts_of_a_server_are_used_instead_of_those_of_the_group():
    async with ServerGroup({"x": listing("x")}, timeouts=Timeouts(request=7)) as group:
        assert group.servers["x"].client.timeouts.request == 7
    own = ServerConfig(command=["no-such-command-anywhere"], timeouts=Timeouts(request=3))
    assert group._options.timeouts_of(own).request == 3


@scene
async def test_too_many_tools_fail_only_their_own_server():
    async with ServerGroup({"many": listing("a", "b", "c"), "fine": listing("x")}, limits=Limits(max_listed=2)) as group:
        assert names_of(group) == ["fine__x"]
        assert isinstance(group.problems["many"], RemoteProtocolError)


@pytest.mark.slow
@scene
async def test_ten_thousand_tools_are_listed_and_called():
    many = listing(*(f"tool_{number}" for number in range(10_000)))
    async with ServerGroup({"many": many, "fine": listing("x")}) as group:
        assert len(group.tools) == 10_001
        assert (await group.call("many__tool_9999")).text == "done"


@scene
async def test_a_server_without_tools_is_ready():
    async with ServerGroup({"empty": FakeServer(capabilities={"prompts": {}})}) as group:
        assert group.servers["empty"].state == "ready"
        assert group.tools == []


@scene
async def test_an_unexpected_exception_is_the_problem_of_its_server():
    class Odd(ServerConfig):
        def target(self):
            raise ZeroDivisionError("odd")

    async with ServerGroup({"odd": Odd(command=["x"]), "fine": listing("x")}) as group:
        assert "ZeroDivisionError('odd')" in str(group.problems["odd"])
        assert names_of(group) == ["fine__x"]


@scene
async def test_a_group_is_opened_once_and_used_only_while_it_is_open():
    group = ServerGroup({"a": listing("x")})
    with pytest.raises(LocalProtocolError, match="not open"):
        await group.call("a__x")
    async with group:
        with pytest.raises(LocalProtocolError, match="open already"):
            await group.open()
    for use in (group.open(), group.call("a__x"), group.list_tools(), group.add("b", listing())):
        with pytest.raises(ClientClosed, match="the group is closed; create another ServerGroup"):
            await use


def test_a_file_name_instead_of_servers_is_an_error():
    with pytest.raises(LocalProtocolError, match="load"):
        ServerGroup("servers.json")


# Names and filters


@scene
async def test_an_unknown_tool_is_an_error_with_suggestions_and_broken_servers():
    async with ServerGroup({"time": listing("now"), "bad": ["no-such-command-anywhere"]}) as group:
        with pytest.raises(LocalProtocolError, match=r"no tool 'time__nwo' .*similar names: time__now; .*problems: bad"):
            await group.call("time__nwo")


@scene
async def test_filters_of_the_group_and_of_a_server_both_apply_also_to_calls():
    fake = listing("read", "write", "list")
    config = configured(fake, tools=ToolFilter(exclude=["write"]))
    async with ServerGroup({"a": config}, tools=ToolFilter(exclude=["list"])) as group:
        assert names_of(group) == ["a__read"]
        for name in ("a__write", "a__list"):
            with pytest.raises(LocalProtocolError, match="no tool"):
                await group.call(name)
    assert fake.of("tools/call") == []


@scene
async def test_names_that_collide_or_look_alike_are_warnings_and_reported_once():
    problems = Problems()
    fake = listing("x.y", "x_y", "Z", "z")
    async with ServerGroup({"a": fake, "A": listing()}, on_problem=problems) as group:
        assert [(each.kind, each.name) for each in group.warnings] == [
            ("look-alike", ""),
            ("collision", "x_y"),
            ("look-alike", "z"),
        ]
        assert [problem for _, problem in problems] == group.warnings
        fake.answers["tools/list"] = tools("x.y", "x_y", "Z", "z", "new")
        await group.list_tools(fresh=True)
        assert len(problems) == 3
        assert group.problems == {}


@scene
async def test_a_tool_that_is_listed_twice_is_offered_once():
    async with ServerGroup({"a": listing("x", "x")}) as group:
        assert names_of(group) == ["a__x"]
        assert [each.kind for each in group.warnings] == ["duplicate"]


# Lazy groups


@ERAS
@scene
async def test_a_lazy_group_opens_a_server_at_the_first_call_of_its_tool(make):
    one, two = listing("x", make=make), listing("x", make=make)
    async with ServerGroup({"one": one, "two": two}, lazy=True) as group:
        assert (group.tools, one.lines, two.lines) == ([], [], [])
        assert (await group.call("one__x")).text == "done"
        assert (group.servers["one"].state, group.servers["two"].state) == ("ready", "waiting")
        assert two.lines == []


@scene
async def test_calls_at_the_same_time_share_one_opening():
    fake = listing("x")
    async with ServerGroup({"a": fake}, lazy=True) as group:
        await asyncio.gather(*(group.call("a__x") for _ in range(5)))
    assert len(fake.lives) == 1


@scene
async def test_listing_opens_all_servers_that_wait():
    async with ServerGroup({"a": listing("x"), "b": listing("y"), "bad": ["no-such-command-anywhere"]}, lazy=True) as group:
        assert [tool.name for tool in await group.list_tools()] == ["a__x", "b__y"]
        assert list(group.problems) == ["bad"]


@scene
async def test_a_cancelled_call_does_not_cancel_the_opening_for_others():
    held = asyncio.Event()

    async def discover(asked):
        await held.wait()
        return asked.fake._discover(asked)

    fake = listing("x", answers={"server/discover": discover})
    async with ServerGroup({"a": fake}, lazy=True) as group:
        first = asyncio.create_task(group.call("a__x"))
        second = asyncio.create_task(group.call("a__x"))
        await fake.until("server/discover")
        first.cancel()
        held.set()
        assert (await second).text == "done"
        with pytest.raises(asyncio.CancelledError):
            await first


@scene
async def test_a_call_opens_a_server_again_that_could_not_be_opened():
    fake = listing("x", answers={"tools/list": [Fault(-32603, "not yet"), tools("x")]})
    async with ServerGroup({"a": fake}) as group:
        assert group.servers["a"].state == "failed"
        assert (await group.call("a__x")).text == "done"
        assert (group.servers["a"].state, group.problems) == ("ready", {})


@scene
async def test_a_call_of_a_server_that_cannot_be_opened_raises_its_problem():
    async with ServerGroup({"a": ["no-such-command-anywhere"]}, lazy=True) as group:
        outcomes = await asyncio.gather(*(group.call("a__x") for _ in range(2)), return_exceptions=True)
        assert [type(each) for each in outcomes] == [StartFailed, StartFailed]
        assert outcomes[0] is not outcomes[1]


# Crashes


@scene
async def test_a_modern_server_is_restarted_by_its_client_and_its_tools_are_listed_again():
    restarts = Problems()
    fake, other = listing("x"), listing("x")
    async with ServerGroup({"a": fake, "b": other}, restart=AT_ONCE, on_restart=restarts) as group:
        fake.answers["tools/list"] = tools("x", "new")
        await fake.hang_up()
        await until(lambda: names_of(group) == ["a__x", "a__new", "b__x"])
        assert restarts.servers == ["a"]
        assert (group.servers["a"].restarts, group.servers["b"].restarts) == (1, 0)
        assert group.problems == {}


@scene
async def test_a_legacy_server_that_died_is_reported_and_opened_again_by_the_next_call():
    problems = Problems()
    fake = listing("x", make=legacy)
    async with ServerGroup({"a": fake, "b": listing("x")}, on_problem=problems) as group:
        await fake.hang_up()
        await until(lambda: group.servers["a"].state == "failed")
        assert names_of(group) == ["a__x", "b__x"]
        assert (problems.servers, list(group.problems)) == (["a"], ["a"])
        assert len(fake.lives) == 1
        assert (await group.call("a__x")).text == "done"
        assert len(fake.lives) == 2
        assert (group.servers["a"].state, group.servers["a"].restarts, group.problems) == ("ready", 1, {})


@scene
async def test_a_call_that_a_legacy_server_may_have_run_is_not_sent_again():
    async def die(asked):
        await asked.fake.hang_up()
        return SILENCE

    fake = listing("x", make=legacy, answers={"tools/call": [die, text("second")]})
    async with ServerGroup({"a": fake}) as group:
        with pytest.raises(ConnectionLost):
            await group.call("a__x")
        assert len(fake.of("tools/call")) == 1
        assert (await group.call("a__x")).text == "second"


@scene
async def test_a_call_that_only_reads_is_sent_again_to_a_new_legacy_server():
    async def die(asked):
        await asked.fake.hang_up()
        return SILENCE

    problems = Problems()
    reads = tools("x", annotations={"readOnlyHint": True})
    fake = legacy({"tools/list": reads, "tools/call": [die, text("second")]})
    async with ServerGroup({"a": fake}, on_problem=problems) as group:
        assert (await group.call("a__x")).text == "second"
    assert (len(fake.lives), problems.servers) == (2, ["a"])


@scene
async def test_a_server_that_must_never_be_restarted_is_opened_again_only_on_request():
    fake = listing("x")
    async with ServerGroup({"a": fake}, restart=RestartPolicy(when="never")) as group:
        await fake.hang_up()
        await until(lambda: group.servers["a"].state == "failed")
        with pytest.raises(ConnectionLost):
            await group.call("a__x")
        await group.reconnect("a")
        assert (await group.call("a__x")).text == "done"
        assert len(fake.lives) == 2


@scene
async def test_a_crash_loop_ends_with_a_reported_error_and_does_not_reach_others():
    async def die(asked):
        await asked.fake.hang_up()
        return SILENCE

    problems = Problems()
    fake = listing("x", answers={"tools/call": die})
    policy = RestartPolicy(first_delay=0.0, max_restarts=2, max_delay=0.0)
    async with ServerGroup({"a": fake, "b": listing("x")}, restart=policy, on_problem=problems) as group:
        while group.servers["a"].state != "failed":
            with suppress(TwopipesError):
                await group.call("a__x")
        assert problems.servers == ["a"]
        before = len(fake.lives)
        with pytest.raises(ConnectionLost):
            await group.call("a__x")  # too many crashes: the call does not start it again
        assert len(fake.lives) == before
        assert (await group.call("b__x")).text == "done"


# Changes


@pytest.mark.parametrize("era", ["modern", "legacy"])
@scene
async def test_a_change_of_one_servers_tools_is_merged_and_reported(era):
    seen = asyncio.Queue()
    fake = Server("fake", eras=era)
    fake.tool(lambda: "old", name="old")
    async with ServerGroup({"a": fake, "b": listing("x")}, on_tools=seen.put_nowait) as group:
        fake.tool(lambda: "new", name="new")
        assert [tool.name for tool in await seen.get()] == ["a__old", "a__new", "b__x"]
        assert (await group.call("a__new")).text == "new"


@scene
async def test_a_server_that_floods_changes_is_listed_once_in_a_while(monkeypatch):
    monkeypatch.setattr(group_server, "_LIST_PAUSE", 3600.0)
    fake = listing("x", make=legacy)
    async with ServerGroup({"a": fake, "b": listing("x")}) as group:
        for number in range(2_000):
            fake.notify(CHANGED)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await fake.until("tools/list", 2)
        assert (await group.call("b__x")).text == "done"
        assert (await group.call("a__x")).text == "done"  # which is read after all changes
        assert len(fake.of("tools/list")) == 2


@scene
async def test_a_change_during_the_list_leads_to_another_list():
    async def changing(asked):
        fake.answers["tools/list"] = tools("x", "y")
        fake.notify(CHANGED)
        return tools("x")

    fake = listing(make=legacy, answers={"tools/list": changing})
    async with ServerGroup({"a": fake}) as group:
        await until(lambda: names_of(group) == ["a__x", "a__y"])


@scene
async def test_a_change_before_a_late_acknowledgement_is_not_missed(monkeypatch):
    monkeypatch.setattr(group_server, "_ACKNOWLEDGEMENT", 0.0)
    listens = []
    fake = listing("x", answers={"subscriptions/listen": lambda asked: listens.append(asked) or SILENCE})
    async with ServerGroup({"a": fake}) as group:
        fake.answers["tools/list"] = tools("x", "y")
        acknowledge(listens[0])
        await until(lambda: names_of(group) == ["a__x", "a__y"])


@scene
async def test_a_server_that_refuses_to_report_changes_is_used_and_reported():
    problems = Problems()
    fake = listing("x", answers={"subscriptions/listen": Fault(-32603, "no changes here")})
    async with ServerGroup({"a": fake}, on_problem=problems) as group:
        await until(lambda: problems)
        assert ("no changes here" in str(group.problems["a"]), group.servers["a"].state) == (True, "ready")
        assert (await group.call("a__x")).text == "done"


@scene
async def test_a_list_that_fails_later_is_reported_and_the_old_one_stays():
    problems = Problems()
    fake = listing("x", make=legacy)
    async with ServerGroup({"a": fake}, on_problem=problems) as group:
        fake.answers["tools/list"] = Fault(-32603, "broken")
        fake.notify(CHANGED)
        await until(lambda: problems)
        assert (names_of(group), group.servers["a"].state) == (["a__x"], "ready")
        fake.answers["tools/list"] = tools("x", "y")
        assert [tool.name for tool in await group.list_tools(fresh=True)] == ["a__x", "a__y"]
        assert group.problems == {}


@scene
async def test_changes_during_the_callback_lead_to_one_more_call():
    seen, gate = [], asyncio.Event()

    async def slow(found):
        seen.append([tool.name for tool in found])
        await gate.wait()

    async with ServerGroup({}, on_tools=slow) as group:
        await group.add("a", listing("x"))
        await until(lambda: seen)
        for name in "bcd":
            await group.add(name, listing("x"))
        gate.set()
        await until(lambda: len(seen) == 2)
        assert seen == [["a__x"], ["a__x", "b__x", "c__x", "d__x"]]


@scene
async def test_callbacks_that_raise_do_no_harm():
    failures = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(str(context["exception"])))

    def fail(*arguments):
        raise ValueError("callback")

    fake = listing("x", make=legacy)
    async with ServerGroup(
        {"a": fake, "bad": ["no-such-command-anywhere"]}, on_problem=fail, on_tools=fail, on_tool_changed=fail, on_log=fail
    ) as group:
        fake.notify("notifications/message", {"level": "info", "data": "x"})
        fake.answers["tools/list"] = tools("x", description="other")
        fake.notify(CHANGED)
        await until(lambda: len(failures) == 4)
        assert (await group.call("a__x")).text == "done"
    assert failures == ["callback"] * 4


@pytest.mark.parametrize(
    "schema",
    ['{"a":' * 5_000 + "{}" + "}" * 5_000, '{"description":"\\ud800"}', '{"type":"object","required":7}', "[]", "null"],
    ids=["deep", "surrogate", "odd", "array", "null"],
)
@scene
async def test_an_unusual_schema_is_at_most_the_problem_of_its_server(schema):
    def respond(asked):
        listed = f'{{"tools":[{{"name":"x","inputSchema":{schema}}}]}}'
        asked.fake.write(f'{{"jsonrpc":"2.0","id":{asked.id},"result":{listed}}}\n'.encode(), asked.channel)
        return SILENCE

    strange = legacy()
    async with ServerGroup({"strange": strange, "fine": listing("x")}) as group:
        strange.answers["tools/list"] = respond
        strange.notify(CHANGED)
        await strange.until("tools/list", 2)
        await group.list_tools(fresh=True)
        assert (await group.call("fine__x")).text == "done"
        assert [tool.to_openai()["name"] for tool in group.tools][-1] == "fine__x"
        await group.reconnect("strange")
        assert names_of(group)[-1] == "fine__x"


@scene
async def test_a_list_that_cannot_be_compared_is_reported_and_the_group_goes_on(monkeypatch):
    fake = listing("x")
    async with ServerGroup({"a": fake, "b": listing("x")}) as group:
        monkeypatch.setattr(group._tools.approvals, "check", lambda *_: 1 / 0)
        await group.list_tools(fresh=True)
        assert "the list of tools cannot be used: ZeroDivisionError" in str(group.problems["a"])
        monkeypatch.undo()
        assert (await group.call("b__x")).text == "done"
        await group.list_tools(fresh=True)
        assert group.problems == {}


# Callbacks and questions


@pytest.mark.parametrize("era", ["modern", "legacy"])
@scene
async def test_every_callback_gets_the_name_of_the_server(era):
    logs = asyncio.Queue()
    server = Server("asking", eras=era)

    @server.tool
    async def ask(ctx: Context) -> str:
        ctx.log("error", "hello")
        return (await ctx.elicit("Who?", Name)).content.name

    async def elicit(name, question):
        return {"name": f"{name}: {question.message}"}

    async with ServerGroup(
        {"one": server, "two": listing()}, on_elicit=elicit, on_log=lambda name, log: logs.put_nowait((name, log.data))
    ) as group:
        assert (await group.call("one__ask", log_level="debug")).text == "one: Who?"
        assert await logs.get() == ("one", "hello")


@scene
async def test_a_question_that_is_never_answered_blocks_only_its_own_call():
    server = Server("asking")

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Name)).content.name

    asked = asyncio.Event()

    async def never(name, question):
        asked.set()
        await asyncio.Event().wait()

    async with ServerGroup({"one": server, "two": listing("x")}, on_elicit=never) as group:
        waiting = asyncio.create_task(group.call("one__ask"))
        await asked.wait()
        assert (await group.call("two__x")).text == "done"
        waiting.cancel()
        await asyncio.wait([waiting])


# Adding, removing, closing


@scene
async def test_a_call_during_a_reconnect_waits_for_it():
    fake = listing("x")
    async with ServerGroup({"a": fake}) as group:
        reconnecting = asyncio.create_task(group.reconnect("a"))
        await until(lambda: group.servers["a"].state == "opening")
        assert (await group.call("a__x")).text == "done"
        await reconnecting
    assert len(fake.lives) == 2


@scene
async def test_a_trace_folder_that_cannot_be_made_fails_the_opening(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalProtocolError, match="trace="):
        await ServerGroup({"a": listing("x")}, trace=tmp_path / "file" / "x").open()


@scene
async def test_servers_are_added_removed_and_reconnected():
    one = listing("x")
    async with ServerGroup({"a": one}) as group:
        added = await group.add("b", listing("y"))
        assert (added.state, names_of(group)) == ("ready", ["a__x", "b__y"])
        with pytest.raises(LocalProtocolError, match="a server 'b' already"):
            await group.add("b", listing())
        broken = await group.add("c", ["no-such-command-anywhere"])
        assert isinstance(broken.problem, StartFailed)
        await group.remove("b")
        await group.remove("c")
        assert (names_of(group), list(group.servers), added.state) == (["a__x"], ["a"], "closed")
        with pytest.raises(LocalProtocolError, match="no server 'b'; the servers are a"):
            await group.remove("b")
        one.answers["tools/list"] = tools("z")
        assert (await group.reconnect("a")).state == "ready"
        assert names_of(group) == ["a__z"]
        assert len(one.lives) == 2


@scene
async def test_a_renamed_server_has_tools_with_the_new_prefix():
    fake = listing("x")
    async with ServerGroup({"old": fake}) as group:
        await group.remove("old")
        await group.add("new", fake)
        assert names_of(group) == ["new__x"]
        with pytest.raises(LocalProtocolError, match="similar names: new__x"):
            await group.call("old__x")


@pytest.mark.parametrize("end", ["remove", "close", "reconnect"])
@scene
async def test_calls_in_flight_end_with_an_error_when_their_server_is_closed(end):
    fake = listing("x", answers={"tools/call": SILENCE})
    async with ServerGroup({"a": fake, "b": listing("x")}) as group:
        call = asyncio.create_task(group.call("a__x"))
        await fake.until("tools/call")
        await (group.close() if end == "close" else getattr(group, end)("a"))
        with pytest.raises(ClientClosed):
            await call
        if end != "close":
            assert (await group.call("b__x")).text == "done"


@scene
async def test_closing_during_the_opening_ends_it():
    fake = listing(answers={"server/discover": SILENCE})
    group = ServerGroup({"a": fake, "b": listing("x")})
    opening = asyncio.create_task(group.open())
    await fake.until("server/discover")
    await group.close()
    with pytest.raises(ClientClosed):
        await opening
    assert {server.state for server in group.servers.values()} == {"closed"}


@scene
async def test_removing_a_server_during_the_opening_leaves_the_others():
    fake = listing(answers={"server/discover": SILENCE})
    group = ServerGroup({"a": fake, "b": listing("x")})
    opening = asyncio.create_task(group.open())
    await fake.until("server/discover")
    await group.remove("a")
    await opening
    assert names_of(group) == ["b__x"]
    await group.close()


@scene
async def test_closing_waits_for_a_server_whose_removal_was_cancelled():
    fake = listing("x")
    async with ServerGroup({"a": fake}) as group:
        removing = asyncio.create_task(group.remove("a"))
        await until(lambda: not group.servers)
        removing.cancel()
    assert fake.gone.is_set()
    await asyncio.wait([removing])


@scene
async def test_cancelling_the_opening_closes_what_was_opened():
    fake, other = listing(answers={"server/discover": SILENCE}), listing("x")
    group = ServerGroup({"a": fake, "b": other})
    opening = asyncio.create_task(group.open())
    await fake.until("server/discover")
    await other.until("tools/list")
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert fake.gone.is_set()
    assert other.gone.is_set()


@scene
async def test_closing_twice_or_from_a_callback_is_allowed():
    closed = asyncio.Event()

    async def close(found):
        closed.set()
        await group.close()

    async with ServerGroup({"a": listing("x")}, on_tools=close) as group:
        await group.add("b", listing("x"))
        await closed.wait()
        await asyncio.gather(group.close(), group.close())


# Resources and prompts


@ERAS
@scene
async def test_resources_and_prompts_come_from_all_servers_that_work(make):
    problems = Problems()
    answers = {
        "resources/list": {"resources": [{"uri": "x://1", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x://{id}", "name": "all"}]},
        "resources/read": {"contents": [{"uri": "x://1", "text": "content"}]},
        "prompts/list": {"prompts": [{"name": "p"}]},
    }
    faults = dict.fromkeys(answers, Fault(-32603, "broken"))
    fake, broken = make(answers), make(faults)
    async with ServerGroup({"a": fake, "b": broken}, lazy=True, on_problem=problems) as group:
        assert [each.uri for each in (await group.list_resources())["a"]] == ["x://1"]
        assert [each.name for each in (await group.list_resource_templates())["a"]] == ["all"]
        assert (await group.read_resource("a", "x://1")).text == "content"
        assert [(each.name, each.server) for each in await group.list_prompts()] == [("a__p", "a")]
        await group.get_prompt("a__p", {"x": "1"})
        with pytest.raises(LocalProtocolError, match="no prompt 'a__q'"):
            await group.get_prompt("a__q")
    assert fake.of("prompts/get")[0]["name"] == "p"
    assert problems.servers == ["b"] * 3


@scene
async def test_prompts_of_a_server_that_was_removed_meanwhile_are_left_out():
    held = asyncio.Event()

    async def prompts(asked):
        await held.wait()
        return {"prompts": [{"name": "p"}]}

    fake = FakeServer({"prompts/list": prompts})
    async with ServerGroup({"a": fake, "b": FakeServer({"prompts/list": {"prompts": [{"name": "q"}]}})}) as group:
        listed = asyncio.create_task(group.list_prompts())
        await fake.until("prompts/list")
        await group.remove("a")
        held.set()
        assert [prompt.name for prompt in await listed] == ["b__q"]
        with pytest.raises(LocalProtocolError, match="no prompt 'a__p'"):
            await group.get_prompt("a__p")


@scene
async def test_a_prompt_can_be_got_before_prompts_were_listed():
    fake = FakeServer({"prompts/list": {"prompts": [{"name": "p.q"}]}})
    async with ServerGroup({"a": fake}, lazy=True) as group:
        await group.get_prompt("a__p_q")
    assert fake.of("prompts/get")[0]["name"] == "p.q"
