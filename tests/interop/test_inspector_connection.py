"""The Inspector's other command line, ``mcpdo``, which keeps a connection in a daemon: it can answer questions and cancel calls.

As in ``test_everything.py`` the tour is run once in each era, and each test checks one part of it.
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop.harness import (
    BY_ITSELF,
    EVERYTHING,
    MARK,
    NET,
    Launch,
    Line,
    marked,
    node,
    peer,
    run_client,
    traces,
    tracing,
    witnessed,
)
from interop.test_everything import FIRST, REVIEW, TOOLS, inspector, text
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform != "linux", reason="the wire is a FIFO, and leftover processes are looked for in /proc"),
]

REVISIONS = {"legacy": LATEST_LEGACY, "auto": LATEST_MODERN, "modern": LATEST_MODERN}
# An endless call that reports each step, because its metadata has a token: the wire shows that it runs, and when it stops.
ENDLESS = ("tools/call", "slow", "steps:=1000000", "seconds:=0.01", "--metadata")


# Reading the wire


class Wire:
    """The messages of a server as they are sent: the reader of a FIFO that the server writes its trace to."""

    def __init__(self, fifo: Path) -> None:
        os.mkfifo(fifo)
        self.fifo = fifo
        self.lines: list[Line] = []
        self._news = threading.Condition()
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(reader, True)
        # A writer of our own, so that the reader gets no EOF between two servers.
        self._writer = os.open(fifo, os.O_WRONLY)
        self._thread = threading.Thread(target=self._read, args=(reader,), daemon=True)
        self._thread.start()

    def _read(self, reader: int) -> None:
        with open(reader, "rb") as stream:
            for line in stream:
                entry = json.loads(line)
                if "line" not in entry:
                    continue  # the header, or an event
                with self._news:
                    self.lines.append(Line(entry["kind"], json.loads(entry["line"])))
                    self._news.notify_all()

    def wait_for(self, wanted: Callable[[Line], bool], *, since: int = 0) -> Line:
        """Return the first matching line; wait for it if it has not been sent yet."""
        with self._news:
            found = self._news.wait_for(lambda: [line for line in self.lines[since:] if wanted(line)], NET)
            assert found, self.lines[-5:]
            return found[0]

    def close(self) -> None:
        """Stop reading, once every server has exited."""
        os.close(self._writer)
        self._thread.join(NET)
        assert not self._thread.is_alive(), f"a process still writes to {self.fifo}"


def is_call_of(tool: str, token: str | None) -> Callable[[Line], bool]:
    def is_call(line: Line) -> bool:
        params = line.message.get("params", {})
        called = line.message.get("method") == "tools/call" and params["name"] == tool
        return called and params.get("_meta", {}).get("progressToken") == token

    return is_call


def is_progress_of(token: str) -> Callable[[Line], bool]:
    def is_progress(line: Line) -> bool:
        return line.message.get("method") == "notifications/progress" and line.message["params"]["progressToken"] == token

    return is_progress


def cancels(request_id: Any) -> Callable[[Line], bool]:
    def is_cancel(line: Line) -> bool:
        heard = line.direction == ">" and line.message.get("method") == "notifications/cancelled"
        return heard and line.message["params"]["requestId"] == request_id

    return is_cancel


def answers(request_id: Any) -> Callable[[Line], bool]:
    def is_answer(line: Line) -> bool:
        return line.direction == "<" and "method" not in line.message and line.message.get("id") == request_id

    return is_answer


# The command line


class Done(NamedTuple):
    """The exit code, stdout and stderr of a command."""

    exit_code: int
    result: Any
    error: str


class CommandLine:
    """``mcpdo`` with its own home and daemon. The first command that needs the daemon starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{os.getpid()}.{folder.name}"
        program = (
            peer("npm") / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "mcpdo" / "build" / "mcp-bin.js"
        )
        # Only these: the settings of the user who runs the tests must not affect it.
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "MCP_INSPECTOR_DAEMON_DIR": str(folder),
            "MCP_INSPECTOR_SECRET_STORE": "file",
            MARK: self.mark,
        }
        settings = [f"{name}={value}" for name, value in self._environment.items()]
        self._program = ["env", "-i", *settings, node(), str(program)]

    def command(self, *arguments: str, output: str = "json") -> list[str]:
        return [*self._program, "--plain", "--format", output, *arguments]

    def run(self, *arguments: str) -> Done:
        done = run_client(self.command(*arguments), self.folder)
        return Done(done.returncode, json.loads(done.stdout) if done.stdout else None, (self.folder / "stderr").read_text())

    def result(self, *arguments: str) -> Any:
        done = self.run(*arguments)
        assert done.exit_code == 0, done
        return done.result

    def connect(self, era: str, server: list[str]) -> Any:
        connected = self.result("connect", "--connection", "tour", "--era", era, "--", *server)
        assert marked(self.mark), "the daemon does not run, or its environment cannot be read"
        return connected

    def call(self, *request: str) -> Any:
        return self.result("@tour", *request)

    def ask(self, *request: str) -> Any:
        """Send a request whose handler asks a question, and return the question."""
        (pending,) = self.call(*request).values()
        return pending

    def respond(self, pending: Any, *answer: str) -> Any:
        return self.result("elicitation/respond", pending["elicitationId"], *answer)

    def interrupted(self, wire: Wire, token: str, *, at_a_terminal: bool) -> int:
        """Call an endless tool, and press Ctrl-C once the tool is running."""
        ours, theirs = pty.openpty()
        request = self.command("@tour", *ENDLESS, f"progressToken={token}", output="text")
        with os.fdopen(theirs, "rb", buffering=0) as terminal, (self.folder / "stderr").open("wb") as stderr:
            stdin = terminal if at_a_terminal else subprocess.DEVNULL
            client = subprocess.Popen(request, stdin=stdin, stdout=subprocess.DEVNULL, stderr=stderr)
        try:
            wire.wait_for(is_progress_of(token))
            client.send_signal(signal.SIGINT)
            return client.wait(NET)
        finally:
            client.kill()
            client.wait()
            os.close(ours)


@contextmanager
def command_line(folder: Path) -> Iterator[CommandLine]:
    """Yield a command line, and check after the block that its daemon has stopped and exited."""
    line = CommandLine(folder)
    try:
        yield line
    finally:
        watched = [os.pidfd_open(process) for process in marked(line.mark)]
        try:
            stopped = line.run("daemon", "stop")
        finally:
            late = [process for process in watched if not has_ended(process)]
            for process in late:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
            for process in watched:
                os.close(process)
        assert not late, f"the daemon did not stop: {stopped}"
    assert not marked(line.mark)


def has_ended(process: int) -> bool:
    """Return whether a process that is not our child ends in time."""
    return bool(select.select([process], [], [], NET)[0])


# The tour


class Tour(NamedTuple):
    """The findings of the commands in an era, how the servers that the daemon launched ended, and the whole conversation."""

    era: str
    found: dict[str, Any]
    launches: list[Launch]
    wire: list[Line]

    @property
    def modern(self) -> bool:
        return REVISIONS[self.era] == LATEST_MODERN


def use_features(line: CommandLine) -> dict[str, Any]:
    return {
        "shown": line.call("connections/show"),
        "tools": line.call("tools/list"),
        "called": line.call("tools/call", "echo", "text:=h\u00e9llo"),
        "read": line.call("resources/read", "note://first"),
        "got": line.call("prompts/get", "review", "--prompt-args", "code=pass", "language=rust"),
    }


def answer_questions(line: CommandLine) -> dict[str, Any]:
    accepted = line.ask("tools/call", "ask")
    meanwhile = line.run("@tour", "tools/call", "echo", "text:=hello")
    found = {"question": accepted, "meanwhile": meanwhile, "accepted": line.respond(accepted, "name:=Ada", "age:=36")}
    found["declined"] = line.respond(line.ask("tools/call", "ask"), "--decline")
    found["cancelled"] = line.respond(line.ask("tools/call", "ask"), "--cancel")
    found["page"] = line.ask("tools/call", "ask_url")
    found["visited"] = line.respond(found["page"], "--done")
    (found["second question"],) = line.respond(line.ask("tools/call", "ask_twice"), "name:=Ada", "age:=36").values()
    found["asked twice"] = line.respond(found["second question"], '{"favourite": "green", "others": ["red"]}')
    return found


def interrupt_calls(line: CommandLine, wire: Wire) -> dict[str, Any]:
    found: dict[str, Any] = {"at a terminal": line.interrupted(wire, "wanted", at_a_terminal=True)}
    call = wire.wait_for(is_call_of("slow", "wanted"))
    wire.wait_for(cancels(call.message["id"]))
    found["afterwards"] = line.call("tools/call", "echo", "text:=still here")
    # Without a terminal the daemon continues the call, and the next request would wait for it, so this is the last one.
    found["in a script"] = line.interrupted(wire, "unwanted", at_a_terminal=False)
    found["complaint"] = (line.folder / "stderr").read_text()
    wire.wait_for(is_progress_of("unwanted"), since=len(wire.lines))
    return found


@pytest.fixture(scope="module", params=list(REVISIONS))
def tour(request, tmp_path_factory) -> Tour:
    # A short name: the length of a socket path is limited.
    folder = tmp_path_factory.mktemp("do")
    wire = Wire(folder / "wire")

    def run(server: list[str]) -> dict[str, Any]:
        with command_line(folder) as line:
            found = {"connected": line.connect(request.param, server), **use_features(line), **answer_questions(line)}
            found |= interrupt_calls(line, wire)
            found["disconnected"] = line.result("disconnect", "tour")
            found["left"] = line.result("connections/list")
            return found

    try:
        found, launches = witnessed(["env", f"TWOPIPES_TRACE={wire.fifo}", *EVERYTHING], run, folder=folder)
    finally:
        wire.close()
    return Tour(request.param, found, launches, wire.lines)


def test_a_connection_is_opened_in_the_chosen_era(tour):
    assert tour.found["connected"]["protocolEra"] == ("modern" if tour.modern else "legacy")
    assert tour.found["shown"]["protocolVersion"] == REVISIONS[tour.era]
    assert tour.found["shown"]["serverInfo"]["name"] == "everything"
    methods = [line.message.get("method") for line in tour.wire]
    assert ("initialize" in methods, "server/discover" in methods) == (not tour.modern, tour.modern)


def test_a_connection_lists_calls_reads_and_gets(tour):
    assert [tool["name"] for tool in tour.found["tools"]["tools"]] == TOOLS
    assert tour.found["called"]["content"] == text("h\u00e9llo")
    assert tour.found["read"]["contents"] == [FIRST]
    assert tour.found["got"]["messages"] == REVIEW


def test_a_question_waits_in_the_daemon_until_it_is_accepted(tour):
    question = tour.found["question"]
    assert (question["toolName"], question["mode"], question["message"]) == ("ask", "form", "Who are you?")
    assert question["requestedSchema"]["required"] == ["name", "age"]
    assert tour.found["meanwhile"].exit_code == 1
    assert json.loads(tour.found["meanwhile"].error)["error"]["code"] == "elicitation_pending"
    assert tour.found["accepted"]["content"] == text("Ada is 36")


def test_a_question_is_declined_and_cancelled(tour):
    assert tour.found["declined"]["content"] == text("the user said decline")
    assert tour.found["cancelled"]["content"] == text("the user said cancel")


def test_a_url_is_opened(tour):
    page = tour.found["page"]
    assert (page["mode"], page["message"], page["url"]) == ("url", "Please log in.", "https://login.example/start")
    assert tour.found["visited"]["content"] == text("accept")


def test_a_second_question_follows_the_first(tour):
    assert tour.found["second question"]["message"] == "What do you like, Ada?"
    assert tour.found["asked twice"]["content"] == text("Ada likes green")


def test_questions_are_sent_as_the_era_requires(tour):
    said = [line.message for line in tour.wire if line.direction == "<"]
    requests = [message for message in said if message.get("method") == "elicitation/create"]
    unfinished = [message for message in said if message.get("result", {}).get("resultType") == "input_required"]
    assert (len(requests), len(unfinished)) == ((0, 6) if tour.modern else (6, 0))


def test_a_call_interrupted_at_a_terminal_is_cancelled(tour):
    assert tour.found["at a terminal"] == 1
    (call,) = filter(is_call_of("slow", "wanted"), tour.wire)
    (cancelled,) = filter(cancels(call.message["id"]), tour.wire)
    assert cancelled.message["params"]["reason"] == "Tool call cancelled by user"
    assert not list(filter(answers(call.message["id"]), tour.wire))
    # The tool ran until then, and not a step longer.
    heard = tour.wire.index(cancelled)
    assert list(filter(is_progress_of("wanted"), tour.wire[:heard]))
    assert not list(filter(is_progress_of("wanted"), tour.wire[heard:]))
    assert tour.found["afterwards"]["content"] == text("still here")


def test_a_call_interrupted_in_a_script_continues_in_the_daemon(tour):
    """The command line reports the call as cancelled, but the tool runs until the connection is closed."""
    assert tour.found["in a script"] == 1
    assert "'rpc' cancelled" in tour.found["complaint"]
    (call,) = filter(is_call_of("slow", "unwanted"), tour.wire)
    reasons = [line.message["params"]["reason"] for line in filter(cancels(call.message["id"]), tour.wire)]
    # Closing notifies a modern server first; for one of the handshake era it only closes stdin.
    assert reasons == (["Error: Task-enabled session is closed"] if tour.modern else [])


def test_a_server_exits_when_its_connection_is_closed_during_a_call(tour):
    assert tour.found["disconnected"] == {"name": "tour"}
    assert tour.found["left"] == {"connections": []}
    (launch,) = tour.launches
    # A call that was not cancelled gets some time, more than the Inspector gives the server; it exits cleanly either way.
    assert launch == BY_ITSELF or (launch == Launch(exit_code=0, signals=("SIGTERM",)) and not tour.modern)


# Questions without an answer


@pytest.mark.parametrize("era", list(REVISIONS))
def test_an_unanswered_question_is_dropped_with_its_connection(era, tmp_path_factory):
    folder = tmp_path_factory.mktemp("do")

    def run(server: list[str]) -> Any:
        with command_line(folder) as line:
            line.connect(era, server)
            question = line.ask("tools/call", "ask")
            # The same name again replaces the first connection.
            line.connect(era, server)
            late = line.run("elicitation/respond", question["elicitationId"], "name:=Ada", "age:=36")
            assert (late.exit_code, json.loads(late.error)["error"]["code"]) == (1, "elicitation_not_found")
            # The daemon closes the second connection when it is stopped.
            return line.call("tools/call", "echo", "text:=still here")

    result, launches = witnessed(tracing(EVERYTHING, folder / "wire"), run, folder=folder)
    assert result["content"] == text("still here")
    assert launches == [BY_ITSELF, BY_ITSELF]
    (wire,) = [lines for lines in traces(folder / "wire") if any(is_call_of("ask", None)(line) for line in lines)]
    (call,) = filter(is_call_of("ask", None), wire)
    request_id = call.message["id"]
    cancellations = list(filter(cancels(request_id), wire))
    answered = list(filter(answers(request_id), wire))
    # In the modern era the question was the response, so there is nothing to cancel.
    assert (len(cancellations), len(answered)) == ((0, 1) if REVISIONS[era] == LATEST_MODERN else (1, 0))


# The one-shot command line


@pytest.fixture(scope="module")
def timed_out(tmp_path_factory) -> dict[str, tuple[Any, list[Launch], list[Line]]]:
    """An endless call in each era, all at once: ``--cli`` waits a minute for it, and has no option to change that."""

    def wait_a_minute(era: str) -> tuple[Any, list[Launch], list[Line]]:
        folder = tmp_path_factory.mktemp("cli")
        request = ("--method", "tools/call", "--tool-name", "slow", "--tool-arg", "steps=1000000", "seconds=0.25")
        reports = ("--metadata", f"progressToken={era}")

        def run(server: list[str]) -> subprocess.CompletedProcess[bytes]:
            command = inspector(server, ("--protocol-era", era), *request, *reports)
            with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
                return subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, timeout=60 + NET, check=False
                )

        done, launches = witnessed(tracing(EVERYTHING, folder / "wire"), run, folder=folder)
        assert (done.returncode, (folder / "stdout").read_bytes()) == (1, b"")
        (wire,) = traces(folder / "wire")
        return json.loads((folder / "stderr").read_bytes())["error"], launches, wire

    with ThreadPoolExecutor() as threads:
        return dict(zip(REVISIONS, threads.map(wait_a_minute, REVISIONS), strict=True))


@pytest.mark.parametrize("era", list(REVISIONS))
def test_the_one_shot_command_line_cancels_a_call_after_a_minute(era, timed_out):
    error, launches, wire = timed_out[era]
    assert error["cause"] == "Request timed out"
    (call,) = filter(is_call_of("slow", era), wire)
    (cancelled,) = filter(cancels(call.message["id"]), wire)
    assert cancelled.message["params"]["reason"] == "SdkError: Request timed out"
    assert not list(filter(answers(call.message["id"]), wire))
    heard = wire.index(cancelled)
    assert list(filter(is_progress_of(era), wire[:heard]))
    assert not list(filter(is_progress_of(era), wire[heard:]))
    assert launches == [BY_ITSELF]
