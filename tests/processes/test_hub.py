"""``twopipes hub`` in real processes: what it serves, what it survives, and how it ends."""

import json
import os
import sys

import pytest

from processes.children import is_running, watching
from processes.launching import ENDINGS, EXAMPLES, call, modern, python, request, text_of
from processes.test_bridge import SERVER, modern_call, number, said, twopipes

STATUS = "twopipes://hub/servers"
BROKEN = {"command": "/does/not/exist"}
EXITS = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no database')"]}


def entry(*words, **more):
    command, *arguments = python(*words)
    return {"command": command, "args": list(map(str, arguments)), **more}


@pytest.fixture
def servers(tmp_path):
    """Write the servers of a hub, as careful editors do, and return the path."""

    def servers(**entries):
        other = tmp_path / "servers.json.new"
        other.write_text(json.dumps({"mcpServers": entries}))
        other.replace(tmp_path / "servers.json")
        return tmp_path / "servers.json"

    return servers


@pytest.fixture
def two(servers, write):
    """A file with a server of each era."""
    program = write(SERVER)
    return servers(old=entry(program, "legacy"), new=entry(program, "modern"))


def hub(*words):
    return twopipes("hub", *words)


def names(answer):
    return [tool["name"] for tool in answer["result"]["tools"]]


def status(child, id_="s"):
    """Return what the hub reports about each server."""
    (content,) = child.ask(modern(id_, "resources/read", uri=STATUS))["result"]["contents"]
    return {each["name"]: each for each in json.loads(content["text"])["servers"]}


# What it serves


def test_the_servers_of_a_file_are_one_server(two, launch):
    child = launch(hub(two))
    child.initialize()
    listed = names(child.ask(request(1, "tools/list")))
    assert listed == [f"{server}__{tool}" for server in ("old", "new") for tool in ("pid", "variable", "ask", "wait", "crash")]
    pids = {number(child.ask(call(each, f"{each}__pid"))) for each in ("old", "new")}
    assert len(pids) == 2
    child.finish()
    assert "2 of 2 servers are ready, with 10 tools\n" in child.complaints()
    assert not any(map(is_running, pids))


def test_broken_servers_are_reported_and_skipped(servers, launch, write):
    file = servers(broken=BROKEN, exits=EXITS, good=entry(write(SERVER), "both"))
    child = launch(hub(file))
    assert names(child.ask(modern(1, "tools/list")))[0] == "good__pid"
    found = status(child)
    assert {name: each["state"] for name, each in found.items()} == {"broken": "failed", "exits": "failed", "good": "ready"}
    assert "not found" in found["broken"]["error"]
    assert "no database" in found["exits"]["error"]
    assert is_running(found["good"]["pid"])
    error = child.ask(modern_call(2, "exits__pid"))["error"]
    assert error["message"].endswith("not available: 'broken', 'exits'")
    child.finish()
    said = child.complaints()
    assert "Server 'broken': it cannot be used: cannot start '/does/not/exist': not found" in said
    assert "[exits] no database\n" in said
    assert "1 of 3 servers are ready, with 5 tools; not available: 'broken', 'exits'\n" in said


def test_the_client_commands(servers, run):
    words = ["--", *hub(servers(every=entry(EXAMPLES / "everything.py")))]
    for era in ("modern", "legacy"):
        assert said(run, "call", "every__add", "a=1", "b=2", "--era", era, *words) == "3\n"
        assert "first note" in said(run, "read", "note://first", "--era", era, *words).lower()
        assert "user" in said(run, "prompt", "every__review", "code=x", "--era", era, *words)


@pytest.mark.parametrize("front", ["legacy", "modern"])
@pytest.mark.parametrize("back", ["old", "new"])
def test_a_question_crosses_in_each_combination_of_eras(front, back, two, run):
    answered = said(run, "call", f"{back}__ask", "--era", front, "--answer", "name=Ada", "--", *hub(two))
    assert answered == "accept {'name': 'Ada'}\n"


def test_filters(two, launch):
    child = launch(hub(two, "--only", "new", "--tools", "*i*", "--without", "wait", "--separator", "-"))
    assert names(child.ask(modern(1, "tools/list"))) == ["new-pid", "new-variable"]
    assert "Unknown tool" in child.ask(modern_call(2, "new-crash"))["error"]["message"]
    child.finish()


def test_search(two, run):
    words = ["--", *hub(two, "--search")]
    listed = said(run, "list", *words)
    assert "Tools (3)" in listed
    found = json.loads(said(run, "call", "search_tools", "query=environment variable", *words))
    assert [tool["name"] for tool in found["tools"]] == ["new__variable", "old__variable"]
    definition = json.loads(said(run, "call", "describe_tool", "name=new__variable", *words))
    assert definition["inputSchema"]["required"] == ["name"]
    called = '{"name": "new__variable", "arguments": {"name": "TWOPIPES_NONE"}}'
    assert said(run, "call", "call_tool", "--json", called, *words) == "none\n"
    asked = ["call", "call_tool", "--json", '{"name": "old__ask"}', "--answer", "name=Ada"]
    assert said(run, *asked, *words) == "accept {'name': 'Ada'}\n"


def test_variables_of_an_entry_reach_only_its_server(servers, launch, write, tmp_path):
    (tmp_path / "token").write_text("s3cret\n")
    program = write(SERVER)
    file = servers(one=entry(program, "both", env={"TOKEN": "file:token"}), two=entry(program, "both"))
    child = launch(hub(file))
    assert text_of(child.ask(modern_call(1, "one__variable", name="TOKEN"))) == "s3cret"
    assert text_of(child.ask(modern_call(2, "two__variable", name="TOKEN"))) == "none"
    assert "s3cret" not in json.dumps(status(child))
    child.finish()
    assert "s3cret" not in child.complaints()


# Where it is served


def test_over_sockets_and_http(two, run, listening):
    for words in (["--unix", "hub.sock"], ["--tcp", "127.0.0.1:0"], ["--http", "0"]):
        child, address = listening(hub(two, *words))
        target = [address] if address.startswith("http") else ["--", *twopipes("bridge", address.replace("tcp ", "tcp://"))]
        for era in ("modern", "legacy"):
            pids = {said(run, "call", f"{each}__pid", "--era", era, *target) for each in ("old", "new")}
            assert len(pids) == 2
        child.stop()
        assert not any(is_running(int(pid)) for pid in pids)


def test_each_session_has_servers_of_its_own_behind_an_isolating_bridge(two, listening, connect):
    child, address = listening(twopipes("bridge", "--isolate", "--unix", "hub.sock", "--", *hub(two)))
    hosts = [connect(address), connect(address)]
    pids = [[number(host.ask(modern_call(each, f"{each}__pid"))) for each in ("old", "new")] for host in hosts]
    assert len({*pids[0], *pids[1]}) == 4
    assert number(hosts[0].ask(modern_call("again", "old__pid"))) == pids[0][0]
    with watching(pids[0][0]), watching(pids[0][1]):  # they end with their session
        hosts[0].dispose()
    assert all(map(is_running, pids[1]))
    child.stop()
    assert not any(map(is_running, pids[1]))


# When servers start, crash and stop


def test_a_lazy_hub_starts_a_server_for_the_first_request_that_needs_it(two, launch):
    child = launch(hub(two, "--lazy"))
    child.ask(modern(1, "server/discover"))
    assert {each["state"] for each in status(child).values()} == {"waiting"}
    assert len(names(child.ask(modern(2, "tools/list")))) == 10
    assert {each["state"] for each in status(child).values()} == {"ready"}
    child.finish()


def test_a_crash_affects_only_its_own_server(two, launch):
    child = launch(hub(two))
    first = {each: number(child.ask(modern_call(each, f"{each}__pid"))) for each in ("old", "new")}
    error = child.ask(modern_call(1, "new__crash"))["error"]
    assert "'new'" in error["message"]
    assert "exit code 7" in error["message"]
    assert number(child.ask(modern_call(2, "old__pid"))) == first["old"]
    assert number(child.ask(modern_call(3, "new__pid"))) != first["new"]
    assert status(child)["new"]["restarts"] == 1
    child.finish()


def test_recordings(two, launch, run, tmp_path):
    child = launch(hub(two, "--trace", "traces"))
    number(child.ask(modern_call(1, "old__pid")))
    child.finish()
    assert sorted(os.listdir(tmp_path / "traces")) == ["new.jsonl", "old.jsonl"]
    assert "tools/call" in said(run, "view", "traces/old.jsonl")


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_process_outlives_the_hub(ending, two, launch):
    child = launch(hub(two))
    old, new = (number(child.ask(modern_call(each, f"{each}__pid"))) for each in ("old", "new"))
    child.send(modern_call("w", "new__wait"))
    with watching(old), watching(new):
        child.end_by(ending)


# Changes of the file


def test_changes_of_the_file_are_applied_and_announced(servers, launch, write):
    program = write(SERVER)
    file = servers(stays=entry(program, "both"), changes=entry(program, "both", env={"A": "1"}), goes=entry(program, "both"))
    child = launch(hub(file))
    child.initialize()
    child.ask(request(0, "tools/list"))
    before = {each: number(child.ask(call(each, f"{each}__pid"))) for each in ("stays", "changes", "goes")}
    with watching(before["goes"]), watching(before["changes"]):
        servers(stays=entry(program, "both"), changes=entry(program, "both", env={"A": "2"}), comes=entry(program, "both"))
    while child.receive().get("method") != "notifications/tools/list_changed":
        pass
    assert number(child.ask(call(1, "stays__pid"))) == before["stays"]
    assert text_of(child.ask(call(2, "changes__variable", name="A"))) == "2"
    assert number(child.ask(call(3, "comes__pid")))
    assert "Unknown tool" in child.ask(call(4, "goes__pid"))["error"]["message"]
    child.finish()
    assert "servers.json has changed: added 'comes'; restarted 'changes'; removed 'goes'\n" in child.complaints()


def test_a_broken_edit_is_reported_and_the_servers_stay(two, launch):
    child = launch(hub(two))
    first = number(child.ask(modern_call(1, "new__pid")))
    two.write_text('{"mcpServers": {"new": ')
    assert "the servers stay as they are" in child.err.until("servers.json has changed, but cannot be used")
    assert number(child.ask(modern_call(2, "new__pid"))) == first
    child.finish()


def test_a_hub_in_its_own_file_does_not_start_itself(servers, launch, write, tmp_path):
    file = tmp_path / "servers.json"
    servers(good=entry(write(SERVER), "both"), hub=entry("-m", "twopipes", "hub", str(file)))
    child = launch(hub(file))
    assert names(child.ask(modern(1, "tools/list")))[0] == "good__pid"
    assert "contains this hub itself" in status(child)["hub"]["error"]
    child.finish()


def test_mistakes_are_usage_errors(run, servers, two):
    for words in (["/nowhere.json"], [two, "--only", "x"], [two, "--nosuch"]):
        done = run(hub(*words))
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"Error: ")
        assert done.stderr.count(b"\n") == 1
