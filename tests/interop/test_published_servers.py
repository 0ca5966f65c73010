"""Our client uses servers published on npm and PyPI, also behind the wrappers that hosts start them with."""

import asyncio
import json
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from interop.harness import PATIENT, TEXT, connected, missing, node, peer, python_of
from twopipes import Change, Timeouts
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes._protocol.types import ImageContent, ResourceLink
from twopipes.errors import InvalidParams, UrlsRequired

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc for leftover processes"),
]

# The servers on PyPI use the second generation of their SDK, those on npm still the first.
BOTH_ERAS = pytest.mark.parametrize(
    ("era", "agreed"),
    [("auto", ("modern", LATEST_MODERN)), ("modern", ("modern", LATEST_MODERN)), ("legacy", ("legacy", LATEST_LEGACY))],
    ids=["auto", "modern", "legacy"],
)
HANDSHAKE = pytest.mark.parametrize("era", ["auto", "legacy"])


def on_pypi(module: str, *arguments: str) -> list[str]:
    return [python_of("published"), "-m", module, *arguments]


def on_npm(package: str, *arguments: str) -> list[str]:
    return [node(), str(peer("npm") / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"), *arguments]


async def give_up(client, name, arguments) -> None:
    """Cancel a call right after it was sent: these servers have no slow tools."""
    call = asyncio.create_task(client.call_tool(name, arguments))
    await asyncio.sleep(0)  # the first step of the task sends the request
    call.cancel()
    (outcome,) = await asyncio.gather(call, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)


# On PyPI


async def use_time(client) -> None:
    assert client.server_info.name == "mcp-time"
    assert [tool.name for tool in await client.list_tools()] == ["get_current_time", "convert_time"]
    result = await client.call_tool("get_current_time", {"timezone": "UTC"})
    assert result.structured["timezone"] == json.loads(result.text)["timezone"] == "UTC"
    assert str(result.validation) == "valid"
    wrong = await client.call_tool("get_current_time", {"timezone": "Nowhere"})
    assert wrong.is_error
    assert "Nowhere" in wrong.text
    await give_up(client, "get_current_time", {"timezone": "UTC"})
    assert not (await client.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})).is_error
    # It declares resources and prompts, and has none.
    assert (await client.list_resources(), await client.list_prompts()) == ([], [])


@BOTH_ERAS
def test_the_time_server(era, agreed):
    async def converse():
        async with connected(on_pypi("mcp_server_time", "--local-timezone", "UTC"), era=era) as connection:
            client = connection.client
            assert (client.era, client.revision) == agreed
            await use_time(client)
        assert client.closed.ended_by == "eof"
        assert client.stray == ()

    asyncio.run(converse())


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Path:
    git = shutil.which("git")
    if git is None:
        missing("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    (folder / "note.txt").write_text("The first note.\n")
    person = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
    for step in (("init", "-q"), ("add", "note.txt"), ("commit", "-q", "-m", "The first commit")):
        subprocess.run([git, *person, *step], cwd=folder, check=True)
    (folder / "note.txt").write_text("The second note.\n")
    return folder


async def use_git(client, repository) -> None:
    here = {"repo_path": str(repository)}
    assert client.server_info.name == "mcp-git"
    assert {"git_status", "git_diff_unstaged", "git_log"} <= {tool.name for tool in await client.list_tools()}
    assert "The first commit" in (await client.call_tool("git_log", here)).raise_for_error().text
    assert "+The second note." in (await client.call_tool("git_diff_unstaged", here)).text
    await give_up(client, "git_log", here)
    assert "note.txt" in (await client.call_tool("git_status", here)).text
    assert (await client.call_tool("git_status", {"repo_path": str(repository / "no-such-folder")})).is_error


@BOTH_ERAS
def test_the_git_server(era, agreed, repository):
    """It starts processes, which must have exited too."""

    async def converse():
        async with connected(on_pypi("mcp_server_git"), era=era) as connection:
            client = connection.client
            assert (client.era, client.revision) == agreed
            await use_git(client, repository)
        assert client.closed.ended_by == "eof"
        assert client.stray == ()

    asyncio.run(converse())


# On npm


@HANDSHAKE
def test_the_filesystem_server(era, tmp_path):
    """It asks for the roots after the handshake and whenever they change, and refuses paths outside of them."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        (folder / "note.txt").write_bytes(TEXT.encode())

    async def converse():
        # It reports new roots only on stderr.
        taken: asyncio.Queue[str] = asyncio.Queue()

        def hear(line):
            if "from MCP roots" in line.text:
                taken.put_nowait(line.text)

        async with connected(on_npm("server-filesystem"), era=era, roots=[first], on_stderr=hear) as connection:
            client = connection.client
            assert (client.era, client.revision) == ("legacy", LATEST_LEGACY)
            assert client.server_info.name == "secure-filesystem-server"
            await taken.get()
            assert {"read_text_file", "list_allowed_directories"} <= {tool.name for tool in await client.list_tools()}
            result = await client.call_tool("read_text_file", {"path": str(first / "note.txt")})
            assert result.text == result.structured["content"] == TEXT
            assert str(result.validation) == "valid"
            assert (await client.call_tool("read_text_file", {"path": str(second / "note.txt")})).is_error
            client.set_roots([second])
            await taken.get()
            assert str(second) in (await client.call_tool("list_allowed_directories")).text
            await give_up(client, "read_text_file", {"path": str(second / "note.txt")})
            assert (await client.call_tool("read_text_file", {"path": str(second / "note.txt")})).text == TEXT
            assert await client.list_resources() == []  # LC-11: it declares none, so it is not asked
        assert client.closed.ended_by == "eof"
        assert client.stray == ()

    asyncio.run(converse())


DOCUMENT = "demo://resource/static/document/features.md"
DYNAMIC = "demo://resource/dynamic/text/7"
PAGE = {"url": "https://login.example/start"}


@HANDSHAKE
def test_the_everything_server(era):
    async def converse():
        logged: asyncio.Queue[str] = asyncio.Queue()
        visited = []

        def visit(question):
            visited.append(question.url)
            return question.accept()

        async with connected(
            on_npm("server-everything", "stdio"),
            era=era,
            on_elicit=lambda question: {"name": "Ada", "color": "green"},
            on_elicit_url=visit,
            on_sample=lambda wanted: f"the model heard: {wanted.messages[0].content.text}",
            roots=["file:///home/ada"],
            on_log=lambda params: logged.put_nowait(params.data),
        ) as connection:
            client = connection.client
            assert (client.era, client.revision) == ("legacy", LATEST_LEGACY)
            assert client.server_info.name == "mcp-servers/everything"
            await list_and_read(client)
            await call(client)
            await answer(client, visited)
            await refuse(client)
            await subscribe(client, logged)
            await cancel(client)
        assert client.closed.ended_by == "eof"
        assert client.stray == ()

    asyncio.run(converse())


async def list_and_read(client) -> None:
    assert DOCUMENT in [resource.uri for resource in await client.list_resources()]
    templates = [template.uri_template for template in await client.list_resource_templates()]
    assert templates == [f"demo://resource/dynamic/{kind}/{{resourceId}}" for kind in ("text", "blob")]
    assert {"simple-prompt", "args-prompt", "completable-prompt"} <= {prompt.name for prompt in await client.list_prompts()}
    assert (await client.read_resource(DOCUMENT)).text.startswith("# Everything Server")
    assert (await client.read_resource("demo://resource/dynamic/blob/7")).data.startswith(b"Resource 7")
    prompt = await client.get_prompt("args-prompt", {"city": "Bergen", "state": "Vestland"})
    assert prompt.messages[0].content.text == "What's weather in Bergen, Vestland?"
    assert (await client.complete("department", "S", prompt="completable-prompt")).values == ["Sales", "Support"]
    narrowed = await client.complete("name", "", prompt="completable-prompt", context={"department": "Sales"})
    assert narrowed.values == ["David", "Eve", "Frank"]
    assert (await client.complete("resourceId", "7", resource=templates[0])).values == ["7"]


async def call(client) -> None:
    assert {"echo", "get-sum", "trigger-elicitation-request"} <= {tool.name for tool in await client.list_tools()}
    assert (await client.call_tool("echo", {"message": TEXT})).text == f"Echo: {TEXT}"
    weather = await client.call_tool("get-structured-content", {"location": "Chicago"})
    assert weather.structured["humidity"] == 82
    assert str(weather.validation) == "valid"
    image = await client.call_tool("get-tiny-image")
    assert [type(block) for block in image.content].count(ImageContent) == 1
    links = await client.call_tool("get-resource-links", {"count": 3})
    assert [type(block) for block in links.content].count(ResourceLink) == 3
    refused = await client.call_tool("get-sum", {"a": "one"})
    assert refused.is_error
    # TL-04: an unknown tool should be a protocol error, not a failed call.
    assert (await client.call_tool("no-such-tool")).is_error
    with pytest.raises(InvalidParams):
        await client.get_prompt("no-such-prompt")


async def answer(client, visited) -> None:
    form = await client.call_tool("trigger-elicitation-request")
    assert "- Name: Ada" in form.text
    # Fields that the user did not change have the value that the server proposed.
    assert '"untitledSingleSelectEnum": "Monica"' in form.text
    assert "the model heard: " in (await client.call_tool("trigger-sampling-request", {"prompt": "hm"})).text
    assert "file:///home/ada" in (await client.call_tool("get-roots-list")).text
    assert "completed" in (await client.call_tool("trigger-url-elicitation", PAGE)).text
    assert visited == [PAGE["url"]]


async def refuse(client) -> None:
    with pytest.raises(UrlsRequired):
        await client.call_tool("trigger-url-elicitation", {**PAGE, "errorPath": True})


async def subscribe(client, logged) -> None:
    await client.set_log_level("debug")
    async with client.subscribe(resources=[DYNAMIC]) as changes:
        await changes.ready()
        await client.call_tool("toggle-subscriber-updates")
        assert await anext(changes) == Change("resource", DYNAMIC)
        # Otherwise its timer keeps it running after EOF.
        await client.call_tool("toggle-subscriber-updates")
    while DYNAMIC not in (said := await logged.get()):
        pass
    assert said.startswith("Received Subscribe Resource request")


async def cancel(client) -> None:
    reports: list[float] = []
    at_work = asyncio.Event()

    def note(report):
        reports.append(report.progress)
        at_work.set()

    operation = {"duration": 1, "steps": 10}
    working = asyncio.create_task(client.call_tool("trigger-long-running-operation", operation, on_progress=note))
    await at_work.wait()
    working.cancel()
    (outcome,) = await asyncio.gather(working, return_exceptions=True)
    assert isinstance(outcome, asyncio.CancelledError)
    # CA-03: it continues a cancelled call and reports its progress; our client drops these reports.
    heard = len(reports)
    assert "is 4" in (await client.call_tool("get-sum", {"a": 1, "b": 3})).text
    quick = {"duration": 0.3, "steps": 3}
    done = await client.call_tool("trigger-long-running-operation", quick, on_progress=note)
    assert "completed" in done.text
    assert reports[heard:] == [1, 2, 3]
    assert all(earlier < later for earlier, later in pairwise(reports[:heard]))


def test_the_everything_server_asks_after_eof_and_needs_a_signal_to_exit():
    """A third of a second after the handshake it asks for the roots, and waits a minute for them even if the client is gone."""

    async def converse():
        timeouts = Timeouts(connect=PATIENT.connect, probe=PATIENT.probe, request=PATIENT.request, shutdown=1.0)
        async with connected(on_npm("server-everything", "stdio"), roots=["file:///home/ada"], timeouts=timeouts) as connection:
            pass
        # On a slow machine it asked for the roots before.
        assert connection.client.closed.ended_by in {"SIGTERM", "eof"}
        assert not connection.client.closed.left_behind

    asyncio.run(converse())


# Behind a wrapper


def through_a_shell() -> list[str]:
    # A command after it keeps the shell from replacing itself with the server.
    return ["sh", "-c", '"$@"; exit "$?"', "sh", *on_npm("server-everything", "stdio")]


def through_npx() -> list[str]:
    npx = shutil.which("npx")
    if npx is None:
        missing("npx is not installed")
    # It needs no network: the package is installed.
    return [str(npx), "--prefix", str(peer("npm")), "--offline", "--no", "--", "mcp-server-everything", "stdio"]


@pytest.mark.parametrize("command", [through_a_shell, through_npx])
def test_a_server_behind_a_wrapper_exits_too(command):
    async def converse():
        async with connected(command(), env={"NPM_CONFIG_UPDATE_NOTIFIER": "false"}) as connection:
            client = connection.client
            assert (await client.call_tool("echo", {"message": TEXT})).text == f"Echo: {TEXT}"
        # The wrapper and the server.
        assert len(connection.processes) >= 2
        assert client.closed.ended_by == "eof"
        assert client.closed.exit.code == 0

    asyncio.run(converse())
