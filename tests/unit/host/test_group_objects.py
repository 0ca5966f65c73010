"""What a group's objects show: tools, servers, options, and the texts of problems."""

import asyncio
from concurrent.futures import Future

import pytest

from fake_server import FakeServer, scene
from twopipes import RestartPolicy, Timeouts
from twopipes._client.targets import CommandTarget
from twopipes._host.group_options import GroupOptions
from twopipes._host.names import NameProblem
from twopipes._host.notifier import Notifier
from twopipes.errors import ConnectionLost
from twopipes.host import GroupTool, Sandbox, ServerConfig, ServerGroup
from twopipes.process import ServerCommand
from twopipes.types import Tool, ToolAnnotations

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
STRICT, OWN = Sandbox(read=["/data"]), Sandbox(network=True)


def test_a_tool_shows_what_its_server_says_about_it():
    own = Tool("x", SCHEMA, "Does x.", annotations=ToolAnnotations(title="Do x", read_only_hint=True))
    tool = GroupTool(name="a__x", server="a", tool=own, fingerprint="1")
    assert (tool.description, tool.title, tool.input_schema) == ("Does x.", "Do x", SCHEMA)
    assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, True)
    assert tool.to_anthropic() == {"name": "a__x", "description": "Does x.", "input_schema": SCHEMA}
    assert tool.to_openai()["name"] == "a__x"
    assert tool.to_openai("chat")["function"]["parameters"] == SCHEMA
    with pytest.raises(ValueError, match="api"):
        tool.to_openai("other")


@scene
async def test_a_server_shows_its_state_its_tools_and_its_stderr():
    fake = FakeServer({"tools/list": {"tools": [{"name": "x", "inputSchema": {}}]}})
    async with ServerGroup({"a": fake, "bad": ["no-such-command-anywhere"]}) as group:
        server, bad = group.servers["a"], group.servers["bad"]
        assert repr(server) == "<GroupServer a, ready, tools: 1>"
        assert server.tools == group.tools
        assert (list(server.stderr), list(bad.stderr), bad.restarts, bad.client) == ([], [], 0, None)
        with pytest.raises(TypeError):
            group.servers["new"] = server


@scene
async def test_a_server_that_was_given_up_is_ready_again_when_a_call_has_restarted_it():
    fake = FakeServer({"tools/list": {"tools": [{"name": "x", "inputSchema": {}}]}})
    policy = RestartPolicy(max_restarts=0, window=0.2)
    async with ServerGroup({"a": fake}, restart=policy) as group:
        await fake.hang_up()
        while group.servers["a"].state != "failed":
            await asyncio.sleep(0)
        while True:
            try:
                await group.call("a__x")
                break
            except ConnectionLost:  # until the crash is no longer in the window
                await asyncio.sleep(0.01)
        assert (group.servers["a"].state, group.problems) == ("ready", {})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (["server"], STRICT),
        (ServerCommand(["server"]), STRICT),
        (ServerCommand(["server"], sandbox=OWN), OWN),
        (ServerConfig(command=["server"]), STRICT),
        (ServerConfig(command=["server"], sandbox=OWN), OWN),
        (ServerConfig(command=["server"], sandbox=False), None),
    ],
    ids=["list", "command", "own of a command", "config", "own of a config", "free"],
)
def test_a_command_without_a_sandbox_gets_that_of_the_group(config, expected):
    target = GroupOptions(sandbox=STRICT)._target(config)
    assert target.command.sandbox == expected
    assert GroupOptions()._target(config).command.sandbox == (expected if expected is OWN else None)


def test_a_url_or_a_server_in_this_process_has_no_sandbox():
    for config in ("https://example.test/mcp", ServerConfig(url="tcp://localhost:1"), FakeServer()):
        assert not isinstance(GroupOptions(sandbox=STRICT)._target(config), CommandTarget)


def test_timeouts_come_from_the_server_the_group_or_the_default():
    group = GroupOptions(timeouts=Timeouts(request=7))
    assert group.timeouts_of(ServerConfig(command=["x"], timeouts=Timeouts(request=3))).request == 3
    assert group.timeouts_of(ServerConfig(command=["x"])).request == 7
    assert group.timeouts_of(["x"]).request == 7
    assert GroupOptions().timeouts_of(["x"]) == Timeouts()


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            NameProblem("collision", "a", "x.y", "a", "x_y"),
            "'x.y' of 'a' would have the same public name as 'x_y' of 'a'; the names got a hash to tell them apart",
        ),
        (
            NameProblem("look-alike", "a", "Z", "a", "z"),
            "'Z' of 'a' looks like 'z' of 'a'; check which one is meant before you allow a call",
        ),
        (
            NameProblem("impersonation", "evil", "git__push", "git", ""),
            (
                "'git__push' of 'evil' has a name that begins like those of the server 'git'; "
                "check which server is meant before you allow a call"
            ),
        ),
        (NameProblem("duplicate", "a", "x" * 1000, "a", "x"), f"'a' lists '{'x' * 100}...' more than once; the first one is used"),
    ],
    ids=lambda value: value.kind if isinstance(value, NameProblem) else "",
)
def test_a_problem_of_names_is_described(problem, text):
    assert str(problem) == text


@scene
async def test_a_callback_that_returns_a_future_runs_until_it_is_done():
    """The blocking group runs callbacks in a thread."""
    seen, futures = [], []

    def callback(value):
        seen.append(value)
        futures.append(Future())
        return futures[-1]

    notifier = Notifier(callback, lambda: len(seen))
    notifier.changed()  # not started yet: ignored
    notifier.start()
    notifier.changed()
    while not futures:
        await asyncio.sleep(0)
    notifier.changed()
    notifier.changed()
    await asyncio.sleep(0)
    assert seen == [0]
    futures[0].set_result(None)
    while len(futures) < 2:
        await asyncio.sleep(0)
    futures[1].set_result(None)
    await notifier.close()
    assert seen == [0, 1]
