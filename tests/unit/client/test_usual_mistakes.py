"""The messages for usual mistakes say what is wrong and what to write instead."""

import asyncio
import gc
import warnings
from pathlib import Path

import pytest

from fake_server import FakeServer, legacy, scene
from systems import WINDOWS
from twopipes import Server, Timeouts, TwopipesError, blocking, connect
from twopipes._process.command import ServerCommand
from twopipes._process.shutdown import ShutdownPlan
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes.errors import ClientClosed, LocalProtocolError, StartFailed

ERAS = [LATEST_LEGACY, LATEST_MODERN]


def message_of(mistake, kind=LocalProtocolError) -> str:
    """Return the message that the mistake causes."""
    with pytest.raises(kind) as caught:
        mistake()
    return str(caught.value)


@pytest.fixture
def calculator():
    server = Server("calculator")

    @server.tool
    def add(a: int, b: int = 0) -> int:
        return a + b

    return server


# Targets


def test_a_client_that_was_not_entered(calculator):
    client = connect(calculator)
    assert message_of(lambda: client.call_tool("add"), AttributeError) == (
        "call_tool is not available yet: connect() returns a client after async with connect(...) as client, "
        "or after client = await connect(...)"
    )
    assert repr(client) == "<a client that is not connected yet: await it, or enter it with async with>"


def test_with_in_the_place_of_async_with(calculator):
    def mistake():
        with connect(calculator):
            pass

    assert message_of(mistake, TypeError) == "connect() needs async with; without await, use connect of twopipes.blocking"


@scene
async def test_a_client_may_be_awaited_and_entered_in_any_order(calculator):
    async with connect(calculator) as one:
        assert (await one.call_tool("add", {"a": 1})).structured == {"result": 1}
    two = await connect(calculator)
    await two.close()
    async with await connect(calculator) as three:
        assert (await three.call_tool("add", {"a": 3})).structured == {"result": 3}


@pytest.mark.parametrize("url", ["ws://127.0.0.1:1", "wss://example.org/mcp"])
def test_a_web_socket(url):
    assert message_of(lambda: connect(url)) == (
        f"cannot connect to {url}: MCP does not use WebSockets; is there an http:// or https:// address?"
    )


def test_a_url_with_arguments():
    assert message_of(lambda: connect("https://example.org/mcp", "--fast")) == (
        "connect('https://example.org/mcp', ...): only a command takes arguments; remove '--fast'"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": {"X": "1"}}, "headers= and auth= are for a URL; python server.py is not a URL"),
        ({"auth": "token"}, "headers= and auth= are for a URL; python server.py is not a URL"),
    ],
)
def test_options_of_a_url_for_a_command(options, message):
    assert message_of(lambda: connect("python", "server.py", **options)) == message


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("https://me:secret@example.org/mcp", {}, "the URL for example.org contains a password; pass auth= or headers= instead"),
        ("https:///mcp", {}, "'https:///mcp' is not a valid URL; write https://host/mcp"),
        ("https://example.org:port/mcp", {}, "'https://example.org:port/mcp' is not a valid URL: "),
        ("https://example.org/a b", {}, "'https://example.org/a b' is not a valid URL; write https://host/mcp"),
        ("https://x/mcp", {"headers": {"a b": "1"}}, "headers= has 'a b', which is not the name of a header"),
        ("https://x/mcp", {"headers": {"Mcp-Name": "1"}}, "headers= must not contain Mcp-Name, which the protocol sets"),
        ("https://x/mcp", {"headers": {"X": "secret\r\nY: 1"}}, "the value of the header X in headers= must be one line"),
        ("https://x/mcp", {"headers": {"authorization": "x"}, "auth": "y"}, "both auth= and a header Authorization were given"),
    ],
)
def test_an_invalid_url_or_header(url, options, message):
    said = message_of(lambda: connect(url, **options))
    assert said.startswith(message)
    assert "secret" not in said


@pytest.mark.parametrize("thing", [Server, 7, None, asyncio])
def test_something_that_cannot_be_connected_to(thing):
    said = message_of(lambda: connect(thing))
    assert said.startswith(
        "connect() takes a command, a ServerCommand, a Server, 'https://host/mcp', 'unix:/path', 'tcp://host:port' or a Channel, "
    )


def resolved(*argv) -> str:
    return message_of(ServerCommand(argv).resolve, StartFailed)


def test_a_program_without_its_interpreter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("server.py").touch(mode=0o644)
    assert resolved("server.py", "--fast").startswith(
        "cannot start 'server.py': not found; start it with its interpreter: python server.py --fast "
        "(in Python, use sys.executable for python); searched the PATH of the child:"
    )
    missing = "its extension is not in PATHEXT" if WINDOWS else "the permission is missing"
    assert resolved("./server.py").endswith(
        f"{missing}); make it executable, or start it with its interpreter: python ./server.py "
        "(in Python, use sys.executable for python)"
    )
    assert "interpreter" not in resolved("no-such-server")


def test_a_whole_command_in_one_text():
    assert "cannot start 'python server.py': not found; pass the command as a list of words: ['python', 'server.py']" in (
        resolved("python server.py")
    )
    assert message_of(lambda: ServerCommand("python server.py")) == (
        "a command must be a list of strings, got 'python server.py'; write ['python', 'server.py']"
    )


def test_a_plan_that_is_none():
    assert message_of(lambda: ShutdownPlan((2.0,))) == (
        "2.0 is not a step of a ShutdownPlan; twopipes._process.shutdown has CloseStdin(), Wait(seconds), Signal(number)"
    )


# Options


def test_a_number_in_the_place_of_timeouts(calculator):
    assert (
        message_of(lambda: connect(calculator, timeouts=5))
        == "timeouts= must be a Timeouts object, got 5; write Timeouts(request=5)"
    )
    connect(calculator, timeouts=Timeouts(request=5))


def test_a_trace_on_stderr(calculator):
    assert message_of(lambda: connect(calculator, trace="1")) == (
        'trace="1" writes a conversation to the stderr of a server; a client needs the name of a file'
    )


def test_an_unknown_era(calculator):
    assert message_of(lambda: connect(calculator, era="new")) == "era= must be one of auto, legacy, modern, got 'new'"


# Calls


def warned(make) -> list[str]:
    """Return the warnings of Python about coroutines that are not awaited."""
    with warnings.catch_warnings(record=True) as received:
        warnings.simplefilter("always")
        make()
        gc.collect()
    return [str(each.message) for each in received]


@scene
async def test_a_call_without_await(calculator):
    """Python reports it, with names that the caller knows."""
    async with connect(calculator) as client:

        def mistake():
            assert message_of(lambda: client.call_tool("add").text, AttributeError) == "'coroutine' object has no attribute 'text'"

        assert warned(mistake) == ["coroutine 'Client.call_tool' was never awaited"]


@scene
async def test_a_client_that_was_closed(calculator):
    async with connect(calculator) as client:
        pass
    with pytest.raises(ClientClosed) as caught:
        await client.call_tool("add", {"a": 1})
    assert str(caught.value) == "the client is closed; call connect() to get a new one"


@pytest.mark.parametrize("revision", ["2025-06-18", *ERAS])
@scene
async def test_arguments_of_other_names(revision, calculator):
    """The server's answer is what the caller sees: as a result for the model, or as an error in the older revisions (TL-06)."""
    async with connect(calculator, revision=revision) as client:
        try:
            result = await client.call_tool("add", {"A": 1, "b": "two"})
            said = result.text
            assert result.is_error
        except TwopipesError as error:
            said = str(error)
    assert "Invalid arguments for add:" in said
    assert "a: This argument is missing" in said
    assert "A: Unknown argument; expected one of a, b" in said
    assert 'b: Expected `integer`, got `string` ("two")' in said


@pytest.mark.parametrize("arguments", ["a=1", [1, 2], 7])
@scene
async def test_arguments_without_names(arguments, calculator):
    async with connect(calculator) as client:
        with pytest.raises(LocalProtocolError) as caught:
            await client.call_tool("add", arguments)
        assert str(caught.value) == f"the arguments of add must be a dict that maps names to values, got {arguments!r}"
        with pytest.raises(TypeError, match=r"call_tool\(\) got an unexpected keyword argument 'a'"):
            await client.call_tool("add", a=1)


@scene
async def test_arguments_that_json_cannot_say(calculator):
    async with connect(calculator) as client:
        with pytest.raises(LocalProtocolError, match=r"the arguments of add cannot be written as JSON: .*object"):
            await client.call_tool("add", {"a": object()})


@scene
async def test_members_of_other_libraries(calculator):
    async with connect(calculator) as client:
        result = await client.call_tool("add", {"a": 1})
    for name, here in {"data": ".structured", "structuredContent": ".structured", "isError": ".is_error"}.items():
        said = message_of(lambda name=name: getattr(result, name), AttributeError)
        assert said == f"'CallResult' object has no attribute {name!r}; use {here}"
    assert message_of(lambda: result.colour, AttributeError) == "'CallResult' object has no attribute 'colour'"


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_an_unknown_log_level(revision, calculator):
    async with connect(calculator, revision=revision) as client:
        with pytest.raises(LocalProtocolError, match=r"the log level must be one of debug, info, .*, got 'warn'"):
            await client.set_log_level("warn")


# Subscriptions


@scene
async def test_a_subscription_to_nothing(calculator):
    async with connect(calculator) as client:
        assert message_of(client.subscribe) == ("subscribe() needs tools=True, prompts=True, resource_list=True or resources=[...]")
        assert (
            message_of(lambda: client.subscribe(resources="x://a"))
            == "resources= must be a list of URIs; write resources=['x://a']"
        )


@pytest.mark.parametrize("revision", ERAS)
@scene
async def test_a_subscription_that_will_never_hear_anything(revision, calculator):
    """In either era a reader does not wait for changes that cannot come; SU-07: ready() returns an empty filter."""
    async with connect(calculator, revision=revision) as client:
        async with client.subscribe(prompts=True, resources=["x://a"]) as changes:
            with pytest.raises(LocalProtocolError) as caught:
                await anext(changes)
            assert str(caught.value) == "the server does not report changes of the list of prompts, of x://a"
            assert not (await changes.ready()).prompts_list_changed
        async with client.subscribe(tools=True, prompts=True) as changes:
            assert (await changes.ready()).tools_list_changed  # a part is enough
            calculator.add_tool(lambda: "", name=f"new{revision}")
            assert (await anext(changes)).kind == "tools"


@scene
async def test_a_waiting_reader_gets_the_error_too():
    fake = legacy(capabilities={})
    async with connect(fake) as client, client.subscribe(tools=True) as changes:
        with pytest.raises(LocalProtocolError, match="does not report changes of the list of tools"):
            async for _ in changes:
                pass


# Without await


def test_a_client_without_await_in_a_running_loop(calculator):
    """It works, but blocks the loop meanwhile."""

    async def main():
        with blocking.connect(calculator) as client:
            return client.call_tool("add", {"a": 1}).structured

    assert asyncio.run(main()) == {"result": 1}


def test_the_same_mistakes_without_await(calculator):
    with blocking.connect(calculator) as client:
        assert message_of(client.subscribe).startswith("subscribe() needs tools=True")
        assert message_of(lambda: client.call_tool("add", "a=1")).startswith("the arguments of add must be a dict")
        assert message_of(lambda: client.subscribe(prompts=True).get(timeout=10)).startswith("the server does not report changes")
    assert message_of(lambda: client.call_tool("add"), ClientClosed) == "the client is closed; call connect() to get a new one"
    assert message_of(lambda: blocking.connect(calculator, trace="1")).startswith('trace="1"')


@scene
async def test_a_fake_server_is_still_a_server():
    """Every kind of server object is a target."""
    async with connect(FakeServer()) as client:
        await client.ping()
