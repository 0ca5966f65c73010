"""The manifest of a server: its key, its file, and how its lists are compared."""

import asyncio
import json
import os
import stat
import sys

import pytest
from msgspec import Raw, structs

from twopipes._gateway import manifest as manifests
from twopipes._gateway.manifest import Manifest, ManifestKey, joined, load, next_cursor, read_lists, save
from twopipes._process.command import ServerCommand
from twopipes._protocol.types import ClientCapabilities, Implementation, ServerCapabilities
from twopipes._session.events import ClientOpened
from twopipes.errors import MethodNotFound
from twopipes.settings import Sandbox

OPENED = ClientOpened(
    era="legacy",
    revision="2025-11-25",
    capabilities=ServerCapabilities(tools={"listChanged": True}, experimental={"x": {"y": [1]}}),
    server_info=Implementation("weather", "1.0", website_url="https://example.com"),
    instructions="Ask for the weather.",
)
TOOLS = Raw(b'{"tools":[{"name":"add","inputSchema":{"type":"object"},"x-unknown":1.0}],"_meta":{"a":1}}')
ANYONE = Implementation("host", "1"), ClientCapabilities()
on_posix = pytest.mark.skipif(sys.platform == "win32", reason="made of POSIX files")


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_STATE_HOME"
    monkeypatch.setenv(variable, str(tmp_path / "state"))
    return tmp_path / "state" / "twopipes" / "manifests"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "server.py"
    path.write_text("print('one')")
    return path


def key_of(*arguments, client=ANYONE, **options):
    key = ManifestKey.of(ServerCommand([sys.executable, *map(str, arguments)], **options), *client)
    assert key is not None
    return key


def with_tools(text):
    return Manifest(opened=OPENED, lists={"tools/list": Raw(text)})


# The key


def test_the_same_command_has_the_same_key(script):
    assert key_of(script) == key_of(script)


def test_the_key_of_another_command_folder_or_set_of_variables_differs(script, tmp_path):
    keys = [key_of(script), key_of(script, "--fast"), key_of(script, cwd=tmp_path), key_of(script, env={"TOKEN": "1"})]
    assert len({key.name for key in keys}) == len(keys)


def test_each_policy_of_a_sandbox_has_its_own_manifest(script):
    policies = [None, Sandbox(), Sandbox(network=True), Sandbox(read=["/srv"]), Sandbox(write=["/srv"]), Sandbox(folder=False)]
    names = [key_of(script, sandbox=policy).name for policy in policies]
    assert len(set(names)) == len(policies)
    assert key_of(script, sandbox=Sandbox(read=["/srv"])) == key_of(script, sandbox=Sandbox(read=["/srv"]))


def test_the_value_of_a_variable_is_not_part_of_the_key(script):
    assert key_of(script, env={"TOKEN": "1"}) == key_of(script, env={"TOKEN": "2"})


def test_a_client_with_other_capabilities_has_its_own_manifest(script):
    other = Implementation("host", "1"), ClientCapabilities(elicitation={})
    assert key_of(script).name != key_of(script, client=other).name
    assert key_of(script) == key_of(script, client=(Implementation("host", "2"), ClientCapabilities()))


def test_an_edited_script_has_the_same_file_but_another_fingerprint(script):
    before = key_of(script)
    script.write_text("print('another')")
    after = key_of(script)
    assert (after.name, after.fingerprint != before.fingerprint) == (before.name, True)


def test_a_script_is_found_relative_to_the_folder_of_the_server(script, tmp_path):
    before = key_of("server.py", cwd=tmp_path)
    script.write_text("print('another')")
    assert key_of("server.py", cwd=tmp_path).fingerprint != before.fingerprint


def test_a_command_that_cannot_be_started_has_no_key():
    assert ManifestKey.of(ServerCommand(["./missing"]), *ANYONE) is None


def test_an_argument_that_is_not_valid_text_has_a_key():
    assert key_of("\udcff") == key_of("\udcff")


# The file


@pytest.mark.parametrize("raw", [None, Raw(b'{"capabilities":{"x-new":{}}, "x":1.0}')])
def test_a_manifest_is_read_as_it_was_written(script, raw):
    key = key_of(script)
    written = Manifest(opened=structs.replace(OPENED, raw=raw), lists={"tools/list": TOOLS})
    assert save(key, written)
    assert load(key) == written
    assert load(key) != Manifest(opened=OPENED, lists={})


def test_a_host_must_not_cache_the_introduction_of_a_manifest():
    raw = Raw(b'{"ttlMs":60000,"instructions":"Ask."}')
    manifest = Manifest.of(structs.replace(OPENED, raw=raw), {})
    assert manifest.opened.raw == Raw(b'{"ttlMs":0,"instructions":"Ask."}')


def test_there_is_no_manifest_before_the_first_run(script):
    assert load(key_of(script)) is None


def test_the_manifest_of_an_edited_server_is_ignored_and_replaced(script, state):
    save(key_of(script), with_tools(b'{"tools":[]}'))
    script.write_text("print('another')")
    assert load(key_of(script)) is None
    save(key_of(script), with_tools(b'{"tools":[1]}'))
    assert load(key_of(script)) is not None
    assert len(list(state.iterdir())) == 1


@on_posix
def test_only_the_user_can_read_it(script, state):
    save(key_of(script), with_tools(b'{"tools":[]}'))
    (file,) = state.iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(state.stat().st_mode)) == (0o600, 0o700)


@on_posix
def test_a_file_that_others_can_write_is_ignored(script, state):
    save(key_of(script), with_tools(b'{"tools":[]}'))
    (file,) = state.iterdir()
    file.chmod(0o622)
    assert load(key_of(script)) is None


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b"\xff", b"{}", b'{"format":1,"fingerprint":"x","manifest":{}}', b"[" * 100_000]
)
def test_a_damaged_file_is_ignored(script, state, damage):
    save(key_of(script), with_tools(b'{"tools":[]}'))
    (file,) = state.iterdir()
    file.write_bytes(damage)
    assert load(key_of(script)) is None


def test_a_file_of_another_format_is_ignored(script, state):
    save(key_of(script), with_tools(b'{"tools":[]}'))
    (file,) = state.iterdir()
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, "format": content["format"] + 1}))
    assert load(key_of(script)) is None


def test_a_manifest_that_is_too_large_is_not_stored(script, monkeypatch):
    monkeypatch.setattr(manifests, "MAX_SIZE", 1000)
    assert not save(key_of(script), with_tools(b'{"tools":["' + b"x" * 1000 + b'"]}'))
    assert load(key_of(script)) is None


def test_a_manifest_that_cannot_be_written_costs_nothing(script, state):
    state.parent.mkdir(parents=True)
    state.write_text("a file instead of the folder")
    assert not save(key_of(script), with_tools(b'{"tools":[]}'))
    assert load(key_of(script)) is None


def test_no_value_of_a_variable_and_no_argument_is_written(script, state):
    save(key_of(script, "--token=secret-1", env={"TOKEN": "secret-2"}), with_tools(b'{"tools":[]}'))
    (file,) = state.iterdir()
    assert b"secret" not in file.name.encode() + file.read_bytes()


def test_the_oldest_manifests_are_removed(script, state, monkeypatch):
    monkeypatch.setattr(manifests, "_MAX_FILES", 2)
    for number in range(4):
        save(key_of(script, str(number)), with_tools(b'{"tools":[]}'))
        for file in state.iterdir():  # make all of them older, so that the next one is the newest
            os.utime(file, ns=(0, file.stat().st_mtime_ns - 10**9))
    assert [load(key_of(script, str(number))) is not None for number in range(4)] == [False, False, True, True]


# Lists


def test_pages_are_joined_into_one_result_without_a_cursor():
    first = Raw(b'{"tools":[{"name":"a","x":1.0}],"nextCursor":"2","ttlMs":60000,"cacheScope":"public","x-more":[1]}')
    second = Raw(b'{"tools":[{"name":"b"}]}')
    assert (next_cursor(first), next_cursor(second)) == ("2", None)
    assert json.loads(bytes(joined("tools/list", [first, second]))) == {
        "tools": [{"name": "a", "x": 1.0}, {"name": "b"}],
        "ttlMs": 0,
        "cacheScope": "public",
        "x-more": [1],
    }


def test_items_are_joined_byte_for_byte():
    page = Raw(b'{"tools":[{"name":"a", "minimum":1.0,"b":"\\u00e9"}]}')
    assert b'{"name":"a", "minimum":1.0,"b":"\\u00e9"}' in bytes(joined("tools/list", [page]))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (b'{"tools":[{"name":"a"}]}', b'{"tools": [ {"name": "a"} ]}', set()),
        (b'{"tools":[{"name":"a"}]}', b'{"tools":[{"name":"a"}],"ttlMs":0}', set()),
        (b'{"tools":[{"name":"a"}]}', b'{"tools":[{"name":"b"}]}', {"tools"}),
        (b'{"tools":[{"name":"a"}]}', b'{"tools":[]}', {"tools"}),
    ],
)
def test_lists_differ_if_their_items_differ(one, other, expected):
    assert with_tools(one).differences(with_tools(other)) == expected


def test_templates_are_announced_with_the_resources():
    empty = Manifest(opened=OPENED, lists={})
    templates = Manifest(opened=OPENED, lists={"resources/templates/list": Raw(b'{"resourceTemplates":[{}]}')})
    assert empty.differences(templates) == {"resources"}


# Reading the lists of a server


class Lister:
    """A server with pages of one item."""

    def __init__(self, **lists):
        self.lists = lists
        self.asked = []

    async def fetch(self, method, params):
        self.asked.append((method, params.get("cursor")))
        member, _ = manifests.LISTS[method]
        if member not in self.lists:
            raise MethodNotFound(method)
        place = int(params.get("cursor", 0))
        items = self.lists[member]
        more = {"nextCursor": str(place + 1)} if place + 1 < len(items) else {}
        return Raw(json.dumps({member: items[place : place + 1], **more}).encode())

    def read(self, max_pages=None, **capabilities):
        lists = asyncio.run(read_lists(self.fetch, ServerCapabilities(**capabilities), max_pages=max_pages))
        return {method: json.loads(bytes(raw)) for method, raw in lists.items()}


def test_every_page_of_every_declared_list_is_read():
    lister = Lister(tools=[1, 2, 3], prompts=[4], resources=[5])
    assert lister.read(tools={}) == {"tools/list": {"tools": [1, 2, 3]}}
    assert lister.asked == [("tools/list", None), ("tools/list", "1"), ("tools/list", "2")]


def test_a_list_that_the_server_refuses_is_left_out():
    lister = Lister(resources=[5], tools=[])
    assert lister.read(tools={}, resources={}) == {"tools/list": {"tools": []}, "resources/list": {"resources": [5]}}


def test_a_list_without_an_end_is_left_out():
    lister = Lister(tools=list(range(100)), prompts=[1])
    assert lister.read(max_pages=3, tools={}, prompts={}) == {"prompts/list": {"prompts": [1]}}
    assert len(lister.asked) == 4


def test_a_list_that_is_too_long_for_a_manifest_is_left_out(monkeypatch):
    monkeypatch.setattr(manifests, "MAX_SIZE", 100)
    lister = Lister(tools=["x" * 60, "y" * 60], prompts=[1])
    assert lister.read(tools={}, prompts={}) == {"prompts/list": {"prompts": [1]}}
