"""`twopipes replay` as a process: recordings of a real server, replayed to it, to a changed one and to broken ones."""

import asyncio
import json
import os
import re
import signal
import sys

import pytest

from processes.children import is_running
from processes.launching import NET, call, request
from processes.recordings import EVERYTHING, EXAMPLES, handshake, record, trace_of
from twopipes._protocol.revisions import ALL

REPLAY = [sys.executable, "-m", "twopipes", "replay"]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A recording of examples/everything.py in each revision."""
    folder = tmp_path_factory.mktemp("recordings")

    async def make():
        async with asyncio.timeout(NET):
            await asyncio.gather(*(record(folder / f"{revision}.jsonl", EVERYTHING, revision) for revision in ALL))

    asyncio.run(make())
    return folder


@pytest.fixture
def replay(run, tmp_path):
    def replay(recording, *arguments):
        # The folder of the server's key: neither the key of the recording nor the user's own.
        state = [] if {"--unix", "--tcp"} & set(arguments) else ["--env", f"XDG_STATE_HOME={tmp_path / 'other state'}"]
        done = run([*REPLAY, str(recording), *state, *map(str, arguments)])
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return replay


@pytest.fixture
def found(replay):
    """Return the exit code and the JSON report of a replay."""

    def found(*arguments):
        code, out, err = replay(arguments[0], "--format", "json", *arguments[1:])
        assert code in (0, 1), err
        return code, json.loads(out)

    return found


@pytest.mark.parametrize("revision", ALL)
def test_the_same_server_shows_no_difference(replay, recordings, revision):
    """This includes a server with another key, whose sealed states differ from the recorded ones."""
    code, out, err = replay(recordings / f"{revision}.jsonl", "--", *EVERYTHING)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"No difference: (\d+) of \1 requests sent, (\d+) of \2 responses the same\.\n", out)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_changed_server_is_detected(found, recordings, write, revision):
    text = (EXAMPLES / "everything.py").read_text(encoding="utf-8")
    changed = write(
        text.replace("return a + b", "return a + b + 1")
        .replace("Echo", "Echoes")
        .replace("Who are you?", "Who goes there?")
        .replace('f"step {step}"', 'f"stage {step}"')
    )
    code, report = found(recordings / f"{revision}.jsonl", "--", sys.executable, changed)
    assert code == 1
    assert not report["same"]
    assert report["sent"] == report["requests"]
    by_subject = {re.sub(r" \(id .*", "", each["subject"]): each for each in report["findings"]}
    paths = {subject: [each["path"] for each in finding["differences"]] for subject, finding in by_subject.items()}
    assert paths["tools/call add"] == ["result.content.0.text", "result.structuredContent.result"]
    assert paths["tools/list"] == ["result.tools.0.title"]
    assert paths["notifications/progress of tools/call slow"] == ["params"] * 6
    question = by_subject["elicitation/create" if revision == "2025-11-25" else "tools/call ask"]
    assert question["differences"][0]["recorded"] == "Who are you?"
    assert question["differences"][0]["live"] == "Who goes there?"


def test_differences_are_shown_to_people(replay, recordings, write):
    text = (EXAMPLES / "everything.py").read_text(encoding="utf-8")
    changed = write(text.replace("return a + b", "return a * b"))
    code, out, _ = replay(recordings / "2025-11-25.jsonl", "--", sys.executable, changed)
    assert code == 1
    assert re.search(r"(?m)^tools/call add \(id \d+\): the response differs$", out)
    assert "  result.structuredContent.result\n    recorded  5\n    live      6\n" in out
    assert out.rstrip().endswith("responses the same.")


def test_members_can_be_left_out_of_the_comparison(replay, recordings, write):
    text = (EXAMPLES / "everything.py").read_text(encoding="utf-8")
    changed = write(text.replace("return a + b", "return a * b"))
    ignored = ["--ignore", "structuredContent", "--ignore", "result.content.0.text"]
    code, out, _ = replay(recordings / "2025-11-25.jsonl", *ignored, "--", sys.executable, changed)
    assert (code, out[:13]) == (0, "No difference")


@pytest.mark.parametrize("where", ["--unix", "--tcp"])
def test_a_server_that_listens(replay, recordings, listening, tmp_path, where):
    wanted = ("--unix", tmp_path / "s") if where == "--unix" else ("--tcp", "127.0.0.1:0")
    _, address = listening([sys.executable, "-m", "twopipes", "run", str(EXAMPLES / "everything.py"), *map(str, wanted)])
    place = address.removeprefix("unix:").removeprefix("tcp ")
    code, out, err = replay(recordings / "2025-11-25.jsonl", where, place)
    assert (code, err) == (0, "")
    assert out.startswith("No difference")


# Servers that misbehave

TWO_CALLS = [
    *handshake(),
    (">", call(1, "first")),
    ("<", {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}),
    (">", call(2, "second")),
    ("<", {"jsonrpc": "2.0", "id": 2, "result": {"content": []}}),
]
# Responds like the server above, as far as it gets.
SERVER = """
    import json, sys, time
    def say(**members):
        print(json.dumps({{"jsonrpc": "2.0", **members}}), flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == 0:
            info = {{"name": "s", "version": "1"}}
            say(id=0, result={{"protocolVersion": "2025-11-25", "capabilities": {{}}, "serverInfo": info}})
        elif "id" in message:
            {}
            say(id=message["id"], result={{"content": []}})
"""


@pytest.fixture
def two_calls(tmp_path):
    return trace_of(tmp_path / "two.jsonl", *TWO_CALLS)


@pytest.fixture
def server(write):
    return lambda body: [sys.executable, str(write(SERVER.format(body)))]


def test_the_server_of_these_tests_has_no_differences_by_itself(found, two_calls, server):
    assert found(two_calls, "--", *server("pass"))[0] == 0


def test_a_server_that_dies_in_the_middle(replay, found, two_calls, server):
    dying = server('if message["id"] == 1: print("out of memory", file=sys.stderr); sys.exit(3)')
    code, report = found(two_calls, "--", *dying)
    assert code == 1
    assert (report["requests"], report["sent"]) == (3, 2)
    assert report["ended"] == "it exited before the end of the replay: exit code 3"
    assert report["stderr"] == ["out of memory"]
    assert [(each["kind"], each["id"]) for each in report["findings"]] == [("no answer", 1)]
    code, out, _ = replay(two_calls, "--", *dying)
    assert code == 1
    assert "it exited before the end of the replay: exit code 3" in out
    assert "1 recorded request could not be sent" in out
    assert "    out of memory\n" in out


def test_a_server_that_hangs(found, two_calls, server):
    code, report = found(two_calls, "--timeout", "0.3", "--", *server("sys.stdin.read()"))
    assert code == 1
    assert [(each["kind"], each["id"]) for each in report["findings"]] == [("no answer", 1), ("no answer", 2)]
    assert report["ended"] is None or report["ended"].startswith("it stopped responding")


def test_a_server_that_pings_endlessly_and_never_reads_is_killed(found, two_calls, server):
    """Its pings and our responses are kept bounded, and the report does not count our kill as a difference."""
    code, report = found(two_calls, "--", *server("while True: say(id='p', method='ping')"))
    assert code == 1
    assert report["ended"] == "it sent far more messages than the recorded server"
    assert [(each["kind"], each["id"]) for each in report["findings"]] == [("no answer", 1)]


def test_a_server_that_skips_one_response(found, two_calls, server):
    code, report = found(two_calls, "--timeout", "0.3", "--", *server('if message["id"] == 1: continue'))
    assert code == 1
    assert [(each["kind"], each["id"]) for each in report["findings"]] == [("no answer", 1)]
    assert report["answers_same"] == 2


def test_the_wait_for_missing_notifications_happens_once(found, tmp_path, server):
    """Not as long as for a response, and not each time; the timeout of the test is the limit."""
    log = ("<", {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}})
    answers = [("<", {"jsonrpc": "2.0", "id": number, "result": {"content": []}}) for number in range(1, 101)]
    calls = [each for number in range(1, 101) for each in ((">", call(number, "first")), log, answers[number - 1])]
    trace = trace_of(tmp_path / "notifications.jsonl", *handshake(), *calls)
    code, report = found(trace, "--", *server("pass"))
    assert (code, report["answers_same"]) == (1, 101)
    assert [each["subject"] for each in report["findings"]] == ["notifications/message"]


def test_a_server_that_is_noisy(found, two_calls, server):
    code, report = found(two_calls, "--", *server('print("Working \\x1b[31m...", flush=True)'))
    assert code == 1
    (noise,) = report["findings"]
    assert (noise["kind"], noise["differences"][0]["live"]) == ("noise", "Working \x1b[31m...")
    assert noise["reason"] == "2 of them; the recording has none"
    assert report["answers_same"] == 3


def test_output_of_a_server_does_not_control_the_terminal(replay, two_calls, server):
    _, out, _ = replay(two_calls, "--", *server('print("Working \\x1b[31m...", flush=True)'))
    assert "\x1b" not in out
    assert "Working \\\\u001b[31m" in out or "Working \\u001b[31m" in out


def test_a_server_that_responds_twice(found, two_calls, server):
    code, report = found(two_calls, "--", *server('say(id=message["id"], result={"content": []})'))
    assert code == 1
    assert [(each["kind"], each["id"]) for each in report["findings"]] == [("additional answer", 1), ("additional answer", 2)]


def test_output_after_the_end_of_input_is_compared(found, tmp_path, write):
    trace = trace_of(
        tmp_path / "late.jsonl", (">", request(1, "tools/list")), ("=", ">"), ("<", {"jsonrpc": "2.0", "id": 1, "result": {}})
    )
    late = write('import sys\nsys.stdin.read()\nprint(\'{"jsonrpc":"2.0","id":1,"result":{}}\', flush=True)\n')
    assert found(trace, "--", sys.executable, late)[0] == 0


def test_a_response_that_is_too_deep_to_be_compared(replay, tmp_path, write):
    deep = []
    for _ in range(600):
        deep = [deep]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"deep": deep}}
    trace = trace_of(tmp_path / "deep.jsonl", (">", request(1, "tools/list")), ("<", answer))
    server = write(f"import sys\nsys.stdin.readline()\nprint({json.dumps(json.dumps(answer))}, flush=True)\nsys.stdin.read()\n")
    code, out, err = replay(trace, "--", sys.executable, server)
    assert (code, out) == (2, "")
    assert err == f"Error: cannot compare the responses with {trace}: one is nested too deeply\n"


def test_ctrl_c_ends_the_server_too(launch, listening_for_pid, two_calls):
    command, next_pid = listening_for_pid
    child = launch([*REPLAY, str(two_calls), "--", *command])
    pid = next_pid()
    child.signal(signal.SIGINT)
    assert child.wait() == 130
    assert "Traceback" not in child.complaints()
    assert not is_running(pid)


@pytest.fixture
def listening_for_pid(tmp_path, write):
    """A server that writes its pid into a pipe and never responds, and a function that waits for the pid."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    hanging = write(f"""
        import os, sys
        with open({str(pipe)!r}, "w") as file:
            file.write(str(os.getpid()))
        sys.stdin.read()
    """)
    return [sys.executable, str(hanging)], lambda: int(pipe.read_text())


# Recordings


def test_redacted_recordings_and_several_connections_are_noted(replay, tmp_path, server):
    trace = trace_of(tmp_path / "several.jsonl", *TWO_CALLS, *TWO_CALLS, redacted=("token",), connections=2)
    code, out, err = replay(trace, "--", *server("pass"))
    assert (code, out[:13]) == (0, "No difference")
    assert "the trace has 2 connections (0, 1); replaying the first; see --connection" in err
    assert "values were redacted in the trace (token)" in err
    assert replay(trace, "--connection", "1", "--", *server("pass"))[0] == 0
