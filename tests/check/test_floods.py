"""Reading from a peer that floods is bounded: nothing hangs, and memory is limited."""

import sys

import pytest

from check.runs import of_client, of_server, run
from twopipes._process.command import ServerCommand
from twopipes._tools.check import line_reader as intake
from twopipes._tools.check.client_run import CommandDriver
from twopipes._tools.check.line_reader import LineReader
from twopipes._tools.check.messages import ProbeTimeouts
from twopipes._tools.check.scenario import ScenarioTimeouts
from twopipes._tools.check.server_source import CommandTarget

MODERN = "2026-07-28"
WAITS = ProbeTimeouts(start=60, response=60, grace=0.02, exit=2, step=2)
FLOODS = {
    "lines": "import os\nwhile True: os.write(1, b'y\\n' * 30000)",
    "one line": "import os\nwhile True: os.write(1, b'y' * 60000)",
}
# A client that never stops to ask, whatever its server says.
DELUGE = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
try:
    while True:
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/nothing"}\\n' * 1000)
except OSError:
    pass
"""


@pytest.mark.parametrize("flood", FLOODS)
def test_reading_from_a_server_that_floods_is_bounded(flood, monkeypatch):
    monkeypatch.setattr(intake, "MOST_BYTES", 1024 * 1024)
    target = CommandTarget(ServerCommand([sys.executable, "-c", FLOODS[flood]]), timeouts=WAITS)
    outcome = run(of_server(target, revisions=[MODERN]))
    assert outcome.revisions == []
    assert "which is the limit of the check" in outcome.not_spoken[MODERN]
    # What never ends may still become a message; lines are noise.
    assert {verdict.rule.id for verdict in outcome.failures} == ({"FR-04"} if flood == "lines" else set())
    assert len(target.conversations) == 1


def test_reading_from_a_client_that_floods_is_bounded():
    driver = CommandDriver([sys.executable, "-c", DELUGE, "{server}"])
    outcome = run(of_client(driver, revisions=[MODERN], timeouts=ScenarioTimeouts(client=600, stimulus=600, grace=0.02, step=2)))
    assert outcome.revisions == []


def test_lines_are_split_exactly_and_the_rest_is_kept():
    taken = LineReader()
    assert taken.feed(b"one\ntw") == [b"one"]
    assert taken.feed(b"o") == []
    assert taken.feed(b"\r\n\nthr") == [b"two\r", b""]
    assert taken.rest == b"thr"
    assert not taken.limit_reached
