"""The command line of ``twopipes hub``: the servers it serves, where, and mistakes."""

import json
import os
import sys

import pytest

from twopipes._cli.hub import hub, make_hub, read_hub
from twopipes._gateway.hub.server import HubServer
from twopipes._host.filters import ToolFilter
from twopipes._host.references import literal
from twopipes._http.options import HttpOptions
from twopipes._tools.usage import UsageError
from twopipes.errors import ConfigError
from twopipes.settings import Sandbox


@pytest.fixture(autouse=True)
def _not_in_a_hub(monkeypatch):
    monkeypatch.delenv("TWOPIPES_HUBS", raising=False)


@pytest.fixture
def file(tmp_path):
    """A file with three servers, one of them disabled."""
    path = tmp_path / "servers.json"
    server = {"command": sys.executable, "args": ["server.py"], "env": {"A": "1"}}
    servers = {"one": server, "two": {"url": "https://h/mcp"}, "off": {**server, "disabled": True}}
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def mistake(*words):
    with pytest.raises((UsageError, ConfigError)) as found:
        read_hub(words)
    return str(found.value)


def test_the_enabled_servers_of_the_file_are_served(file):
    found = read_hub([file])
    assert list(found.servers) == ["one", "two"]
    assert found.servers["one"].command == (sys.executable, "server.py")
    assert found.servers["two"].url == "https://h/mcp"
    assert (found.where, found.is_searched, found.source.file) == ({}, False, file)
    assert found.options == {"is_lazy": False, "is_shared": False}
    assert found.seen is not None
    assert list(found.source.read()) == ["one", "two"]


def test_only_some_servers(file):
    assert list(read_hub([file, "--only", "two"]).servers) == ["two"]
    assert list(read_hub(["--only=two", file, "--only", "one"]).servers) == ["one", "two"]


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["--http", "8000"], {"http": "8000", "http_options": HttpOptions()}),
        (["--unix", "/run/x.sock"], {"unix": "/run/x.sock"}),
        (["--tcp", "127.0.0.1:9"], {"tcp": ("127.0.0.1", 9)}),
    ],
)
def test_where_it_is_served(file, words, where):
    found = read_hub([file, *words])
    assert found.where == where
    assert found.options["is_shared"]


def test_filters(file):
    assert read_hub([file]).members.tools is None
    words = ["--tools", "get_*", "--tools", "list", "--without", "x", "--read-only"]
    assert read_hub([file, *words]).members.tools == ToolFilter(include=("get_*", "list"), exclude=("x",), read_only=True)


def test_when_servers_start_and_stop(file):
    found = read_hub([file, "--lazy", "--idle", "10m", "--start-timeout", "2s", "--separator", "-", "--no-watch"])
    assert found.options == {"is_lazy": True, "is_shared": False, "separator": "-", "start_timeout": 2.0}
    assert found.members.idle == 600.0
    assert found.seen is None


def test_a_folder_for_recordings_is_created(file, tmp_path):
    trace = read_hub([file, "--trace", str(tmp_path / "new" / "traces")]).members.trace
    assert trace is not None
    assert trace("a b/../c") == str(tmp_path / "new" / "traces" / "a_b_c.jsonl")
    assert (tmp_path / "new" / "traces").stat().st_mode & 0o777 == 0o700


def test_what_the_options_make(file):
    plain = make_hub(read_hub([file]))
    assert isinstance(plain, HubServer)
    assert list(plain.resources.entries) == ["twopipes://hub/servers"]
    assert not plain.tools.entries
    assert len(plain.jobs) == 1
    searched = make_hub(read_hub([file, "--search", "--no-watch"]))
    assert list(searched.tools.entries) == ["search_tools", "describe_tool", "call_tool"]
    assert searched.jobs == []


def test_commands_without_a_sandbox_get_that_of_the_options(tmp_path):
    path = tmp_path / "servers.json"
    own = {"command": "x", "sandbox": {"read": ["/usr"]}}
    free = {"command": "x", "sandbox": False}
    entries = {"own": own, "free": free, "plain": {"command": "x"}, "far": {"url": "https://h/mcp"}}
    path.write_text(json.dumps({"mcpServers": entries}))
    assert read_hub([str(path)]).servers["plain"].sandbox is None
    words = ["--sandbox-read", str(tmp_path), "--sandbox-network"]
    found = read_hub([str(path), *words])
    assert found.servers["plain"].sandbox == Sandbox(read=[str(tmp_path)], network=True)
    assert found.servers["own"].sandbox == Sandbox(read=["/usr"])
    assert found.servers["free"].sandbox is False
    assert found.servers["free"].target().command.sandbox is None
    assert found.servers["far"].sandbox is None
    assert found.source.read() == found.servers


def test_a_hub_does_not_start_itself(file, monkeypatch, tmp_path):
    env = read_hub([file]).servers["one"].env
    assert env == {"A": "1", "TWOPIPES_HUBS": literal(os.path.realpath(file))}
    monkeypatch.setenv("TWOPIPES_HUBS", os.pathsep.join(["/other.json", os.path.realpath(file)]))
    assert mistake(file) == f"{file} contains this hub itself; remove that entry, or put the servers of the hub into another file"
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert "contains this hub itself" in mistake(str(link))
    monkeypatch.setenv("TWOPIPES_HUBS", "/other.json")
    assert read_hub([file]).servers["one"].env["TWOPIPES_HUBS"] == literal(f"/other.json{os.pathsep}{os.path.realpath(file)}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no file given. usage: twopipes hub FILE"),
        (["FILE", "more"], "unknown argument more; give one file. usage:"),
        (["FILE", "--", "python", "x.py"], "a hub takes its servers from a file, not after --. usage:"),
        (["FILE", "--port", "1"], "unknown option --port. usage:"),
        (["FILE", "--http", "1", "--unix", "x"], "--http and --unix exclude each other; give one of them"),
        (["FILE", "--public"], "--public is for clients over HTTP; give it with --http PORT"),
        (["FILE", "--separator", "."], "--separator: the separator must be one to four"),
        (["FILE", "--idle", "soon"], "--idle: 'soon' is not a duration"),
        (["FILE", "--start-timeout", "0"], "--start-timeout: '0' is not a duration above 0"),
        (["FILE", "--trace", "/dev/null/x"], "--trace: the folder /dev/null/x cannot be created: Not a directory"),
        (["FILE", "--only", "three"], "--only three: FILE has no such server, or it is disabled there; servers: one, two"),
        (["FILE", "--only", "off"], "--only off: FILE has no such server, or it is disabled there"),
        (["FILE", "--host", "nosuch"], "nosuch"),
        (["/nowhere/x.json"], "/nowhere/x.json"),
    ],
)
def test_mistakes(file, words, message):
    found = mistake(*(file if word == "FILE" else word for word in words))
    assert message.replace("FILE has", f"{file} has") in found


def test_a_file_whose_servers_are_all_disabled(tmp_path):
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "disabled": True}}}))
    assert mistake(str(path)) == f"every server in {path} is disabled; enable one"


def test_a_file_that_cannot_be_used_is_a_usage_error(tmp_path):
    path = tmp_path / "servers.json"
    path.write_text("{")
    with pytest.raises(UsageError, match=r"servers\.json"):
        hub([str(path)])
