"""What can be seen of a function from outside: that its description may wait, and that a call of it waits for nothing."""

import asyncio
import math
import subprocess
import sys
from contextvars import ContextVar
from functools import partial, wraps

import pytest

from twopipes import Context, Server, ToolError
from twopipes._schema.functions import never_waits
from twopipes._server.registry import Postponed
from twopipes._server.simple_signatures import is_obvious
from twopipes._server.tools import make_tool
from twopipes.errors import LocalProtocolError
from unit.server.inmemory import ERAS, play


def nothing():
    return None


async def plain(text: str, count: int = 3, *, ratio: float = 0.5, loud: bool = False) -> str:
    """Say something.

    Args:
        text: What to say.
        count: How often.
    """
    return text


def promises_nothing(text: "str") -> None:
    return None


def named_by_strings(text: "str", count: "int" = 1) -> "bool":
    return bool(text) and bool(count)


OBVIOUS = [nothing, plain, promises_nothing, named_by_strings]


def without_annotation(text):
    return text


def any_number(*texts: str) -> str:
    return "".join(texts)


def by_any_name(**texts: str) -> str:
    return "".join(texts)


def by_position(text: str, /) -> str:
    return text


def a_list(texts: list[str]) -> str:
    return "".join(texts)


def returns_a_list(text: str) -> list[str]:
    return [text]


def a_default_of_another_type(count: int = None) -> int:  # type: ignore[assignment]  # noqa: RUF013
    return count


def no_number(ratio: float = math.nan) -> float:
    return ratio


def with_context(ctx: Context) -> str:
    return str(ctx)


class Text(str):
    __slots__ = ()


def another_type(text: Text) -> str:
    return text


str_ = str


def äußern(text: str) -> str:  # noqa: PLC2401 - it is what is tested
    return text


@wraps(plain)
def wrapped(*arguments, **named):
    return plain(*arguments, **named)


TO_BE_LOOKED_AT = [
    without_annotation,
    any_number,
    by_any_name,
    by_position,
    a_list,
    returns_a_list,
    a_default_of_another_type,
    no_number,
    with_context,
    another_type,
    äußern,
    wrapped,
    partial(plain, count=1),
    lambda: None,
    Text,
    len,
]


@pytest.mark.parametrize("function", OBVIOUS)
def test_nothing_is_to_be_found_out_about_it(function):
    """TL-01, TL-15: it can be described whenever somebody asks, and is what it would have been."""
    assert is_obvious(function)
    server = Server("s")
    server.tool(function)
    assert isinstance(server.tools._entries[function.__name__], Postponed)
    (entry,) = server.tools
    assert entry.tool == make_tool(function).tool
    assert entry.tool.name == function.__name__
    assert server.tools.get(function.__name__) is entry  # made once


@pytest.mark.parametrize("function", TO_BE_LOOKED_AT)
def test_everything_else_is_looked_at_where_its_author_sees_it(function):
    assert not is_obvious(function)


def test_a_name_that_means_something_else_where_it_was_written():
    names: dict = {}
    exec("class str(list): pass\ndef shadowed(text: 'str') -> 'None': return None", names)
    assert not is_obvious(names["shadowed"])

    def local(text: "str") -> None:  # there may be another str around it
        return None

    assert not is_obvious(local)


def test_a_name_is_taken_whether_or_not_it_was_asked_for():
    server = Server("s")
    server.tool(plain)
    with pytest.raises(LocalProtocolError, match=r"there is a tool 'plain' already, from .*test_obvious\.py:\d+; this one is from"):
        server.tool(plain)
    server.remove_tool("plain")
    assert len(server.tools) == 0
    assert "plain" not in server.tools
    server.tool(plain)
    assert "plain" in server.tools


def test_options_are_looked_at():
    server = Server("s")
    with pytest.raises(LocalProtocolError, match="cannot be the name of a tool"):
        server.tool(name="not a name")(plain)


def test_nothing_that_reads_signatures_is_loaded_for_it():
    """What a host waits for at the start."""
    program = """
import sys
from twopipes import Server
server = Server("s")
@server.tool
async def echo(text: str) -> str:
    return text
heavy = {"asyncio", "twopipes._schema.signature", "twopipes._server.tools", "twopipes._server.methods"}
sys.exit(", ".join(heavy & sys.modules.keys()) or 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Handlers that wait for nothing


async def computes(text: str) -> str:
    return "".join(sorted(text for _ in range(3)))


async def awaits(text: str) -> str:
    return await plain(text)


async def loops(things) -> list:
    return [thing async for thing in things]


async def enters(thing) -> None:
    async with thing:
        pass


async def yields():
    yield 1


@wraps(computes)
async def decorated(text: str) -> str:
    return await computes(text)


class Called:
    async def __call__(self) -> None:
        return None


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (computes, True),
        (plain, True),
        (awaits, False),
        (loops, False),
        (enters, False),
        (yields, False),
        (decorated, False),
        (nothing, False),  # no coroutine: it may block, and runs in a thread
        (partial(computes, "x"), False),
        (Called(), False),
        (Called().__call__, False),
        (len, False),
    ],
)
def test_whether_a_coroutine_can_wait_is_seen_in_its_code(function, expected):
    assert never_waits(function) == expected


@pytest.mark.parametrize("revision", ERAS)
def test_a_call_that_waits_for_nothing_needs_no_task(revision):
    server = Server("s")
    variable = ContextVar("variable", default="clean")
    seen = []

    @server.tool
    async def instant(text: str) -> str:
        seen.append((asyncio.current_task().get_name() == "twopipes handler", variable.get()))
        variable.set("dirty")  # seen by nobody else
        if text == "cancelled":
            raise asyncio.CancelledError
        if text == "wrong":
            raise ToolError("wrong")
        return text

    async def scenario(client):
        for text in ("right", "wrong", "cancelled", "right"):
            line = await client.line_of(client.start_tool("instant", text=text))
            if text == "cancelled":
                assert line["error"]["code"] == -32603
            else:
                assert line["result"].get("isError", False) == (text == "wrong")
        assert seen == [(False, "clean")] * 4
        (connection,) = server._connections
        assert connection._contexts == {}

    play(server, scenario, revision)
