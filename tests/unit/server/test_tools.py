"""Tools: registered in any way, described on the wire, called, broken, changed at run time (sections TL and CT of the rules)."""

import asyncio
import base64
import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import Any, TypedDict

import jsonschema
import msgspec
import pytest

import sessions
from inmemory import ALL, ERAS, LATEST_LEGACY, LATEST_MODERN, LEGACY, MODERN, Client, connected, play
from twopipes import Audio, Context, Image, McpError, Server, ServerSettings, ToolError, ToolResult, TwopipesError
from twopipes._protocol.types import (
    Annotations,
    CallToolResult,
    EmbeddedResource,
    Icon,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolAnnotations,
)
from twopipes.errors import LocalProtocolError

SECRET = "hunter2 in the clear"
ARGUMENT_ERRORS_ARE_RESULTS = ("2025-11-25", *MODERN)
WITH_STRUCTURE = ("2025-06-18", "2025-11-25", *MODERN)


class Desk:
    """Things that can be called and are not plain functions."""

    def __init__(self, owner: str) -> None:
        self.owner = owner

    def sit(self, minutes: int) -> str:
        """Sit down."""
        return f"{self.owner} sits for {minutes}"

    async def stand(self, minutes: int) -> str:
        return f"{self.owner} stands for {minutes}"

    def __call__(self, minutes: int) -> str:
        return f"{self.owner} is called for {minutes}"

    @staticmethod
    def wobble(minutes: int) -> str:
        return f"wobbles for {minutes}"

    @classmethod
    def make(cls, minutes: int) -> str:
        return f"{cls.__name__} in {minutes}"


@dataclasses.dataclass
class Note:
    title: str
    priority: int = 3
    tag: str = "idea"


class AsyncDesk:
    async def __call__(self, minutes: int, ctx: Context) -> str:
        return f"{type(ctx).__name__} for {minutes}"


def rest(who: str, minutes: int) -> str:
    return f"{who} rests for {minutes}"


async def rest_well(who: str, minutes: int) -> str:
    return f"{who} rests well for {minutes}"


CALLABLES: dict[str, tuple[Any, str]] = {
    "function": (lambda minutes: f"for {minutes}", "for 3"),
    "method": (Desk("Anna").sit, "Anna sits for 3"),
    "async method": (Desk("Anna").stand, "Anna stands for 3"),
    "static method": (Desk.wobble, "wobbles for 3"),
    "class method": (Desk.make, "Desk in 3"),
    "object": (Desk("Anna"), "Anna is called for 3"),
    "async object": (AsyncDesk(), "Context for 3"),
    "partial": (functools.partial(rest, "Anna"), "Anna rests for 3"),
    "async partial": (functools.partial(rest_well, "Anna"), "Anna rests well for 3"),
}


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("kind", CALLABLES)
def test_whatever_can_be_called_can_be_a_tool(kind, revision):
    function, expected = CALLABLES[kind]
    server = Server("s")
    server.add_tool(function, name="it")

    async def scenario(client: Client):
        return await client.text("it", minutes=3)

    assert play(server, scenario, revision) == expected


@pytest.mark.parametrize("revision", ALL)
def test_a_tool_is_described_by_its_signature_and_docstring(revision):
    """TL-01, TL-03, JS-03."""
    server = Server("s")

    @server.tool(title="Adder", annotations={"readOnlyHint": True})
    def add(a: int, b: int = 0) -> int:
        """Add two numbers.

        Args:
            a: the first
            b: the second
        """
        return a + b

    @server.tool()
    def nothing() -> None:
        """Do nothing."""

    async def scenario(client: Client):
        added, empty = (await client.result("tools/list"))["tools"]
        jsonschema.Draft202012Validator.check_schema(added["inputSchema"])
        assert added["name"] == "add"
        assert added["description"] == "Add two numbers."
        assert added["inputSchema"]["type"] == "object"
        assert added["inputSchema"]["required"] == ["a"]
        assert added["inputSchema"]["properties"]["a"] == {"type": "integer", "description": "the first"}
        assert added.get("annotations") == ({"readOnlyHint": True} if revision != "2024-11-05" else None)
        assert added.get("title") == ("Adder" if revision in WITH_STRUCTURE else None)
        assert ("outputSchema" in added) is (revision in WITH_STRUCTURE)
        assert empty["inputSchema"] == {"type": "object", "additionalProperties": False}
        assert (await client.call("nothing"))["content"] == []
        without = await client.result("tools/call", name="nothing")  # TL-02
        assert without["content"] == []

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_bad_arguments_are_reported_as_the_revision_wants_it(revision):
    """TL-06, TL-20: the message lets a model correct its arguments."""
    server = Server("s")
    called = []

    @server.tool
    def add(a: int, b: int = 0) -> int:
        called.append((a, b))
        return a + b

    async def scenario(client: Client):
        for bad in ({"a": "one"}, {}, {"a": 1, "c": 2}, {"a": None}, {"a": 1.5}):
            line = await client.request("tools/call", name="add", arguments=bad)
            if revision in ARGUMENT_ERRORS_ARE_RESULTS:
                assert line["result"]["isError"] is True
                said = line["result"]["content"][0]["text"]
            else:
                assert line["error"]["code"] == -32602
                said = line["error"]["message"]
            assert "add" in said
            assert re.search(r"\b[ac]\b", said)
        assert called == []
        # A request that is not of the shape of tools/call is an error in every revision.
        assert (await client.error("tools/call", name="add", arguments=[1]))["code"] == -32602
        assert (await client.error("tools/call", arguments={}))["code"] == -32602
        assert await client.text("add", a=1, b=2) == "3"

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("lenient", [False, True])
def test_a_server_may_take_quoted_numbers(lenient, revision):
    """TL-06: refused by default; the schema is the same."""
    server = Server("s", settings=ServerSettings(lenient_arguments=lenient))

    @server.tool
    def double(number: int) -> int:
        return 2 * number

    async def scenario(client: Client) -> None:
        (tool,) = (await client.result("tools/list"))["tools"]
        assert tool["inputSchema"]["properties"]["number"] == {"type": "integer"}
        result = await client.call("double", number="21")
        assert result.get("isError", False) is not lenient
        text = "42" if lenient else 'Invalid arguments for double: number: Expected `integer`, got `string` ("21")'
        assert result["content"][0]["text"] == text

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_a_tool_error_shows_its_message_and_any_other_shows_nothing(revision, capsys):
    """TL-05, LG-10: the traceback is for stderr; the server lives on."""
    server = Server("s")

    @server.tool
    async def fail() -> str:
        raise ToolError("The printer is out of paper.")

    @server.tool
    def boom() -> str:
        raise RuntimeError(SECRET)

    @server.tool
    async def boom_softly() -> str:
        raise KeyError(SECRET)

    @server.tool
    async def leave() -> str:
        raise SystemExit(SECRET)

    @server.tool
    def leave_from_a_thread() -> str:
        raise SystemExit(SECRET)

    @server.tool
    def stop() -> str:
        raise StopIteration

    @server.tool
    async def refuse() -> str:
        raise McpError("not today", code=-31999, data={"why": "rain"})

    async def scenario(client: Client):
        failed = await client.call("fail")
        assert failed["isError"] is True
        assert failed["content"][0]["text"] == "The printer is out of paper."
        for name in ("boom", "boom_softly", "leave", "leave_from_a_thread", "stop"):
            broken = await client.call(name)
            assert broken["isError"] is True
            assert name in broken["content"][0]["text"]
        refused = await client.error("tools/call", name="refuse")
        assert (refused["code"], refused["data"]) == (-31999, {"why": "rain"})
        assert await client.request("tools/list")
        assert SECRET not in json.dumps(client.lines)

    play(server, scenario, revision)
    said = capsys.readouterr()
    assert said.out == ""
    assert "Error: tools/call boom failed" in said.err
    assert f"RuntimeError: {SECRET}" in said.err
    assert "Traceback" in said.err
    assert "The printer" not in said.err


@pytest.mark.parametrize("revision", ALL)
def test_an_unknown_tool_is_a_protocol_error(revision):
    """TL-04, TL-15: names are case-sensitive."""
    server = Server("s")
    server.add_tool(rest)

    async def scenario(client: Client):
        for name in ("nope", "Rest", ""):
            assert (await client.error("tools/call", name=name))["code"] == -32602

    play(server, scenario, revision)


class Weather(msgspec.Struct):
    city: str
    celsius: float


class Forecast(TypedDict):
    days: list[int]


@pytest.mark.parametrize("revision", ALL)
def test_a_return_annotation_gives_structured_content_and_its_text(revision):
    """TL-10, TL-11, TL-13: an object as it is, all else wrapped; and not before 2025-06-18. The text of a scalar is the scalar."""
    server = Server("s")

    @server.tool
    def weather() -> Weather:
        return Weather("Rome", 20.5)

    @server.tool
    async def forecast() -> Forecast:
        return {"days": [1, 2]}

    @server.tool
    def number() -> int:
        return 7

    @server.tool
    def text() -> str:
        return "seven"

    @server.tool
    def maybe() -> list[int] | None:
        return None

    @server.tool
    def numbers() -> list[int]:
        return [1, 2]

    expected = {
        "weather": {"city": "Rome", "celsius": 20.5},
        "forecast": {"days": [1, 2]},
        "number": {"result": 7},
        "text": {"result": "seven"},
        "maybe": {"result": None},
        "numbers": {"result": [1, 2]},
    }

    texts = {
        "weather": '{"city":"Rome","celsius":20.5}',
        "forecast": '{"days":[1,2]}',
        "number": "7",
        "text": "seven",
        "maybe": "null",
        "numbers": '{"result":[1,2]}',
    }

    async def scenario(client: Client):
        for tool in (await client.result("tools/list"))["tools"]:
            result = await client.call(tool["name"])
            assert len(result["content"]) == 1
            assert result["content"][0]["text"] == texts[tool["name"]]
            if revision in WITH_STRUCTURE:
                assert tool["outputSchema"]["type"] == "object"
                assert result["structuredContent"] == expected[tool["name"]]
                jsonschema.validate(result["structuredContent"], tool["outputSchema"])
            else:
                assert "outputSchema" not in tool
                assert "structuredContent" not in result

    play(server, scenario, revision)


def test_a_dataclass_that_came_as_an_argument_is_returned_with_its_default_values():
    server = Server("notes")

    @server.tool
    def save(note: Note) -> Note:
        return note

    async def scenario(client: Client) -> None:
        result = await client.call("save", note={"title": "x"})
        assert result["structuredContent"] == {"title": "x", "priority": 3, "tag": "idea"}
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]

    play(server, scenario)


@pytest.mark.parametrize("revision", ALL)
def test_a_schema_by_hand_may_be_what_the_revision_allows(revision):
    """TL-11, TL-12: arrays and null in the modern era; before it the schema is dropped and the text stays."""
    server = Server("s")

    @server.tool(output_schema={"type": "array", "items": {"type": "integer"}})
    def numbers() -> Any:
        return [1, 2]

    @server.tool(output_schema={"type": "null"})
    def nothing() -> Any:
        return ToolResult(structured=None)

    @server.tool(
        input_schema={
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "oneOf": [{"required": ["x"]}, {"required": ["z"]}],
        }
    )
    def free(**arguments: Any) -> dict[str, Any]:
        return arguments

    async def scenario(client: Client):
        tools = {tool["name"]: tool for tool in (await client.result("tools/list"))["tools"]}
        listed, null = await client.call("numbers"), await client.call("nothing")
        assert (listed["content"][0]["text"], null["content"][0]["text"]) == ("[1,2]", "null")
        if revision in MODERN:
            assert tools["numbers"]["outputSchema"]["type"] == "array"
            assert listed["structuredContent"] == [1, 2]
            assert null["structuredContent"] is None
            assert tools["free"]["inputSchema"]["oneOf"] == [{"required": ["x"]}, {"required": ["z"]}]  # JS-07
        else:
            assert "outputSchema" not in tools["numbers"]
            assert "structuredContent" not in listed
            assert "structuredContent" not in null
        assert json.loads(await client.text("free", x=1, y=[2])) == {"x": 1, "y": [2]}

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_value_that_breaks_its_schema_is_an_error_and_not_bad_data(revision, capsys):
    """TL-10."""
    server = Server("s")

    @server.tool
    def weather() -> Weather:
        return {"city": "Rome"}  # type: ignore[return-value]

    async def scenario(client: Client):
        result = await client.call("weather")
        assert result["isError"] is True
        assert "structuredContent" not in result

    play(server, scenario, revision)
    assert "celsius" in capsys.readouterr().err


LINK = ResourceLink("note://1", "one", mime_type="text/plain")
NOTED = TextContent("for you", annotations=Annotations(audience=["user"], priority=0.5, last_modified="2025-01-12T15:00:58Z"))


@pytest.mark.parametrize("revision", ALL)
def test_every_kind_of_content_arrives_as_the_revision_knows_it(revision):
    """CT-01, CT-02, CT-03, CT-04."""
    server = Server("s")

    @server.tool
    async def blocks() -> list[Any]:
        return ["text", Image(b"\x89PNG"), Audio(b"RIFF"), LINK, NOTED, b"\0\1", ResourceContents("note://2", text="two")]

    @server.tool
    async def embedded() -> EmbeddedResource:
        return EmbeddedResource(ResourceContents("note://2", blob=base64.b64encode(b"two").decode(), mime_type="image/png"))

    async def scenario(client: Client):
        found = (await client.call("blocks"))["content"]
        kinds = [block["type"] for block in found]
        assert kinds[:2] == ["text", "image"]
        assert base64.b64decode(found[1]["data"]) == b"\x89PNG"
        assert found[1]["mimeType"] == "image/png"
        assert ("audio" in kinds) is (revision != "2024-11-05")
        assert ("resource_link" in kinds) is (revision in WITH_STRUCTURE)
        assert len(found) == 7
        assert base64.b64decode(found[5]["resource"]["blob"]) == b"\0\1"
        assert found[6]["resource"] == {"uri": "note://2", "text": "two"}
        annotations = found[4]["annotations"]
        assert (annotations["audience"], annotations["priority"]) == (["user"], 0.5)
        assert ("lastModified" in annotations) is (revision in WITH_STRUCTURE)
        (block,) = (await client.call("embedded"))["content"]
        assert base64.b64decode(block["resource"]["blob"]) == b"two"

    play(server, scenario, revision)


def test_other_things_that_a_tool_may_return():
    server = Server("s")
    returned: dict[str, tuple[Any, list[Any]]] = {
        "empty_list": ([], []),
        "tuple_of_blocks": ((LINK, "x"), ["one", "x"]),
        "plain_mapping": ({"a": 1}, ['{"a":1}']),
        "bytes_like": (bytearray(b"x"), [None]),
        "whole_result": (CallToolResult([TextContent("whole")], is_error=True), ["whole"]),
        "own_result": (ToolResult(content="own", meta={"k": 1}), ["own"]),
        "empty_result": (ToolResult(), []),
        "failed_result": (ToolResult(content=["bad", "worse"], is_error=True), ["bad", "worse"]),
        "picture": (Image(b"x", "image/jpeg"), [None]),
    }
    for name, (value, _) in returned.items():
        server.add_tool(functools.partial(lambda given: given, value), name=name)

    async def scenario(client: Client):
        for name, (_, expected) in returned.items():
            result = await client.call(name)
            assert [block.get("text", block.get("name")) for block in result["content"]] == expected, name
        assert (await client.call("own_result"))["_meta"]["k"] == 1
        assert (await client.call("failed_result"))["isError"] is True
        assert "isError" not in await client.call("own_result")

    play(server, scenario)


@pytest.mark.parametrize(
    ("kind", "file", "expected"),
    [
        (Image, "plot.png", "image/png"),
        (Image, "photo.JPEG", "image/jpeg"),
        (Audio, "bell.mp3", "audio/mpeg"),
        (Audio, "bell.wav", "audio/wav"),
    ],
)
def test_a_picture_or_a_sound_may_be_given_by_its_file(kind, file, expected, tmp_path):
    path = tmp_path / file
    path.write_bytes(b"\x00\x01")
    server = Server("s")

    @server.tool
    def show() -> list[Any]:
        return [kind(path=path), kind(path=str(path), mime_type="x/y"), kind(b"\x00\x01")]

    async def scenario(client: Client) -> None:
        named, told, bare = (await client.call("show"))["content"]
        assert named["data"] == told["data"] == bare["data"] == "AAE="
        types = (named["mimeType"], told["mimeType"], bare["mimeType"])
        assert types == (expected, "x/y", "image/png" if kind is Image else "audio/wav")

    play(server, scenario)


@pytest.mark.parametrize("kind", [Image, Audio])
def test_a_picture_or_a_sound_without_its_bytes_is_refused_where_it_is_made(kind, tmp_path):
    path = tmp_path / "file.unknown"
    path.write_bytes(b"")
    with pytest.raises(LocalProtocolError, match=r"needs either data= or path=, not both"):
        kind()
    with pytest.raises(LocalProtocolError, match=r"needs either data= or path=, not both"):
        kind(b"", path=path)
    with pytest.raises(LocalProtocolError, match=rf"must be bytes, got str; for a file use {kind.__name__}\(path=...\)"):
        kind("plot.png")
    with pytest.raises(LocalProtocolError, match=r"file.unknown' is unknown; give mime_type="):
        kind(path=path)
    with pytest.raises(FileNotFoundError):
        kind(path=tmp_path / "missing.png")


def test_content_where_data_was_promised_is_an_error(capsys):
    """TL-10."""
    server = Server("s")

    @server.tool
    def picture() -> dict[str, int]:
        return Image(b"x")  # type: ignore[return-value]

    async def scenario(client: Client):
        assert (await client.call("picture"))["isError"] is True

    play(server, scenario)
    assert "no structured content" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "with space", "ä", "a" * 129, "a/b", "a\n", "<lambda>"])
def test_a_name_that_hosts_would_not_take_is_refused_where_it_is_given(name):
    """TL-15."""
    server = Server("s")
    with pytest.raises(LocalProtocolError, match="cannot be the name of a tool") as refused:
        server.add_tool(lambda: None, name=name)
    assert "test_tools.py:" in str(refused.value)
    assert len(server.tools) == 0


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "a" * 128])
def test_a_name_of_the_allowed_letters_is_taken(name):
    """TL-15."""
    server = Server("s")
    server.add_tool(lambda: None, name=name)
    assert name in server.tools


def test_errors_about_arguments_use_the_name_that_the_model_knows():
    """TL-06: a function may be called otherwise than its tool."""
    server = Server("s")

    @server.tool(name="lie")
    def lie_down(hours: int) -> int:
        return hours

    async def scenario(client: Client) -> None:
        result = await client.result("tools/call", name="lie", arguments={"hours": "two"})
        assert result["content"][0]["text"].startswith("Invalid arguments for lie: hours:")

    play(server, scenario)


def test_a_second_tool_of_the_same_name_is_refused_with_both_places():
    """TL-15: the first one stays."""
    server = Server("s")
    server.add_tool(rest)
    with pytest.raises(LocalProtocolError) as refused:
        server.tool(name="rest")(rest_well)
    said = str(refused.value)
    assert f"test_tools.py:{rest.__code__.co_firstlineno}" in said
    assert f"test_tools.py:{rest_well.__code__.co_firstlineno}" in said
    assert server.tools.entries.get("rest").function is rest


def test_unknown_entries_cannot_be_removed():
    server = Server("s")
    with pytest.raises(LocalProtocolError, match="cannot remove the tool 'x': it is not registered"):
        server.remove_tool("x")
    with pytest.raises(LocalProtocolError, match="cannot remove the prompt 'x': it is not registered"):
        server.remove_prompt("x")
    with pytest.raises(LocalProtocolError, match="cannot remove the resource 'x://y': it is not registered"):
        server.remove_resource("x://y")


def test_a_signature_that_cannot_be_described_is_refused_at_registration():
    server = Server("s")
    with pytest.raises(TwopipesError, match="by name"):
        server.add_tool(lambda *many: None, name="many")
    with pytest.raises(TwopipesError, match="object"):
        server.add_tool(lambda: None, name="odd", input_schema={"type": "array"})


@pytest.mark.parametrize("hints", [{"readOnlyHint": True, "title": "T"}, ToolAnnotations(read_only_hint=True, title="T")])
def test_annotations_are_a_mapping_or_the_type(hints):
    server = Server("s")
    server.add_tool(rest, annotations=hints)

    async def scenario(client: Client):
        (tool,) = (await client.result("tools/list"))["tools"]
        assert tool["annotations"] == {"readOnlyHint": True, "title": "T"}

    play(server, scenario)


@pytest.mark.parametrize("hints", [{"read_only_hint": True}, {"readOnlyHint": "yes"}, {"readonlyHint": True}])
def test_annotations_that_mean_nothing_are_refused(hints):
    server = Server("s")
    with pytest.raises(LocalProtocolError, match=r"annotations of the tool 'rest' at .*test_tools.py"):
        server.add_tool(rest, annotations=hints)


@pytest.mark.parametrize("revision", ALL)
def test_icons_and_meta_travel_where_they_are_known(revision):
    """CT-06."""
    server = Server("s", icons=[Icon("https://example.com/s.png")])
    server.add_tool(rest, icons=[Icon("https://example.com/i.png", mime_type="image/png", sizes=["48x48"])], meta={"x.y/z": 1})

    async def scenario(client: Client):
        (tool,) = (await client.result("tools/list"))["tools"]
        icons = [{"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}]
        assert tool.get("icons") == (icons if revision in ARGUMENT_ERRORS_ARE_RESULTS else None)
        assert tool.get("_meta") == ({"x.y/z": 1} if revision in WITH_STRUCTURE else None)
        assert "execution" not in tool  # TL-21

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_added_and_removed_tools_are_announced_to_subscribers(revision):
    """TL-16, TL-17, SU-05: freely in a session, by a listen on the stateless wire."""
    server = Server("s")
    server.add_tool(rest)

    @server.tool
    async def mutate() -> str:
        if "extra" in server.tools:
            server.remove_tool("extra")
        else:
            server.add_tool(rest_well, name="extra")
        return "done"

    async def scenario(client: Client):
        method = "notifications/tools/list_changed"
        if client.modern:
            await client.call("mutate")
            await client.call("mutate")
            await client.settle()
            assert client.notes(method) == []
            client.start("subscriptions/listen", request_id="ear", notifications={"toolsListChanged": True})
            await client.note("notifications/subscriptions/acknowledged")
        assert await client.names("tools/list", "tools") == ["rest", "mutate"]
        await client.call("mutate")
        note = await client.note(method)
        assert note.get("_meta") == ({sessions.TAG: "ear"} if client.modern else None)
        assert await client.names("tools/list", "tools") == ["rest", "mutate", "extra"]
        assert await client.text("extra", who="A", minutes=1) == "A rests well for 1"
        await client.call("mutate")
        await client.until(lambda: len(client.notes(method)) == 2)
        assert (await client.error("tools/call", name="extra"))["code"] == -32602
        for _ in range(5):
            assert await client.names("tools/list", "tools") == ["rest", "mutate"]
        if client.modern:
            client.cancel("ear")
            await client.call("mutate")
            await client.settle()
            assert len(client.notes(method)) == 2
            assert client.answers_to("ear") == []  # SU-11, SU-12

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_a_tool_in_a_thread_may_change_the_server_too(revision):
    """TL-17: blocking functions have no event loop, and must not need one."""
    server = Server("s")
    server.add_resource("x://y", lambda: "z", name="xy")

    @server.tool
    def mutate() -> str:
        server.add_tool(rest)
        server.notify_resource_updated("x://y")
        server.log("error", "changed")
        return "done"

    async def scenario(client: Client):
        if client.modern:
            wanted = {"toolsListChanged": True, "resourceSubscriptions": ["x://y"]}
            client.start("subscriptions/listen", request_id="ear", notifications=wanted)
        else:
            await client.result("resources/subscribe", uri="x://y")
        assert await client.text("mutate") == "done"
        await client.note("notifications/tools/list_changed")
        assert (await client.note("notifications/resources/updated"))["uri"] == "x://y"
        if not client.modern:
            assert (await client.note("notifications/message"))["data"] == "changed"

    play(server, scenario, revision)


@pytest.mark.parametrize("revision", LEGACY)
def test_the_last_tool_can_go_and_the_list_is_empty_then(revision):
    """ST-06: what was declared goes on to work, and to be announced."""
    server = Server("s")
    server.add_tool(rest)
    server.add_prompt(lambda: "x", name="p")
    server.add_resource("x://y", lambda: "z", name="xy")

    async def scenario(client: Client):
        server.remove_tool("rest")
        server.remove_prompt("p")
        server.remove_resource("x://y")
        for kind in ("tools", "prompts", "resources"):
            await client.note(f"notifications/{kind}/list_changed")
            assert (await client.result(f"{kind}/list"))[kind] == []
        assert (await client.result("resources/templates/list"))["resourceTemplates"] == []
        assert (await client.error("tools/call", name="rest"))["code"] == -32602

    play(server, scenario, revision)


def test_an_empty_list_is_a_list_on_the_stateless_wire():
    """ST-06."""
    server = Server("s")
    server.add_tool(rest)
    server.remove_tool("rest")

    async def scenario(client: Client):
        assert "tools" in (await client.result("server/discover"))["capabilities"]
        assert (await client.result("tools/list"))["tools"] == []

    play(server, scenario)


def test_hostile_arguments_do_no_harm():
    """TL-20: deep nesting, huge strings, odd names."""
    server = Server("s")

    @server.tool
    def take(value: Any = None) -> str:
        return type(value).__name__

    async def scenario(client: Client):
        assert await client.text("take", value="x" * 1_000_000) == "str"
        assert (await client.call("take", __proto__={"a": 1}))["isError"] is True
        deep = b"[" * 100_000 + b"]" * 100_000
        meta = json.dumps({sessions.VERSION: LATEST_MODERN, sessions.CAPABILITIES: {}}).encode()
        head = b'{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":{"_meta":' + meta
        client.channel.write(head + b',"name":"take","arguments":{"value":' + deep + b"}}}\n")
        line = await client.line_of("deep")
        assert "error" in line or line["result"]["isError"] is True
        assert await client.text("take", value={}) == "dict"

    play(server, scenario)


def test_a_server_with_invalid_options_is_refused():
    with pytest.raises(LocalProtocolError, match="at least one item"):
        Server("s", page_size=0)
    assert repr(Server("s", version="2")) == "<Server s 2>"


def test_two_connections_see_the_same_lists_whatever_was_called_before():
    """ST-05, TL-16."""
    server = Server("s")
    for name in ("b", "a", "c"):
        server.add_tool(rest, name=name)
    server.add_prompt(lambda: "x", name="p")
    server.add_resource("x://y", lambda: "z", name="xy")

    async def main():
        async with connected(server) as one, connected(server) as other, connected(server, LATEST_LEGACY) as third:
            await one.call("a", who="x", minutes=1)
            await one.request("tools/call", name="nope")
            await third.result("prompts/get", name="p")
            for method, member in (("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")):
                lists = [await client.names(method, member) for client in (one, other, third)]
                assert lists[0] == lists[1] == lists[2]
            assert await one.names("tools/list", "tools") == ["b", "a", "c"]

    asyncio.run(main())


def test_a_broken_connection_does_not_affect_others():
    """SD-08."""
    server = Server("s")
    begun = asyncio.Event()
    ended: Mapping[str, asyncio.Event] = {"one": asyncio.Event(), "other": asyncio.Event()}
    go_on = asyncio.Event()

    @server.tool
    async def wait(who: str) -> str:
        begun.set()
        try:
            await go_on.wait()
        finally:
            ended[who].set()
        return who

    async def main():
        async with asyncio.timeout(60), connected(server) as other:
            waiting = other.start_tool("wait", who="other")
            await begun.wait()
            begun.clear()
            async with connected(server) as one:
                one.start_tool("wait", who="one")
                one.start("subscriptions/listen", request_id="ear", notifications={"toolsListChanged": True})
                await begun.wait()
                await one.channel.abort()
                go_on.set()
            assert (await other.line_of(waiting))["result"]["content"][0]["text"] == "other"
            server.add_tool(rest)
            await other.settle()

    asyncio.run(main())
