"""What the author reads of an error: the lines that are the author's, and all lines where the error is ours."""

import asyncio
import functools
import json
import re

import pytest

import twopipes._server.tools as ours
from twopipes import McpError, Server, ToolError, connect
from twopipes._schema.problems import ReturnRejected
from twopipes._server.failures import format_error
from twopipes.errors import InvalidParams, Problem


def caught(function, *arguments):
    try:
        function(*arguments)
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def places(text):
    return re.findall(r'File ".*?([^/\\"]+)", line \d+, in (\w+)', text)


def lookup(key):
    return {}[key]


def explain(key):
    try:
        lookup(key)
    except KeyError as error:
        raise ValueError("unknown") from error


async def stderr_of_a_call(capsys, *tools, name):
    server = Server("s", tools=tools)
    async with connect(server) as client:
        result = await client.call_tool(name, {})
    assert result.is_error
    return capsys.readouterr().err


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_traceback_of_a_failed_tool_starts_at_its_own_first_line(kind, capsys):
    def plain() -> str:
        return lookup("x")

    async def waiting() -> str:
        await asyncio.sleep(0)
        return lookup("x")

    tool = plain if kind == "def" else waiting
    said = asyncio.run(stderr_of_a_call(capsys, tool, name=tool.__name__))
    assert said.startswith(f"Error: tools/call {tool.__name__} failed\nTraceback (most recent call last):\n")
    assert places(said) == [("test_failures.py", tool.__name__), ("test_failures.py", "lookup")]
    assert said.endswith("KeyError: 'x'\n")


def test_an_invalid_return_value_is_reported_without_a_traceback(capsys):
    async def count() -> int:
        return "many"

    said = asyncio.run(stderr_of_a_call(capsys, count, name="count"))
    assert "Invalid return value of count" in said
    assert "Traceback" not in said
    assert "Invalid" in format_error(ReturnRejected("count", [Problem("", "wrong")]))


def test_the_chain_of_causes_stays():
    said = format_error(caught(functools.partial(explain, "x")))
    assert "KeyError: 'x'\n\nThe above exception was the direct cause of the following exception:" in said
    assert places(said)[-1] == ("test_failures.py", "explain")
    assert said.endswith("ValueError: unknown\n")


def test_every_error_of_a_group_is_shown():
    def both():
        raise ExceptionGroup("both", [caught(lookup, "x"), caught(explain, "y")])

    said = format_error(caught(both))
    assert "KeyError: 'x'" in said
    assert "ValueError: unknown" in said


def test_what_the_author_called_is_told_to_the_end():
    """The error comes out of us, or of the standard library, because of the author's line: both are worth reading."""

    def ask_wrongly():
        Server("")

    assert places(format_error(caught(ask_wrongly)))[-1][0] != "test_failures.py"
    assert ("decoder.py", "raw_decode") in places(format_error(caught(lambda: json.loads("{"))))


def test_an_error_of_ours_keeps_all_its_lines():
    class Ours(InvalidParams):
        pass

    # Compiled under the name of a file of ours, and not called by a line of the author.
    space = {"Ours": Ours}
    exec(compile("def fail():\n    raise Ours('mistake')\ndef outer():\n    fail()", ours.__file__, "exec"), space)
    error = caught(space["outer"])
    error.__traceback__ = error.__traceback__.tb_next  # without the line of this test
    assert places(format_error(error)) == [("tools.py", "outer"), ("tools.py", "fail")]


def test_our_lines_between_two_of_the_authors_are_left_out():
    space = {}
    exec(compile("def between(function):\n    return function()", ours.__file__, "exec"), space)

    def middleware():
        space["between"](lambda: lookup("x"))

    names = [name for _, name in places(format_error(caught(middleware)))]
    assert "between" not in names
    assert names[-1] == "lookup"


SECRET = "password is hunter2"


def failing(**options):
    server = Server("s", **options)

    @server.tool
    def boom() -> str:
        raise RuntimeError(SECRET)

    @server.tool
    async def refuse() -> str:
        raise ToolError("no paper")

    @server.resource("x://y")
    def broken() -> str:
        raise KeyError(SECRET)

    return server


async def what_a_client_is_told(server):
    async with connect(server) as client:
        tool = await client.call_tool("boom", {})
        refused = await client.call_tool("refuse", {})
        assert (tool.is_error, refused.is_error) == (True, True)
        with pytest.raises(McpError) as caught:
            await client.read_resource("x://y")
        return tool.text, refused.text, caught.value.code, caught.value.message


MASKED = ("The tool boom failed: RuntimeError", "no paper", -32603, "Internal error")
REVEALED = (f"The tool boom failed: RuntimeError: {SECRET}", "no paper", -32603, f"Internal error: KeyError: '{SECRET}'")


@pytest.mark.parametrize(
    ("options", "variable", "expected"),
    [
        ({}, None, MASKED),
        ({}, "", MASKED),
        ({}, "0", MASKED),
        ({}, "1", REVEALED),
        ({"debug": True}, None, REVEALED),
        ({"debug": True}, "0", REVEALED),
        ({"debug": False}, "1", MASKED),
    ],
)
def test_a_client_reads_the_text_of_an_exception_only_while_its_author_debugs(options, variable, expected, monkeypatch, capsys):
    """TL-05: masking is the default; what the program says goes before the environment."""
    monkeypatch.delenv("TWOPIPES_DEBUG", raising=False)
    if variable is not None:
        monkeypatch.setenv("TWOPIPES_DEBUG", variable)
    assert asyncio.run(what_a_client_is_told(failing(**options))) == expected
    said = capsys.readouterr().err
    assert said.count(f"RuntimeError: {SECRET}\n") == 1  # stderr has the traceback in any case, and once
    assert said.count(f"KeyError: '{SECRET}'\n") == 1


def test_debugging_reaches_through_middleware_and_leaves_errors_of_the_protocol_alone(capsys):
    async def middleware(ctx, call_next):
        if ctx.call.method == "prompts/list":
            raise ValueError(SECRET)
        return await call_next(ctx)

    async def main():
        server = failing(debug=True, middleware=middleware)
        server.add_prompt(lambda: "x", name="p")
        async with connect(server) as client:
            with pytest.raises(McpError, match=f"Internal error: ValueError: {SECRET}"):
                await client.list_prompts()
            with pytest.raises(McpError, match="Unknown tool: nope"):
                await client.call_tool("nope", {})

    asyncio.run(main())
    assert "Unknown tool" not in capsys.readouterr().err
