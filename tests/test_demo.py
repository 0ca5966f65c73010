"""``make demo``, as a newcomer runs it: in a terminal, and into a pipe."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from processes.launching import ENVIRONMENT, NET
from twopipes._trace.conversation import read_conversation
from twopipes._trace.findings import judge
from twopipes.trace import Event, read

pytestmark = [
    pytest.mark.walkthrough,
    pytest.mark.skipif(sys.platform != "linux", reason="made of POSIX processes, and looks for them in /proc"),
]

DEMO = Path(__file__).parents[1] / "tools" / "demo.py"


def demo(folder, stdout=subprocess.PIPE):
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(folder / "state")}
    command = [sys.executable, DEMO]
    return subprocess.run(
        command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=NET, check=False
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Run the demo once into a pipe, from an empty folder; return its output and its folder."""
    folder = tmp_path_factory.mktemp("demo")
    done = demo(folder)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout, folder


def conversation(folder, name):
    trace = read(folder / "build" / "demo" / f"{name}.jsonl")
    return read_conversation(trace, trace.header)


def events(folder, name, kind):
    return [entry for entry in conversation(folder, name).items if isinstance(entry, Event) and entry.name == kind]


def test_the_output_in_a_pipe_is_plain_text(played):
    said, _ = played
    assert "\x1b" not in said
    assert "initialize #1 2025-11-25" in said
    assert "asks: Where does the journey go, and when?" in said  # stateless: the result of the call
    assert "elicitation/create" in said  # in a session: a request from the server
    assert "progress 3 of 3 the observatory has answered" in said
    assert "! forecast for Lisbon requested" in said  # printed by the tool, not a message


def test_the_server_is_killed_three_times_and_safe_calls_are_sent_again(played):
    """SD-04, SD-05."""
    said, folder = played
    assert [event.signal for event in events(folder, "stateless", "exit")] == ["SIGKILL"] * 3 + [None]
    assert len(events(folder, "stateless", "spawn")) == 4
    calls = [call for call in conversation(folder, "stateless").calls if call.method == "tools/call"]
    by_name = {name: [call for call in calls if call.request.params["name"] == name] for name in ("forecast", "advise", "book")}
    assert [call.answer is not None for call in by_name["forecast"]] == [False, True, True]
    assert [call.answer is not None for call in by_name["book"]] == [False]
    assert "ServerExited: signal=SIGKILL, method=tools/call, retryable=False" in " ".join(said.split())
    # ST-03: a question of one process is answered to the next.
    assert [call.connection.number for call in by_name["advise"]][-2:] == [1, 2]
    assert said.count("For Oslo in winter: a coat.") == 3


@pytest.mark.parametrize("name", ["session", "stateless"])
def test_no_rule_is_broken(played, name):
    assert list(judge(conversation(played[1], name))) == []


def test_only_recordings_and_pages_remain(played):
    said, folder = played
    kept = {f"build/demo/{name}" for name in ("session.jsonl", "session.html", "stateless.jsonl", "stateless.html")}
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == kept
    for page in re.findall(r"build/demo/\w+\.html", said):
        assert (folder / page).read_text(encoding="utf-8").startswith("<!doctype html>")
    for event in (*events(folder, "session", "spawn"), *events(folder, "stateless", "spawn")):
        command = Path(f"/proc/{event.pid}/cmdline")
        assert not command.exists() or b"weather.py" not in command.read_bytes()


def test_a_terminal_gets_colours_and_lines_that_fit_its_width(played):
    from processes.terminals import Person  # noqa: PLC0415 - POSIX alone

    _, folder = played  # the folder of the run before
    environment = {**ENVIRONMENT, "XDG_STATE_HOME": str(folder / "state")}
    environment.pop("NO_COLOR", None)
    person = Person([sys.executable, str(DEMO)], env=environment, cwd=folder)
    try:
        assert person.exit_code() == 0
    finally:
        person.dispose()
    assert "\x1b[1m" in person.seen
    plain = re.sub(r"\x1b\[[\d;]*m", "", person.seen)
    assert "\x1b" not in plain
    wire = [line for line in plain.splitlines() if re.match(r"\s+\d+\.\d{3} ", line)]
    assert wire
    assert max(map(len, wire)) <= 120
    assert len(list((folder / "build" / "demo").iterdir())) == 4


def test_a_closed_output_pipe_is_not_an_error(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = demo(tmp_path, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "build").write_text("in the way")
    done = demo(tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
