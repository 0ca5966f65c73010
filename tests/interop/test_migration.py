"""Migrated servers send the same messages as before, except for the differences listed on the pages about migration.

Each of the six servers under ``migration/`` exists twice: as written for another library, and with the edits of its page applied.
Our client uses the first through ``twopipes tap``, and the recording is replayed against the second.
"""

import asyncio
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from interop.harness import NET, connected, python_of
from interop.migration import conversations, pages
from interop.migration.conversations import Script, answering, converse
from interop.migration.tolerances import FASTMCP, OFFICIAL, Exchange, Tolerance, compared
from twopipes import CallResult
from twopipes._cli.replay_run import ReplayTimeouts, run_replay
from twopipes._cli.server_options import ServerTarget
from twopipes._process.command import ServerCommand
from twopipes._tools.replay.script import Replay
from twopipes._trace.conversation import Call, read_conversation
from twopipes._trace.matching import Ignoring, differences
from twopipes._trace.message import Message
from twopipes.trace import read

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks in /proc for leftover processes")

HERE = Path(__file__).parent / "migration"
FROM_FASTMCP, _ = pages.PAGES


class Migrated(NamedTuple):
    """A server: its old environment, its eras, the script of the client, and the differences it may have."""

    name: str
    peer: str
    eras: tuple[str, ...]
    script: Script
    tolerances: dict[str, Tolerance]

    def before(self) -> list[str]:
        return [python_of(self.peer), str(HERE / self.name / "before.py")]

    def after(self) -> list[str]:
        return [sys.executable, str(HERE / self.name / "after.py")]


EVERYWHERE = ("modern", "legacy")
SERVERS = {
    "fastmcp_notes": Migrated("fastmcp_notes", "fastmcp-4", EVERYWHERE, conversations.NOTES, FASTMCP),
    "fastmcp_weather": Migrated("fastmcp_weather", "fastmcp-4", EVERYWHERE, conversations.WEATHER, FASTMCP),
    "fastmcp_todo": Migrated("fastmcp_todo", "fastmcp-4", EVERYWHERE, conversations.TODO, FASTMCP),
    "official_2_bookshop": Migrated("official_2_bookshop", "official-2", EVERYWHERE, conversations.BOOKSHOP, OFFICIAL),
    "official_1_ledger": Migrated("official_1_ledger", "official-1", ("legacy",), conversations.LEDGER, OFFICIAL),
    "official_1_documents": Migrated("official_1_documents", "official-1", ("legacy",), conversations.DOCUMENTS, OFFICIAL),
}


# The messages before and after


def record(server: Migrated, era: str, script: Script, recording: Path) -> None:
    """Record a conversation with a server before its migration."""
    tap = [sys.executable, "-m", "twopipes", "tap", "--quiet", "-o", str(recording), "--", *server.before()]

    async def conversation() -> None:
        async with connected(tap, era=era, **answering(script)) as connection:
            await converse(connection.client, script)

    asyncio.run(conversation())


def replayed(recording: Path, server: Migrated) -> Replay:
    """Send the client's part of a recording again to the migrated server."""
    trace = read(recording)
    conversation = read_conversation(trace, trace.header)
    replay = Replay(conversation, conversation.connections[0])
    asyncio.run(asyncio.wait_for(run_replay(replay, ServerTarget(ServerCommand(server.after())), ReplayTimeouts(NET / 2)), NET))
    assert not replay.not_sent
    assert not replay.additional
    assert not replay.noise
    return replay


@cache
def exchanges(name: str, era: str) -> list[Exchange]:
    """Return each message that the server sent before, with the message that it sends now."""
    server = SERVERS[name]
    with TemporaryDirectory() as folder:
        recording = Path(folder, "before.jsonl")
        record(server, era, server.script, recording)
        replay = replayed(recording, server)

    def exchange(what: str, method: str, call: Call | None, before: Any, after: Any) -> Exchange:
        return Exchange(what, method, {} if call is None else params_of(call.request), before, after, era == "modern")

    found = []
    for call in replay.connection.calls:
        live = replay.partners.get(call)
        assert live is not None, f"{call} was not sent again"
        about = {name: value for name, value in params_of(call.request).items() if name != "_meta"}
        what = f"{call.method} {about}"
        if call.direction == "<":
            found.append(exchange(f"the question {what}", call.method, None, params_of(call.request), params_of(live.request)))
            continue
        found.append(exchange(what, call.method, call, answer_to(call), answer_to(live)))
    notifications = [
        [
            (message.method, params_of(message))
            for message in messages
            if message.direction == "<" and message.shape == "notification" and message.method != "notifications/progress"
        ]
        for messages in (replay.recorded.messages, replay.live.messages)
    ]
    found.append(exchange("all other notifications", "notifications", None, *notifications))
    return found


def params_of(message: Message) -> dict[str, Any]:
    return message.params if isinstance(message.params, dict) else {}


def without_token(report: Message) -> dict[str, Any]:
    return {name: value for name, value in params_of(report).items() if name != "progressToken"}


def answer_to(call: Call) -> Any:
    """Return a response without the parts that change each time: the state of a call that asks, and the names of its questions."""
    assert call.answer is not None
    progress = [without_token(report) for report in call.progress]
    if call.answer.shape == "error":
        return {"progress": progress, "error": call.answer.error}
    result = call.answer.result
    if "inputRequests" in result:
        result = {**result, "requestState": "made up", "inputRequests": list(result["inputRequests"].values())}
    return {"progress": progress, "result": result}


def left_over(name: str, era: str) -> list[Exchange]:
    """Return the differences that are not tolerated."""
    left = [compared(exchange, SERVERS[name].tolerances)[0] for exchange in exchanges(name, era)]
    return [exchange for exchange in left if exchange.before != exchange.after]


def difference(exchange: Exchange) -> str:
    found = differences(exchange.before, exchange.after, Ignoring())
    return "\n".join([exchange.what, *(f"  {each.path}\n    before  {each.recorded}\n    after   {each.live}" for each in found)])


@pytest.mark.interop
@on_linux
class TestServers:
    @pytest.mark.parametrize(("name", "era"), [(name, era) for name, server in SERVERS.items() for era in server.eras])
    def test_a_server_sends_the_same_after_its_migration(self, name, era):
        left = left_over(name, era)
        assert not left, "\n\n".join(map(difference, left))

    @pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
    def test_each_tolerance_is_a_row_of_the_page_and_is_used(self, page):
        servers = [SERVERS[name] for name in pages.PAGES[page]]
        rows = [row[0] for row in pages.rows_on(page, "What differs on the wire")]
        used = {
            row
            for server in servers
            for era in server.eras
            for exchange in exchanges(server.name, era)
            for row in compared(exchange, server.tolerances)[1]
        }
        assert sorted(rows) == sorted(servers[0].tolerances) == sorted(used)

    def test_the_commands_of_the_page_print_what_it_shows(self, tmp_path):
        server = SERVERS["fastmcp_notes"]
        one_call = Script(calls=[("find_notes", {"word": "shopping", "limit": 1})])
        record(server, "legacy", one_call, tmp_path / "before.jsonl")
        (tmp_path / "after.py").write_text((HERE / server.name / "after.py").read_text())
        steps = shown_on(FROM_FASTMCP)
        assert len(steps) == 2
        for command, shown in steps:
            words = [sys.executable if word == "python" else word for word in shlex.split(command.replace("\\\n", ""))]
            asked = [sys.executable, "-m", *words]
            done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path, timeout=NET, check=False)
            assert done.stdout == shown, done.stderr


@on_linux
@pytest.mark.parametrize("name", SERVERS)
def test_the_migrated_server_gives_the_same_in_both_eras(name):
    """This includes questions, which most of them could not ask on the stateless wire before."""

    async def conversation(era: str) -> dict[str, Any]:
        script = SERVERS[name].script
        async with connected(SERVERS[name].after(), era=era, **answering(script)) as connection:
            return await converse(connection.client, script)

    def plain(outcome: Any) -> Any:
        return (outcome.is_error, outcome.content) if isinstance(outcome, CallResult) else outcome.code

    legacy, modern = (asyncio.run(conversation(era)) for era in ("legacy", "modern"))
    assert {call: plain(outcome) for call, outcome in modern.items()} == {call: plain(outcome) for call, outcome in legacy.items()}


# The pages


def shown_on(page: Path) -> list[tuple[str, str]]:
    """Return the commands of a page, each with its output."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [step for block in blocks for step in re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_the_page_shows_the_edits_that_were_made(page):
    shown = pages.diffs_on(page)
    assert tuple(shown) == pages.PAGES[page]
    for name, diff in shown.items():
        assert diff == pages.diff_of(name), f"{page.name} is out of date; run: python tests/interop/migration/pages.py"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_every_removed_or_added_name_is_in_the_table(page):
    rows = pages.rows_on(page, "Names")
    theirs, ours = ("\n".join(row[column] for row in rows) for column in (0, 1))
    for server in pages.PAGES[page]:
        before, after = (pages.names_used(server, when) for when in ("before", "after"))
        assert [name for name in sorted(before - after) if not is_in(theirs, name)] == []
        assert [name for name in sorted(after - before) if not is_in(ours, name)] == []


def is_in(column: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", column) is not None
