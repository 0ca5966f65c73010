"""The programs of the scoreboard are comparable: the twins have the fixtures of the example, and the tours finish."""

import asyncio
import subprocess
import sys

import pytest

from interop.harness import EVERYTHING, NET, SCRIPTS, connected, node_script, python_of

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc for leftover processes"),
]

FIXTURES = {
    *("echo", "structured", "numbers", "blocks", "fail", "boom", "slow", "log"),
    *("ask", "ask_url", "sample", "roots_tool", "mutate", "touch"),
}
TWINS = {
    "official-2": lambda: [python_of("official-2"), str(SCRIPTS / "official_2_twin.py")],
    "official-1": lambda: [python_of("official-1"), str(SCRIPTS / "official_1_twin.py")],
    "fastmcp": lambda: [python_of("fastmcp-4"), str(SCRIPTS / "fastmcp_twin.py")],
    "typescript": lambda: node_script("typescript_twin.mjs"),
}
TOURS = {
    "twopipes": lambda: [sys.executable, str(SCRIPTS / "twopipes_touring.py")],
    "official-2": lambda: [python_of("official-2"), str(SCRIPTS / "official_2_touring.py")],
    "official-1": lambda: [python_of("official-1"), str(SCRIPTS / "official_1_touring.py")],
    "fastmcp": lambda: [python_of("fastmcp-4"), str(SCRIPTS / "fastmcp_touring.py")],
    "typescript": lambda: node_script("typescript_touring.mjs"),
}


# A client that answers every question.
ABLE = {
    "on_elicit": lambda _question: {"name": "Ada", "age": 36},
    "on_elicit_url": lambda question: question.accept(),
    "on_sample": lambda _wanted: "Hi",
    "roots": ["file:///home/ada"],
}


async def use(client) -> None:
    """Use every fixture of a twin."""
    assert {tool.name for tool in await client.list_tools()} >= FIXTURES
    assert (await client.call_tool("echo", {"text": "hello"})).text == "hello"
    assert (await client.call_tool("structured", {"city": "Bern"})).structured["city"] == "Bern"
    assert "Ada" in (await client.call_tool("ask")).text
    assert (await client.call_tool("ask_url")).text == "accept"
    assert (await client.call_tool("sample", {"prompt": "?"})).text == "Hi"
    assert "file:///home/ada" in (await client.call_tool("roots_tool")).text
    assert (await client.call_tool("fail")).is_error
    reports = []
    await client.call_tool("slow", {"steps": 3, "seconds": 0.01}, on_progress=reports.append)
    assert len(reports) == 3
    assert {"note://first", "image://pixel"} <= {resource.uri for resource in await client.list_resources()}
    assert (await client.read_resource("image://pixel")).data.startswith(b"\x89PNG")
    assert (await client.read_resource("note://second")).text == "The second note."
    assert {"review", "dialogue"} <= {prompt.name for prompt in await client.list_prompts()}
    assert len((await client.complete("topic", "topic-1", prompt="dialogue")).values) == 100
    await client.call_tool("mutate")
    assert "extra" in {tool.name for tool in await client.list_tools()}


@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_has_the_fixtures_of_the_example(twin, era):
    async def converse():
        async with connected(TWINS[twin](), era=era, **ABLE) as connection:
            await use(connection.client)

    asyncio.run(converse())


@pytest.mark.parametrize("client", TOURS)
def test_a_tour_finishes(client):
    done = subprocess.run([*TOURS[client](), *EVERYTHING], stdin=subprocess.DEVNULL, capture_output=True, timeout=NET, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
