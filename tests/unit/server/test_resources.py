"""Resources, templates and folders: listed, read, watched, and nothing outside of a folder (section RS of the rules)."""

import base64
from pathlib import Path
from typing import Any

import pytest

import sessions
from inmemory import ALL, ERAS, LEGACY, MODERN, Client, play
from twopipes import Context, McpError, Server
from twopipes._protocol.types import Annotations, Icon, ReadResourceResult, ResourceContents
from twopipes.errors import InvalidParams, LocalProtocolError

NOT_FOUND = {**dict.fromkeys(LEGACY, -32002), **dict.fromkeys(MODERN, -32602)}


def notes() -> Server:
    server = Server("s", ttl_ms=500)
    texts = {"first": "one", "second": "two"}

    @server.resource("note://first", title="First", mime_type="text/plain", annotations=Annotations(priority=1.0), size=3)
    def first() -> str:
        """The first note."""
        return texts["first"]

    @server.resource(
        "image://pixel", ttl_ms=60_000, cache_scope="public", icons=[Icon("https://example.com/i.png")], meta={"a/b": 1}
    )
    async def pixel() -> bytes:
        return b"\x89PNG"

    @server.resource("notes://all")
    def everything() -> list[ResourceContents]:
        return [ResourceContents(f"note://{name}", text=text) for name, text in texts.items()]

    @server.resource("mixed://")
    def mixed() -> list[Any]:
        return ["text", b"bytes"]

    @server.resource("json://data")
    def data() -> dict[str, int]:
        return {"a": 1}

    @server.resource("whole://result")
    def whole() -> ReadResourceResult:
        return ReadResourceResult([ResourceContents("whole://result", text="all mine")], ttl_ms=7)

    @server.resource("single://contents")
    def single() -> ResourceContents:
        return ResourceContents("single://contents", text="one")

    @server.resource("note://{name}", name="note", title="A note", description="By name")
    def note(name: str) -> str | None:
        return texts.get(name)

    @server.resource("square://{number}{?unit}")
    def square(number: int, ctx: Context, unit: str = "m") -> str:
        return f"{number * number} {unit} {ctx.client.revision}"

    @server.resource("broken://{how}")
    async def broken(how: str) -> str:
        if how == "refused":
            raise McpError("not for you", code=-31000)
        raise OSError("secret disk")

    return server


def text_of(result: Any) -> str:
    (content,) = result["contents"]
    return content["text"]


@pytest.mark.parametrize("revision", ALL)
def test_resources_and_templates_are_listed_with_what_the_revision_knows(revision):
    """RS-01, RS-09, CT-06."""

    async def scenario(client: Client):
        first, pixel, *others = (await client.result("resources/list"))["resources"]
        assert (first["uri"], first["name"], first["mimeType"]) == ("note://first", "first", "text/plain")
        assert first["description"] == "The first note."
        assert first["annotations"] == {"priority": 1.0}
        assert ("title" in first) is (revision >= "2025-06-18")
        assert ("icons" in pixel) is (revision >= "2025-11-25")
        assert pixel.get("_meta") == ({"a/b": 1} if revision >= "2025-06-18" else None)
        assert [each["uri"] for each in others] == ["notes://all", "mixed://", "json://data", "whole://result", "single://contents"]
        templates = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert [each["uriTemplate"] for each in templates] == ["note://{name}", "square://{number}{?unit}", "broken://{how}"]
        assert (templates[0]["name"], templates[0]["description"]) == ("note", "By name")

    play(notes(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_whatever_a_function_returns_can_be_read(revision):
    """RS-02, CT-03."""

    async def scenario(client: Client):
        async def read(uri: str) -> Any:
            return (await client.result("resources/read", uri=uri))["contents"]

        assert await read("note://first") == [{"uri": "note://first", "text": "one", "mimeType": "text/plain"}]
        (pixel,) = await read("image://pixel")
        assert (base64.b64decode(pixel["blob"]), pixel["mimeType"]) == (b"\x89PNG", "application/octet-stream")
        assert [each["uri"] for each in await read("notes://all")] == ["note://first", "note://second"]
        assert ["text" in each for each in await read("mixed://")] == [True, False]
        assert await read("json://data") == [{"uri": "json://data", "text": '{"a":1}', "mimeType": "application/json"}]
        assert (await read("whole://result"))[0]["text"] == "all mine"
        assert (await read("single://contents"))[0]["text"] == "one"
        assert (await read("note://second"))[0] == {"uri": "note://second", "text": "two", "mimeType": "text/plain"}
        assert (await read("square://7?unit=km"))[0]["text"] == f"49 km {revision}"
        assert (await read("square://7"))[0]["text"] == f"49 m {revision}"

    play(notes(), scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_what_is_not_there_is_an_error_and_never_an_empty_answer(revision, capsys):
    """RS-06: also what a template describes and its function does not know, or cannot read."""

    async def scenario(client: Client):
        for uri in ("note://third", "nothing://here", "square://seven", "not a uri", ""):
            error = await client.error("resources/read", uri=uri)
            assert error["code"] == NOT_FOUND[revision], uri
        assert (await client.error("resources/read", uri="broken://refused"))["code"] == -31000
        internal = await client.error("resources/read", uri="broken://x")
        assert internal["code"] == -32603
        assert "secret" not in internal["message"]
        assert (await client.error("resources/read"))["code"] == -32602

    play(notes(), scenario, revision)
    assert "OSError: secret disk" in capsys.readouterr().err


def test_caching_hints_come_with_every_list_and_resource():
    """CH-01, CH-02: the resource's own, else the server's."""

    async def scenario(client: Client):
        hints = {}
        for method in ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            result = await client.result(method)
            hints[method] = result["ttlMs"], result["cacheScope"]
        assert set(hints.values()) == {(500, "private")}
        for uri, expected in (("note://first", (500, "private")), ("image://pixel", (60_000, "public"))):
            result = await client.result("resources/read", uri=uri)
            assert (result["ttlMs"], result["cacheScope"]) == expected
        assert (await client.result("resources/read", uri="whole://result"))["ttlMs"] == 7

    server = notes()
    server.add_tool(lambda: None, name="t")
    server.add_prompt(lambda: "x", name="p")
    play(server, scenario)


@pytest.mark.parametrize("revision", LEGACY)
def test_older_revisions_have_no_caching_hints(revision):
    async def scenario(client: Client):
        assert (await client.result("resources/list")).keys() == {"resources"}

    play(notes(), scenario, revision)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_is_notified_only_of_its_subscriptions(revision):
    """RS-03, RS-04."""
    server = notes()

    async def scenario(client: Client):
        assert await client.result("resources/subscribe", uri="note://first") == {}
        server.notify_resource_updated("note://second")
        server.notify_resource_updated("note://first")
        server.notify_resource_updated("note://first/part")
        await client.settle()
        assert [note["uri"] for note in client.notes("notifications/resources/updated")] == ["note://first", "note://first/part"]
        assert await client.result("resources/unsubscribe", uri="note://first") == {}
        server.notify_resource_updated("note://first")
        await client.settle()
        assert len(client.notes("notifications/resources/updated")) == 2

    play(server, scenario, revision)


def test_two_listens_get_their_own_notifications():
    """RS-05, SU-02, SU-04, SU-05, SU-06, SU-09, SU-10, SU-11: ids keep their type, and each has copies of its own."""
    server = notes()

    async def scenario(client: Client):
        for gone in ("resources/subscribe", "resources/unsubscribe"):
            assert (await client.error(gone, uri="note://first"))["code"] == -32601
        everything = {"toolsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": ["note://first"]}
        client.start("subscriptions/listen", request_id=7, notifications=everything)
        client.start("subscriptions/listen", request_id="7", notifications={"resourceSubscriptions": ["note://first", "note://x"]})
        await client.until(lambda: len(client.notes("notifications/subscriptions/acknowledged")) == 2)
        one, other = client.notes("notifications/subscriptions/acknowledged")
        assert one["notifications"] == {"resourcesListChanged": True, "resourceSubscriptions": ["note://first"]}
        assert (one["_meta"][sessions.TAG], other["_meta"][sessions.TAG]) == (7, "7")
        server.notify_resource_updated("note://first")
        server.notify_resource_updated("note://x")
        server.notify_resource_updated("note://unwatched")
        server.add_resource("new://one", lambda: "x", name="new")
        await client.note("notifications/resources/list_changed")
        updates = [(note["_meta"][sessions.TAG], note["uri"]) for note in client.notes("notifications/resources/updated")]
        assert updates == [(7, "note://first"), ("7", "note://first"), ("7", "note://x")]
        assert [type(tag) for tag, _ in updates] == [int, str, str]
        client.cancel("7")
        server_side_of = server.notify_resource_updated
        await client.settle()
        server_side_of("note://first")
        await client.settle()
        assert client.notes("notifications/resources/updated")[3:] == [{"uri": "note://first", "_meta": {sessions.TAG: 7}}]
        assert client.answers_to(7) == client.answers_to("7") == []  # SU-12

    play(server, scenario)


@pytest.mark.parametrize("revision", ALL)
def test_a_change_of_the_list_is_announced_as_each_era_allows(revision):
    """RS-07: resources, templates and folders are one list of kinds."""
    server = notes()

    async def scenario(client: Client):
        if client.modern:
            client.start("subscriptions/listen", request_id="ear", notifications={"resourcesListChanged": True})
            await client.note("notifications/subscriptions/acknowledged")
        method = "notifications/resources/list_changed"
        changes = [
            lambda: server.add_resource("new://one", lambda: "x", name="new"),
            lambda: server.add_resource("new://{x}", lambda x: x, name="new"),
            lambda: server.add_directory("file:///here", Path(__file__).parent),
            lambda: server.remove_resource("new://one"),
            lambda: server.remove_resource("new://{x}"),
            lambda: server.remove_resource("file:///here"),
        ]
        for number, change in enumerate(changes, 1):
            change()
            await client.until(lambda number=number: len(client.notes(method)) == number)
        assert "new://one" not in await client.names("resources/list", "resources")

    play(server, scenario, revision)


def test_many_changes_at_once_are_announced_once():
    server = notes()

    async def scenario(client: Client):
        client.start("subscriptions/listen", request_id="ear", notifications={"resourcesListChanged": True})
        await client.note("notifications/subscriptions/acknowledged")
        for number in range(50):
            server.add_resource(f"new://{number}", lambda: "x", name="new")
        await client.settle()
        assert len(client.notes("notifications/resources/list_changed")) == 1

    play(server, scenario)


@pytest.mark.parametrize(
    ("uri", "function", "complaint"),
    [
        ("x://y", lambda name: name, "needs name"),
        ("x://{y}", lambda: "", "has y, which the function does not take"),
        ("x://{y}", lambda y, z: y, "needs z"),
    ],
)
def test_a_uri_and_a_function_that_do_not_fit_are_refused(uri, function, complaint):
    server = Server("s")
    with pytest.raises(LocalProtocolError, match=complaint) as refused:
        server.add_resource(uri, function, name="it")
    assert "test_resources.py:" in str(refused.value)


def test_a_second_resource_at_the_same_place_is_refused(tmp_path):
    server = notes()
    with pytest.raises(LocalProtocolError, match="the resource 'note://first' is already registered"):
        server.add_resource("note://first", lambda: "x")
    with pytest.raises(LocalProtocolError, match=r"the resource template 'note://{name}' is already registered"):
        server.add_resource("note://{name}", lambda name: name)
    server.add_directory("file:///docs", tmp_path)
    with pytest.raises(LocalProtocolError, match="the directory 'file:///docs/' is already registered"):
        server.add_directory("file:///docs/", tmp_path)


def test_the_functions_own_invalid_params_mean_not_found_in_a_template():
    server = Server("s")

    @server.resource("x://{y}")
    def x(y: str) -> str:
        raise InvalidParams("no such y")

    async def scenario(client: Client):
        assert (await client.error("resources/read", uri="x://1"))["code"] == -32602

    play(server, scenario)
