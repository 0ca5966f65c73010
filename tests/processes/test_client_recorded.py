"""The input of a real child from a client: every line, EOF, and signals (FR-07, FR-08, SD-01, SD-06, DE-06).

The child writes each line to a file before it responds, so the file is complete whatever happens next.
"""

import json
import sys
import textwrap

import pytest

from fake_server import scene
from twopipes import RestartPolicy, ServerExited, ShutdownPlan, Timeouts, connect
from twopipes._process.shutdown import CloseStdin, Signal, Wait
from twopipes.types import ClientOptions, EraCache

CHILD = """
import json, os, signal, sys, time

modern = "legacy" not in sys.argv
record = open(sys.argv[1], "a")

def note(what):
    record.write(what + "\\n")
    record.flush()

def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def ended(number, frame):
    note("SIGTERM")
    if "stubborn" not in sys.argv:
        os._exit(0)

signal.signal(signal.SIGTERM, ended)
note("START")
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public"}
INITIALIZED = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
for line in sys.stdin:
    note(line.rstrip("\\n"))
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "server/discover":
        if "dies" in sys.argv:
            sys.exit(3)
        answer = {"result": DISCOVERED} if modern else {"error": {"code": -32601, "message": "no"}}
    elif method == "initialize":
        answer = {"result": INITIALIZED}
    else:
        name = message["params"]["name"]
        if name == "loud":
            sys.stderr.write("ERROR: " + "all is lost " * 100_000 + "\\n")
            sys.stderr.flush()
        if name == "die":
            sys.exit(3)
        answer = {"result": {"resultType": "complete", "content": [{"type": "text", "text": os.environ.get("TOKEN", name)}]}}
    say({"id": message["id"], **answer})
note("EOF")
while "deaf" in sys.argv or "stubborn" in sys.argv:
    time.sleep(0.01)
"""
# These timeouts only expire for a child that never ends.
PATIENT = {"timeouts": Timeouts(connect=60, probe=60, request=60, shutdown=60), "restart": RestartPolicy(when="never")}
FIRM = ShutdownPlan((CloseStdin(), Wait(0.05), Signal(15), Wait(60), Signal(9)))
FIERCE = ShutdownPlan((CloseStdin(), Wait(0.05), Signal(15), Wait(0.05), Signal(9)))


class Recorded:
    """A child to connect to, and its notes."""

    def __init__(self, folder):
        self.path = folder / "record"
        self.program = folder / "child.py"
        self.program.write_text(textwrap.dedent(CHILD))

    def connect(self, *arguments, **options):
        command = [sys.executable, "-S", str(self.program), str(self.path), *arguments]
        return connect(command, **{**PATIENT, "options": ClientOptions(era_cache=EraCache()), **options})

    @property
    def notes(self):
        """Return the lines; messages only by their method."""
        return [json.loads(line)["method"] if line.startswith("{") else line for line in self.path.read_text().splitlines()]


@pytest.fixture
def recorded(tmp_path):
    return Recorded(tmp_path)


@scene
async def test_a_megabyte_on_stderr_is_not_a_failure_and_blocks_nothing(recorded):
    """FR-07, FR-08: drained, kept in part, passed on; the word ERROR in it has no effect."""
    lines = []
    async with recorded.connect(on_stderr=lines.append) as client:
        assert (await client.call_tool("loud")).text == "loud"
        assert not (await client.call_tool("again")).is_error
    assert lines[0].text.startswith("ERROR: all is lost")
    assert client.closed.ended_by == "eof"


@scene
async def test_credentials_are_passed_in_the_environment(recorded):
    """FR-16: nothing about them on the wire."""
    async with recorded.connect(env={"TOKEN": "s3cret"}) as client:
        assert (await client.call_tool("x")).text == "s3cret"
    assert "s3cret" not in recorded.path.read_text()


@pytest.mark.parametrize("era", ["modern", "legacy"])
@scene
async def test_a_polite_child_gets_eof_and_no_signal(recorded, era):
    """SD-01: no message, no signal."""
    async with recorded.connect(*(["legacy"] if era == "legacy" else [])) as client:
        await client.call_tool("x")
    assert recorded.notes[-2:] == ["tools/call", "EOF"]
    assert client.closed.ended_by == "eof"


@pytest.mark.parametrize(
    ("kind", "plan", "ended_by", "steps"),
    [
        ("deaf", FIRM, "SIGTERM", ["close stdin", "SIGTERM"]),
        ("stubborn", FIERCE, "SIGKILL", ["close stdin", "SIGTERM", "SIGKILL"]),
    ],
    ids=["deaf", "stubborn"],
)
@scene
async def test_a_child_that_ignores_eof_gets_sigterm_and_then_sigkill(recorded, kind, plan, ended_by, steps):
    """SD-01: in this order."""
    async with recorded.connect(kind, shutdown=plan) as client:
        await client.call_tool("x")
    # The number of notes depends on the machine, but the order of the steps does not.
    assert [str(taken.step) for taken in client.closed.steps if not isinstance(taken.step, Wait)] == steps
    assert client.closed.ended_by == ended_by
    assert recorded.notes[-1] == "SIGTERM" or kind == "stubborn"


@scene
async def test_a_child_that_exits_on_the_probe_is_replaced_by_one_without_a_probe(recorded):
    """DE-06."""
    async with recorded.connect("legacy", "dies") as client:
        assert client.era == "legacy"
        await client.call_tool("x")
    handshake = ["START", "initialize", "notifications/initialized", "tools/call", "EOF"]
    assert recorded.notes == ["START", "server/discover", *handshake]


@scene
async def test_the_error_for_a_child_that_exits_in_a_call_shows_its_output(recorded):
    """SD-03, SD-05, ER-16: and a restarted one gets a new opening (SD-04, SD-06)."""
    async with recorded.connect(restart=RestartPolicy(first_delay=0.0)) as client:
        with pytest.raises(ServerExited) as died:
            await client.call_tool("die")
        assert (died.value.exit_code, died.value.method, died.value.phase) == (3, "tools/call", "serving")
        await client.call_tool("x")
    assert recorded.notes == ["START", "server/discover", "tools/call", "START", "server/discover", "tools/call", "EOF"]
