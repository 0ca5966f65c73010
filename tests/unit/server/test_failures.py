"""What the author reads of an error: the lines that are the author's, and all lines where the error is ours."""

import asyncio
import functools
import json
import re

import pytest

import twopipes.server.tools as ours
from twopipes import InvalidParams, Server, connect
from twopipes.mcp.rejections import Problem, ReturnRejected
from twopipes.server.failures import told


def caught(function, *arguments):
    try:
        function(*arguments)
    except BaseException as error:  # noqa: BLE001 - whatever it is
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
def test_a_tool_that_fails_is_told_of_from_its_own_first_line_on(kind, capsys):
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


def test_a_return_value_that_does_not_fit_is_told_of_without_a_traceback(capsys):
    async def count() -> int:
        return "many"

    said = asyncio.run(stderr_of_a_call(capsys, count, name="count"))
    assert "Invalid return value of count" in said
    assert "Traceback" not in said
    assert "Invalid" in told(ReturnRejected("count", [Problem("", "wrong")]))


def test_the_chain_of_causes_stays():
    said = told(caught(functools.partial(explain, "x")))
    assert "KeyError: 'x'\n\nThe above exception was the direct cause of the following exception:" in said
    assert places(said)[-1] == ("test_failures.py", "explain")
    assert said.endswith("ValueError: unknown\n")


def test_every_error_of_a_group_is_told():
    def both():
        raise ExceptionGroup("both", [caught(lookup, "x"), caught(explain, "y")])

    said = told(caught(both))
    assert "KeyError: 'x'" in said
    assert "ValueError: unknown" in said


def test_what_the_author_called_is_told_to_the_end():
    """The error comes out of us, or of the standard library, because of the author's line: both are worth reading."""

    def ask_wrongly():
        Server("")

    assert places(told(caught(ask_wrongly)))[-1][0] != "test_failures.py"
    assert ("decoder.py", "raw_decode") in places(told(caught(lambda: json.loads("{"))))


def test_an_error_of_ours_keeps_all_its_lines():
    class Ours(InvalidParams):
        pass

    # Compiled under the name of a file of ours, and raised below nobody's line.
    space = {"Ours": Ours}
    exec(compile("def fail():\n    raise Ours('mistake')\ndef outer():\n    fail()", ours.__file__, "exec"), space)
    error = caught(space["outer"])
    error.__traceback__ = error.__traceback__.tb_next  # without the line of this test
    assert places(told(error)) == [("tools.py", "outer"), ("tools.py", "fail")]


def test_our_lines_between_two_of_the_authors_are_left_out():
    space = {}
    exec(compile("def between(function):\n    return function()", ours.__file__, "exec"), space)

    def middleware():
        space["between"](lambda: lookup("x"))

    names = [name for _, name in places(told(caught(middleware)))]
    assert "between" not in names
    assert names[-1] == "lookup"
