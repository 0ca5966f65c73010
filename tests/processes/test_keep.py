"""``twopipes keep`` between a host and a real server: quick answers, late starts, restarts, and no process that stays behind."""

import json
import os
import select
import sys
import time
from pathlib import Path

import pytest

from processes.children import end
from processes.launching import ENDINGS, NET, call, modern, python, request, text_of
from systems import STATE_VARIABLE

if sys.platform == "win32":
    from processes import windows_processes

SERVER = Path(__file__).with_name("kept_server.py")
PLAIN = Path(__file__).with_name("plain_server.py")
TOOLS = ["add", "crash_at", "who", "grow"]
LEGACY = "legacy"
MODERN = "modern"


class Kept:
    """A host with a kept server. Each ``start`` is a new session of the host, with the same configuration."""

    def __init__(self, launch, folder):
        self.folder = folder
        self.diary = folder / "diary"
        self.diary.touch()
        self.gate = folder / "gate"
        self._launch = launch

    def start(self, *options, gate=False, eras="both", tools="", fail="", argv=None):
        command = argv or python(SERVER)
        env = {
            "GATE": str(self.gate) if gate else "",
            "ERAS": eras,
            "TOOLS": tools,
            "FAIL": fail,
            "DIARY": str(self.diary),
            "PYTHONUNBUFFERED": "1",
        }
        return self._launch(python("-m", "twopipes", "keep", *options, "--", *command), env=env)

    def open_gate(self):
        """Let the server start, once it waits for that."""
        waiting = self.gate.with_name("gate.waiting")
        wait_until(waiting.exists)
        self.gate.touch()
        wait_until(lambda: not waiting.exists())
        self.gate.unlink()

    @property
    def pids(self):
        """The processes of the server so far."""
        return [int(line) for line in self.diary.read_text().split()]

    def run_once(self, **capabilities):
        """Have a first session, which leaves a manifest behind."""
        host = self.start()
        host.initialize(**capabilities)
        assert text_of(host.ask(call(1, "add", a=1, b=2))) == "3"
        host.finish()
        self.diary.write_text("")


def wait_until(happened):
    end = time.monotonic() + NET
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture
def kept(launch, tmp_path):
    return Kept(launch, tmp_path)


def names_of(answer):
    return [tool["name"] for tool in answer["result"]["tools"]]


def next_notification(host, method):
    while (message := host.receive()).get("method") != method:
        pass
    return message


def wait_for_the_end_of(pid):
    """Wait until a process of another parent has exited."""
    if sys.platform == "win32":
        assert windows_processes.ends(pid, NET), f"process {pid} still runs"
        return
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], NET)[0], f"process {pid} still runs"
    finally:
        os.close(descriptor)


# The first run


def test_the_first_run_waits_for_the_server_and_passes_everything_on(kept):
    host = kept.start()
    answer = host.initialize()["result"]
    assert (answer["serverInfo"]["name"], answer["instructions"]) == ("kept", "Add.")
    assert names_of(host.ask(request(1, "tools/list"))) == TOOLS
    assert text_of(host.ask(call(2, "add", a=1, b=2))) == "3"
    assert host.finish() == []
    assert b"a banner" not in b"".join(host.out.seen)
    (pid,) = kept.pids
    wait_for_the_end_of(pid)


@pytest.mark.parametrize("eras", [LEGACY, MODERN])
def test_a_host_of_either_era_uses_a_server_of_either_era(kept, eras):
    host = kept.start(eras=eras)
    host.initialize()
    assert text_of(host.ask(call(1, "add", a=1, b=2))) == "3"
    assert text_of(host.ask(modern(2, "tools/call", name="add", arguments={"a": 3, "b": 4}))) == "7"
    host.finish()


# Answers at once


def test_the_second_run_lists_the_tools_before_the_server_has_started(kept):
    kept.run_once()
    host = kept.start(gate=True)
    answer = host.initialize()["result"]
    assert (answer["serverInfo"]["name"], answer["instructions"]) == ("kept", "Add.")
    assert names_of(host.ask(request(1, "tools/list"))) == TOOLS
    assert kept.pids == []  # it could not start yet
    kept.open_gate()
    assert text_of(host.ask(call(2, "add", a=1, b=2))) == "3"
    assert len(kept.pids) == 1
    assert host.finish() == []  # no list_changed, because nothing differs


def test_a_modern_host_is_answered_before_the_server_has_started(kept):
    discover = modern("d", "server/discover")
    host = kept.start()
    assert host.ask(discover)["result"]["instructions"] == "Add."
    assert names_of(host.ask(modern(1, "tools/list"))) == TOOLS
    assert text_of(host.ask(modern(2, "tools/call", name="add", arguments={"a": 1, "b": 2}))) == "3"
    host.finish()
    kept.diary.write_text("")
    host = kept.start(gate=True)
    assert host.ask(discover)["result"]["instructions"] == "Add."
    answer = host.ask(modern(1, "tools/list"))
    assert (names_of(answer), answer["result"]["ttlMs"]) == (TOOLS, 0)
    assert kept.pids == []
    kept.open_gate()
    assert text_of(host.ask(modern(2, "tools/call", name="add", arguments={"a": 1, "b": 2}))) == "3"
    host.finish()


def test_a_call_waits_for_the_server_while_lists_are_answered(kept):
    kept.run_once()
    host = kept.start(gate=True)
    host.initialize()
    host.send(call(1, "add", a=1, b=2))
    assert names_of(host.ask(request(2, "tools/list"))) == TOOLS
    kept.open_gate()
    assert text_of(host.receive_response(1)) == "3"
    host.finish()


def test_a_list_that_differs_is_corrected_with_list_changed(kept):
    kept.run_once()
    host = kept.start(gate=True, tools="extra")
    host.initialize()
    assert names_of(host.ask(request(1, "tools/list"))) == TOOLS
    kept.open_gate()
    next_notification(host, "notifications/tools/list_changed")
    assert names_of(host.ask(request(2, "tools/list"))) == [*TOOLS, "extra"]
    host.finish()
    host = kept.start(gate=True, tools="extra")
    host.initialize()
    assert names_of(host.ask(request(1, "tools/list"))) == [*TOOLS, "extra"]  # the manifest has it now
    kept.open_gate()
    host.finish()


def test_a_tool_that_appears_later_is_announced_once_and_is_in_the_next_manifest(kept):
    kept.run_once()
    host = kept.start()
    host.initialize()
    host.ask(call(0, "add", a=1, b=2))
    host.ask(request(0, "tools/list"))  # by now keep has read the lists as well
    host.send(call(1, "grow", name="later"))
    assert {host.receive().get("method") for _ in range(2)} == {None, "notifications/tools/list_changed"}
    assert names_of(host.ask(request(2, "tools/list"))) == [*TOOLS, "later"]
    assert host.finish() == []  # the end waits a moment for the manifest
    host = kept.start(gate=True)
    host.initialize()
    assert names_of(host.ask(request(1, "tools/list"))) == [*TOOLS, "later"]
    kept.open_gate()
    next_notification(host, "notifications/tools/list_changed")  # a new process does not have it
    assert names_of(host.ask(request(2, "tools/list"))) == TOOLS
    host.finish()


def test_a_plain_legacy_server_gets_what_it_does_not_have(kept):
    """Log messages and list_changed come from keep, also for a server that declares neither."""
    host = kept.start(argv=python(PLAIN), tools="one crash")
    declared = host.initialize()["result"]["capabilities"]
    assert declared == {"tools": {"listChanged": True}, "logging": {}, "x-plain": {}}
    assert host.ask(request(1, "logging/setLevel", level="info"))["result"] == {}
    page = host.ask(request(2, "tools/list"))["result"]
    assert ([tool["name"] for tool in page["tools"]], page["nextCursor"]) == (["one"], "1")
    assert "exit code 3" in host.ask(call(3, "crash"))["error"]["message"]
    assert "exit code 3" in next_notification(host, "notifications/message")["params"]["data"]
    assert text_of(host.ask(call(4, "one"))) == "one"
    host.finish()
    host = kept.start("--lazy", argv=python(PLAIN), tools="one two")
    assert host.initialize()["result"]["capabilities"] == declared
    assert names_of(host.ask(request(1, "tools/list"))) == ["one", "crash"]  # of the previous run, all pages at once
    assert text_of(host.ask(call(2, "two"))) == "two"
    next_notification(host, "notifications/tools/list_changed")
    assert names_of(host.ask(request(3, "tools/list", cursor="1"))) == ["two"]
    host.finish()


def test_a_host_with_other_capabilities_does_not_get_the_lists_of_another(kept):
    kept.run_once(elicitation={})
    host = kept.start()
    host.initialize()
    assert len(kept.pids) == 1  # there was no manifest for it, so the server had to start first
    host.finish()


def test_without_a_manifest_nothing_is_stored_and_nothing_is_answered_from_it(kept, environment):
    kept.run_once()
    stored = Path(environment[STATE_VARIABLE], "twopipes", "manifests")
    for file in stored.iterdir():
        file.unlink()
    host = kept.start("--no-manifest")
    host.initialize()
    assert text_of(host.ask(call(1, "add", a=1, b=2))) == "3"
    host.finish()
    assert list(stored.iterdir()) == []


def test_a_host_that_leaves_while_the_server_starts_leaves_no_process(kept):
    kept.run_once()
    host = kept.start(gate=True)
    host.initialize()
    assert host.finish() == []


# Starts late, stops early


def test_a_lazy_server_starts_at_the_first_request_that_needs_it(kept):
    kept.run_once(elicitation={})
    host = kept.start("--lazy")
    host.initialize(elicitation={})
    host.ask(request(1, "ping"))
    host.ask(request(2, "logging/setLevel", level="info"))
    assert names_of(host.ask(request(3, "tools/list"))) == TOOLS
    assert kept.pids == []
    answer = host.ask(call(4, "who"))["result"]["structuredContent"]
    assert answer == {"name": "test", "elicits": True}  # the client reaches a server that starts after the handshake
    assert len(kept.pids) == 1
    host.finish()


@pytest.mark.parametrize("eras", [LEGACY, MODERN])
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}])
def test_the_server_gets_the_capabilities_of_the_host_and_no_others(kept, eras, capabilities):
    host = kept.start(eras=eras)
    host.initialize(**capabilities)
    answer = host.ask(call(1, "who"))["result"]["structuredContent"]
    assert answer == {"name": "test", "elicits": bool(capabilities)}
    host.finish()


def test_a_lazy_server_that_is_never_needed_is_never_started(kept):
    kept.run_once()
    host = kept.start("--lazy")
    host.initialize()
    host.ask(request(1, "tools/list"))
    host.finish()
    assert kept.pids == []


@pytest.mark.parametrize("eras", [LEGACY, MODERN])
def test_an_idle_server_is_stopped_and_the_next_call_starts_it_again(kept, eras):
    host = kept.start("--idle", "50ms", eras=eras)
    host.initialize()
    assert text_of(host.ask(call(1, "crash_at", number=0))) == "1"
    wait_for_the_end_of(kept.pids[0])
    assert names_of(host.ask(request(2, "tools/list"))) == TOOLS
    assert text_of(host.ask(call(3, "crash_at", number=0))) == "1"
    assert host.finish() == []


# Stays up


@pytest.mark.parametrize("eras", [LEGACY, MODERN])
def test_a_server_that_crashes_at_the_third_call_answers_the_fourth(kept, eras):
    host = kept.start(eras=eras)
    host.initialize()
    host.ask(request(0, "logging/setLevel", level="warning"))
    assert [text_of(host.ask(call(number, "crash_at", number=3))) for number in (1, 2)] == ["1", "2"]
    error = host.ask(call(3, "crash_at", number=3))["error"]
    assert "exit code 7" in error["message"]
    assert "the disk is on fire" in error["message"]
    log = next_notification(host, "notifications/message")["params"]
    assert log["level"] == "warning"
    assert "exit code 7" in log["data"]
    assert text_of(host.ask(call(4, "crash_at", number=3))) == "1"
    assert len(kept.pids) == 2
    host.finish()
    assert host.complaints().count("The server is restarted: the server exited while serving") == 1


def test_a_server_that_was_killed_is_started_again(kept):
    host = kept.start()
    host.initialize()
    host.ask(request(0, "tools/list"))
    assert text_of(host.ask(call(1, "add", a=1, b=2))) == "3"
    end(kept.pids[0])
    assert text_of(host.ask(call(2, "add", a=1, b=2))) == "3"  # sent again if it was lost, because the tool only reads
    assert len(kept.pids) == 2
    host.finish()


def test_a_server_that_crashes_again_and_again_is_given_up(kept):
    host = kept.start()
    host.initialize()
    for number in range(6):
        error = host.ask(call(number, "crash_at", number=1))["error"]
        assert "exit code 7" in error["message"]
    while (log := next_notification(host, "notifications/message")["params"])["level"] != "error":
        assert log["level"] == "warning"
    assert "The server is not restarted any more" in log["data"]
    error = host.ask(call(7, "add", a=1, b=2))["error"]
    assert "the server crashed 6 times" in error["message"]
    assert len(kept.pids) == 6
    assert names_of(host.ask(request(8, "tools/list"))) == TOOLS
    host.finish()


def test_a_subscription_to_lists_outlives_a_server_that_is_given_up(kept):
    """The manifest answers the lists, and the next start of the server corrects them."""
    host = kept.start()
    host.ask(modern(1, "tools/call", name="add", arguments={"a": 1, "b": 2}))
    host.send(modern("watch", "subscriptions/listen", notifications={"toolsListChanged": True}))
    for number in range(10, 17):
        assert "error" in host.ask(modern(number, "tools/call", name="crash_at", arguments={"number": 1}))
    assert "crashed 6 times" in host.ask(modern(17, "tools/call", name="add", arguments={"a": 1, "b": 2}))["error"]["message"]
    assert not any(b'"id":"watch"' in line for line in host.out.seen)
    assert [message["id"] for message in host.finish() if "id" in message] == ["watch"]


def test_a_command_that_does_not_exist_is_named(kept):
    host = kept.start(argv=["no-such-command-of-twopipes"])
    error = host.initialize()["error"]
    assert "no-such-command-of-twopipes" in error["message"]
    assert "not found" in error["message"]
    host.finish()


def test_a_server_that_cannot_start_is_reported_with_its_last_words(kept):
    host = kept.start(fail="no configuration found")
    error = host.initialize()["error"]
    assert "no configuration found" in error["message"]
    host.finish()


def test_a_server_that_cannot_start_any_more_fails_each_call_with_the_reason(kept):
    kept.run_once()
    host = kept.start(fail="no configuration found")
    host.initialize()
    assert names_of(host.ask(request(1, "tools/list"))) == TOOLS
    for number in (2, 3):
        error = host.ask(call(number, "add", a=1, b=2))["error"]
        assert "no configuration found" in error["message"]
    host.finish()


# The end


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_server_ends_with_keep(kept, ending):
    host = kept.start()
    host.initialize()
    host.ask(call(1, "add", a=1, b=2))
    host.end_by(ending)
    wait_for_the_end_of(kept.pids[0])


def test_keep_ends_with_its_host(kept, tmp_path, launch):
    """The host is killed, and a child of it still holds the pipe open."""
    program = (
        "import os, subprocess, sys\n"
        "kept = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=sys.stdout)\n"
        "keeper_of_the_pipe = subprocess.Popen(['sleep', '600'], pass_fds=[kept.stdin.fileno()])\n"
        "print(kept.pid, keeper_of_the_pipe.pid, file=sys.stderr, flush=True)\n"
        "for line in sys.stdin:\n"
        "    kept.stdin.write(line.encode())\n"
        "    kept.stdin.flush()\n"
    )
    env = {"GATE": "", "ERAS": "both", "TOOLS": "", "FAIL": "", "DIARY": str(kept.diary)}
    host = launch(python("-c", program, *python("-m", "twopipes", "keep", "--", *python(SERVER))), env=env)
    keep, other = map(int, host.err.next().split())
    try:
        host.initialize()
        host.ask(call(1, "add", a=1, b=2))
        host.kill()
        wait_for_the_end_of(keep)
        wait_for_the_end_of(kept.pids[0])
    finally:
        end(other)
        wait_for_the_end_of(other)


# Observable


def test_the_stderr_of_the_server_passes_to_ours(kept):
    host = kept.start()
    host.initialize()
    host.err.until("a line on stderr")
    host.finish()


def test_the_stderr_of_the_server_is_appended_to_a_file(kept, tmp_path):
    log = tmp_path / "server.log"
    log.write_text("before\n")
    host = kept.start("--log", "server.log")
    host.initialize()
    host.finish()
    assert log.read_text() == "before\na line on stderr\n"
    assert "a line on stderr" not in host.complaints()


def test_the_messages_of_the_host_are_recorded(kept, tmp_path):
    host = kept.start("--trace", "trace.jsonl")
    host.initialize()
    host.ask(call(1, "add", a=1, b=2))
    host.finish()
    recorded = (tmp_path / "trace.jsonl").read_text()
    lines = [json.loads(line) for line in recorded.splitlines()]
    assert len(lines) > 4
    assert "tools/call" in recorded


def test_a_wrong_option_is_reported_before_anything_starts(kept):
    host = kept.start("--idle", "soon")
    assert host.wait() == 2
    assert "not a duration" in host.complaints()
    assert kept.pids == []
