"""The check does no harm, every wait is bounded, and a rule that was not tried never passes."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from check.healthy import IMPATIENT, WAITS, new_server, served
from check.mutation import MutatingChannel
from check.runs import of_server, run
from check.time_scale import scaled
from twopipes._channels.memory import memory_pair
from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL
from twopipes._rules.table import RULES
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.probe import Case, Features, Permissions, Probe, made_up_arguments, revisions_for
from twopipes._tools.check.server_run import check_server
from twopipes._tools.check.server_source import ChannelTarget, CommandTarget
from twopipes._tools.check.verdict import DEFECT
from twopipes.errors import LocalProtocolError, StartFailed


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def test_only_tools_that_change_nothing_or_were_allowed_are_called():
    features = Features(
        tools=[
            tool("deletes"),
            tool("reads", annotations={"readOnlyHint": True}),
            tool("lies", annotations={"readOnlyHint": "yes"}),
            tool("creates", annotations={"readOnlyHint": False, "idempotentHint": True, "destructiveHint": False}),
            tool("repeats", annotations={"idempotentHint": True, "destructiveHint": False}),
        ]
    )
    assert [call.name for call in features.safe_calls(Permissions())] == ["reads"]
    allowed = features.safe_calls(Permissions(tools=frozenset({"deletes"}), calls={"lies": {"a": 1}}))
    assert [(call.name, dict(call.arguments)) for call in allowed] == [("lies", {"a": 1}), ("deletes", {}), ("reads", {})]


TEXT = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def test_an_explicit_call_is_made_only_with_its_arguments():
    features = Features(
        tools=[tool("writes", inputSchema=TEXT), tool("reads", inputSchema=TEXT, annotations={"readOnlyHint": True})]
    )
    permissions = Permissions(calls={"writes": {}, "reads": {"a": "b"}})
    writes, reads = features.safe_calls(permissions)
    assert (writes.arguments, writes.with_text("other"), writes.takes_other_arguments) == ({}, None, False)
    assert (reads.arguments, reads.with_text("other")) == ({"a": "b"}, {"name": "reads", "arguments": {"a": "other"}})


def test_a_whole_check_calls_no_tool_that_may_change_something():
    server = new_server()
    hints = {"readOnlyHint": False, "idempotentHint": True, "destructiveHint": False}
    changed = []

    def create_directory(path: str) -> str:
        changed.append(path)
        return "done"

    def write_file(path: str, content: str) -> str:
        changed.append((path, content))
        return "done"

    server.add_tool(create_directory, annotations=hints)
    server.add_tool(write_file, annotations=hints)
    called = set()

    def listen(wire):
        def hear(line):
            with suppress(ValueError):
                message = json.loads(line)
                for part in message if isinstance(message, list) else [message]:
                    if isinstance(part, dict) and part.get("method") == "tools/call" and isinstance(part.get("params"), dict):
                        called.add(part["params"].get("name"))

        wire.to_subject = hear

    target = ChannelTarget(
        served(server, lambda channel: MutatingChannel(channel, listen, reader_is_check=True)), timeouts=scaled(WAITS)
    )
    named = {"path": "notes.txt", "content": "named by a person"}
    outcome = run(
        check_server(target, revisions=["2025-11-25", "2026-07-28"], permissions=Permissions(calls={"write_file": named}))
    )
    assert outcome.revisions == ["2025-11-25", "2026-07-28"]
    listed = {"echo", "structured", "write_file"}
    # The others are names of tools that do not exist, or are not strings.
    assert {name for name in called if name in server.tools} == listed
    assert set(changed) == {tuple(named.values())}


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({"type": "object"}, {}),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}, {"a": "text"}),
        ({"properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}, {"a": "x"}),
        ({"properties": {"a": {"type": "number", "minimum": 5}}, "required": ["a"]}, {"a": 5}),
        ({"properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]}, None),
        ({"oneOf": []}, None),
        ({"properties": {"a": {"type": ["integer", "null"]}}, "required": ["a"]}, {"a": 1}),
        ({"properties": {"a": {"type": ["odd", "string"]}}, "required": ["a"]}, {"a": "text"}),
        ({"properties": {"a": {"type": []}}, "required": ["a"]}, None),
    ],
)
def test_arguments_are_made_up_only_where_the_schema_is_plain(schema, made):
    assert made_up_arguments(schema) == made


def test_the_newest_revision_of_each_era_that_has_the_rule_is_tried():
    assert revisions_for([RULES["FR-03"]], "eras", ALL) == ["2025-11-25", "2026-07-28"]
    assert revisions_for([RULES["FR-03"]], "eras", ALL[:2]) == ["2025-03-26"]
    assert revisions_for([RULES["FR-03"]], "each", ALL) == list(ALL[1:])
    assert revisions_for([RULES["FR-09"]], "each", ALL[:4]) == []


# Seconds. Enough for an answer in memory on a busy machine, and what the one test costs that waits for one in vain.
ANSWER = 2


def one_probe(body, *rules, **more):
    return Probe(name="p", section="FR", rules=rules, body=body, **more)


def tried(body, *rules, **more):
    target = ChannelTarget(served(new_server()), timeouts=ProbeTimeouts(start=20, response=ANSWER, grace=0.02, exit=2, step=2))
    work = check_server(target, revisions=["2025-11-25"], wanted=set(rules), probes=[one_probe(body, *rules, **more)])
    return {verdict.rule.id: (verdict.outcome, verdict.why) for verdict in run(work).verdicts if verdict.probe == "p"}


def test_rules_without_a_verdict_are_skipped():
    async def body(case: Case) -> None:
        case.expect("FR-13", condition=True, why="")

    assert tried(body, "FR-13", "FR-15") == {
        "FR-13": ("passed", ""),
        "FR-15": ("skipped", "the probe found nothing to judge the rule by"),
    }


def test_a_request_without_a_response_skips_the_unjudged_rules():
    async def body(case: Case) -> None:
        await case.conversation.response_to(999)

    assert tried(body, "FR-13")["FR-13"] == ("skipped", f"no response within {ANSWER:g} s to the request")


def test_a_probe_whose_needs_are_not_met_is_skipped():
    async def body(case: Case) -> None:
        raise AssertionError("must not run")

    assert tried(body, "FR-13", needs=("tasks",))["FR-13"] == ("skipped", "the server does not declare tasks")
    assert tried(body, "FR-13", needs=("process",))["FR-13"][0] == "skipped"


def test_a_probe_cannot_judge_what_it_does_not_name():
    async def body(case: Case) -> None:
        case.expect("FR-15", condition=True, why="")

    with pytest.raises(LocalProtocolError, match="does not name"):
        tried(body, "FR-13")


def test_a_tool_without_effect_does_not_pass_rules_about_announcements():
    def useless(wire):
        def ask(line):
            message = json.loads(line)
            if message.get("params", {}).get("name") != "touch":
                return None
            wire.send_to_check({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}})
            return b""

        wire.to_subject = ask

    def wrap(channel):
        return MutatingChannel(channel, useless, reader_is_check=True)

    target = ChannelTarget(served(new_server(), wrap), timeouts=ProbeTimeouts(start=20, response=20, grace=0.02, exit=2, step=2))
    (verdict,) = run(of_server(target, revisions=["2025-11-25"], wanted={"RS-04"})).of("RS-04")
    assert (verdict.outcome, verdict.why) == ("skipped", "the tool 'touch' changed nothing that resources/read shows")


def test_an_exception_in_a_probe_is_not_a_verdict_and_does_not_end_the_run():
    async def body(case: Case) -> None:
        case.expect("FR-15", condition=True, why="")
        raise ZeroDivisionError("by nothing")

    found = tried(body, "FR-13", "FR-15")
    assert found["FR-15"] == ("passed", "")
    assert found["FR-13"] == ("skipped", f"{DEFECT}: ZeroDivisionError: by nothing")


@pytest.mark.parametrize("odd", [{"properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}, {"required": [[]]}])
def test_a_tool_with_an_unusual_schema_does_not_end_the_run(odd):
    def relist(wire):
        def change(line):
            message = json.loads(line)
            for listed in message.get("result", {}).get("tools", []):
                if listed["name"] == "fail":
                    listed["inputSchema"] = {"type": "object", **odd}
            return json.dumps(message).encode() + b"\n"

        wire.from_subject = change

    target = ChannelTarget(
        served(new_server(), lambda channel: MutatingChannel(channel, relist, reader_is_check=True)), timeouts=scaled(WAITS)
    )
    outcome = run(of_server(target, revisions=["2025-11-25"], wanted={"TL-03"}))
    assert "passed" in {verdict.outcome for verdict in outcome.of("TL-03")}


def test_the_wait_for_a_silent_server_is_bounded():
    @asynccontextmanager
    async def silent():
        ours, theirs = memory_pair()
        yield ours
        await theirs.close()

    outcome = run(of_server(ChannelTarget(silent, timeouts=IMPATIENT)))
    assert outcome.revisions == []
    assert set(outcome.not_spoken) == set(ALL)
    assert {verdict.outcome for verdict in outcome.verdicts} == {"skipped"}


def test_a_command_that_cannot_be_started_is_an_error():
    with pytest.raises(StartFailed):
        run(of_server(CommandTarget(ServerCommand(["/nowhere/to/be/found"]), timeouts=IMPATIENT)))


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1], "a") as file:
    print(os.getpid(), grandchild.pid, file=file)
sys.stdin.readline()
print("what?", flush=True)
while True:
    time.sleep(1)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks the system about processes by their number")
def test_a_server_that_refuses_to_exit_is_killed(tmp_path):
    pids = tmp_path / "pids"
    timeouts = ProbeTimeouts(start=2, response=2, grace=0.02, exit=0.5, step=0.5)
    target = CommandTarget(ServerCommand([sys.executable, "-c", STUBBORN, str(pids)]), timeouts=timeouts)
    run(of_server(target, revisions=["2025-11-25"]))
    numbers = pids.read_text(encoding="utf-8").split()
    assert numbers
    assert [number for number in numbers if lives(number)] == []


def lives(pid: str) -> bool:
    """Whether a process runs; one that is dead and waits for its parent to notice does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def test_a_cancelled_check_closes_its_conversations():
    async def scene():
        target = ChannelTarget(served(new_server()), timeouts=IMPATIENT)
        checking = asyncio.create_task(check_server(target))
        while not target.conversations:
            await asyncio.sleep(0)
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
        return all(talk.is_over for talk in target.conversations)

    assert run(scene())


@pytest.mark.parametrize("is_alive", [True, False])
def test_silence_fails_if_other_requests_are_answered(is_alive):
    def pass_over(wire):
        received = []

        def hear(line):
            if b"no-such" in line:
                received.append(line)
            return b"" if b"no-such" in line or (received and not is_alive) else None

        wire.to_subject = hear

    target = ChannelTarget(
        served(new_server(), lambda channel: MutatingChannel(channel, pass_over, reader_is_check=True)), timeouts=IMPATIENT
    )
    outcome = run(of_server(target, revisions=["2026-07-28"], wanted={"TL-04"}))
    (found,) = outcome.of("TL-04")
    assert found.outcome == ("failed" if is_alive else "skipped")
    assert "no response" in found.why
