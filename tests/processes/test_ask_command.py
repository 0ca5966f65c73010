"""`twopipes list`, `call`, `read` and `prompt` with real servers, in a pipe and at a terminal."""

import io
import json
import sys
from typing import NamedTuple

import pytest

from processes.children import is_running
from processes.launching import EXAMPLES, python
from processes.terminals import CTRL_C, CTRL_D, Person
from twopipes import trace
from twopipes._cli import main

EVERYTHING = python(EXAMPLES / "everything.py")
ASK = python(EXAMPLES / "ask.py")
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from twopipes._cli import main; sys.exit(main())"

# Speaks 2025-06-18, logs the messages it receives, has a tool that never responds, and sends unknown members.
SECRETARY = """
    import json, signal, sys
    notes = open(sys.argv[1], "a")
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    def answer(id, **result):
        print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
    for line in sys.stdin:
        print(line, end="", file=notes, flush=True)
        message = json.loads(line)
        id, method = message.get("id"), message["method"]
        if method == "initialize":
            offers = {"tools": {}, "resources": {}}
            answer(id, protocolVersion="2025-06-18", capabilities=offers, serverInfo={"name": "s", "version": "1"})
        elif method == "tools/list":
            members = {"x": {"type": "integer", "description": "how long", "x-unit": "m"}, "y": {}}
            schema = {"type": "object", "properties": members, "required": ["x"]}
            answer(id, tools=[{"name": name, "inputSchema": schema, "vendor": {"a": [1.0]}} for name in ("wait", "die")])
        elif method == "resources/list":
            answer(id, resources=[])
        elif method == "tools/call" and message["params"]["name"] == "die":
            print("I cannot go on", file=sys.stderr, flush=True)
            sys.exit(7)
        elif method == "tools/call":
            print("working", file=sys.stderr, flush=True)
        elif id is not None:
            print(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}), flush=True)
    if "stubborn" in sys.argv:
        while True:
            signal.pause()
"""


@pytest.fixture
def secretary(write, tmp_path):
    path = write(SECRETARY, "secretary.py")
    notes = tmp_path / "notes"
    notes.touch()

    def secretary(*arguments):
        return python(path, notes, *arguments)

    secretary.notes = lambda: [json.loads(line) for line in notes.read_text().splitlines()]
    return secretary


class Done(NamedTuple):
    stdout: str
    stderr: str


@pytest.fixture
def ask(tmp_path, environment, monkeypatch, capfd, _no_leftovers):
    """Run a command in this process, which is faster than starting one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", environment["XDG_STATE_HOME"])

    def ask(*words, server=EVERYTHING, code=0):
        found = main([*words, *([] if server is None else ["--", *server])])
        done = Done(*capfd.readouterr())
        assert found == code, done
        return done

    return ask


@pytest.fixture
def person(tmp_path, environment, _no_leftovers):
    """A user at a terminal."""
    people = []

    def person(*words, server=EVERYTHING, program=("-m", "twopipes")):
        people.append(Person(python(*program, *words, "--", *server), env=environment, cwd=tmp_path))
        return people[-1]

    yield person
    for each in people:
        each.dispose()


# In a pipe


def test_list(ask):
    out = ask("list").stdout
    for part in (
        "everything 1.0",
        "For tests: call anything.",
        "Tools (21)",
        "add ",
        "a: integer, [b: integer = 0]",
        "note://{name}",
    ):
        assert part in out
    assert "Tools" not in ask("list", "prompts").stdout
    assert "the first summand" in ask("list", "tools", "add").stdout
    assert "did you mean add?" in ask("list", "tools", "ad", code=2).stderr


# Declares three capabilities, lists tools, and fails at the others: one list is malformed, one is an error.
PARTIAL = """
    import json, sys
    results = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "partial", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "works", "inputSchema": {"type": "object"}}]},
        "prompts/list": {"prompts": 5},
    }
    for line in sys.stdin:
        message = json.loads(line)
        id, method = message.get("id"), message["method"]
        if "die" in sys.argv and method == "resources/list":
            sys.exit(7)
        if method in results:
            print(json.dumps({"jsonrpc": "2.0", "id": id, "result": results[method]}), flush=True)
        elif id is not None:
            error = {"code": -32601, "message": "Method not found"}
            print(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}), flush=True)
"""


def test_a_list_that_fails_does_not_hide_the_others(ask, write):
    server = python(write(PARTIAL))
    done = ask("list", "--era", "legacy", server=server, code=4)
    assert "Tools (1)" in done.stdout
    assert "works" in done.stdout
    assert "Error: resources/list failed: Method not found (code -32601)\n" in done.stderr
    assert "Error: prompts/list failed: " in done.stderr
    found = json.loads(ask("list", "--era", "legacy", "--format", "json", server=server, code=4).stdout)
    assert [tool["name"] for tool in found["tools"]] == ["works"]
    assert found["resourceTemplates"] == []
    assert found["errors"]["resources/list"] == {"code": -32601, "message": "Method not found"}
    assert list(found["errors"]) == ["resources/list", "prompts/list"]
    assert "resources" not in found
    # With a kind, only that list is reported.
    assert ask("list", "resources", "--era", "legacy", server=server, code=1).stdout == ""


def test_lists_received_before_the_server_exited_are_shown(ask, write):
    done = ask("list", "--era", "legacy", server=python(write(PARTIAL), "die"), code=4)
    assert "Tools (1)" in done.stdout
    assert "Error: resources/list failed: the server exited while serving after" in done.stderr
    assert "(exit code 7)" in done.stderr
    assert "prompts/list" not in done.stderr


def test_an_expired_timeout_names_its_option(ask, write):
    done = ask("list", "--timeout", "0.3", server=python(write("import sys; sys.stdin.read()")), code=3)
    assert "pass --timeout 0.6 if the server needs longer" in done.stderr
    assert "Timeouts" not in done.stderr


def test_list_as_json_has_every_page_unchanged(ask, secretary):
    found = json.loads(ask("list", "--format", "json").stdout)
    assert list(found) == ["tools", "resources", "resourceTemplates", "prompts"]
    assert len(found["tools"]) == 21
    found = json.loads(ask("list", "--format", "json", server=secretary()).stdout)
    assert [tool["vendor"] for tool in found["tools"]] == [{"a": [1.0]}] * 2
    assert found["tools"][0]["inputSchema"]["properties"]["x"]["x-unit"] == "m"
    assert found["resourceTemplates"] == []  # which it does not implement


@pytest.mark.parametrize("revision", ["2024-11-05", "2026-07-28"])
def test_call_in_each_revision(ask, revision):
    done = ask("call", "add", "a=20", "--revision", revision, "b=22")
    assert "42" in done.stdout
    assert done.stderr == ""


def test_call_as_json(ask):
    done = ask("call", "structured", "city=Rome", "celsius=5", "--format", "json")
    assert json.loads(done.stdout)["structuredContent"] == {"city": "Rome", "celsius": 5, "conditions": "sun"}
    assert done.stderr == ""


def test_arguments_as_json(ask, monkeypatch):
    point = '{"start": {"x": 0, "y": 0}, "end": {"x": 3, "y": 4}}'
    assert json.loads(ask("call", "distance", "--json", point).stdout) == {"length": 5.0}
    monkeypatch.setattr("sys.stdin", io.StringIO(point))
    assert json.loads(ask("call", "distance", "--json", "-").stdout) == {"length": 5.0}
    assert json.loads(ask("call", "distance", 'start:={"x":0,"y":0}', 'end={"x":0,"y":2}', "unit=m").stdout) == {"length": 2.0}


def test_a_text_is_written_exactly(run, tmp_path):
    (tmp_path / "text").write_bytes("ä\x1b[1m\n\r\n".encode())
    assert run(python("-m", "twopipes", "call", "echo", "text=@text", "--", *EVERYTHING)).stdout == "ä\x1b[1m\n\r\n".encode()


def test_a_failed_tool_is_reported_on_stderr(ask):
    done = ask("call", "fail", code=1)
    assert done.stdout == ""
    assert done.stderr == "Error: the tool failed\nThis tool always fails.\n"
    done = ask("call", "fail", "--format", "json", code=1)
    assert json.loads(done.stdout)["isError"] is True


def test_an_error_of_the_server(ask):
    done = ask("read", "nope://x", "--era", "legacy", code=1)
    assert done == ("", "Error: Unknown resource: nope://x (code -32002)\n")
    done = ask("read", "nope://x", "--format", "json", code=1)
    assert json.loads(done.stdout)["error"]["message"] == "Unknown resource: nope://x"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["call", "wate"], "the server has no tool 'wate'; did you mean wait?"),
        (["call", "zzzzz"], "the server has no tool 'zzzzz'; known tools: wait, die"),
        (["call", "wait", "c=1"], "wait has no argument 'c'; known arguments: x, y"),
        (["call", "wait", "y=1"], "wait also needs x (integer); add x=VALUE"),
        (["call", "wait", "x=one"], "argument x of wait: 'one' is not an integer; expected: integer (how long)"),
        (["call", "wait", "x=1", "--log", "info"], "--log: the server does not declare the logging capability"),
        (["prompt", "wait"], "the server has no prompt 'wait'; it has none"),
        (["list", "resources", "x"], "NAME is for tools and prompts"),
        (["call", "wait", "--trace", "/nowhere/trace"], "/nowhere/trace"),
    ],
)
def test_usage_errors_are_reported_before_the_call(ask, secretary, words, said):
    done = ask(*words, "--era", "legacy", server=secretary(), code=2)
    assert done.stdout == ""
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "tools/call" not in [note["method"] for note in secretary.notes()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["reviw"], "the server has no prompt 'reviw'; did you mean review?"),
        (["review"], "review also needs code; add code=VALUE"),
        (["review", "cod=1"], "review has no argument 'cod'; did you mean code?"),
        (["review", "code:=1"], "arguments of a prompt are strings"),
    ],
)
def test_usage_errors_about_prompts(ask, words, said):
    assert said in ask("prompt", *words, code=2).stderr


def test_unchecked_sends_anything(ask):
    done = ask("call", "no_such_tool", "a=1", "--unchecked", code=1)
    assert "no_such_tool" in done.stderr


def test_a_server_that_cannot_be_started(ask):
    assert "cannot start 'no-such-command': not found" in ask("list", server=["no-such-command"], code=3).stderr


def test_the_stderr_of_a_server_that_exits_at_start_is_shown_once(ask, write):
    broken = python(write("import nothing_like_this\n"))
    done = ask("list", "--era", "legacy", server=broken, code=3)
    assert done.stderr.count("No module named 'nothing_like_this'") == 1
    assert "[stderr] ModuleNotFoundError" in done.stderr
    assert "Error: the server exited while starting after" in done.stderr
    assert "(exit code 1)" in done.stderr
    quiet = ask("list", "--era", "legacy", "--quiet", server=broken, code=3)
    assert quiet.stderr.startswith("Error: the server exited")
    assert quiet.stderr.count("No module named 'nothing_like_this'") == 1


def test_a_server_that_exits_during_the_call(ask, secretary):
    done = ask("call", "die", "x=1", server=secretary(), code=4)
    assert "[stderr] I cannot go on\n" in done.stderr
    assert "the server exited while serving after" in done.stderr
    assert "(exit code 7)" in done.stderr


def test_a_server_that_does_not_respond(ask, secretary, monkeypatch):
    # Not with --timeout, which also limits the start.
    monkeypatch.setattr("twopipes._cli.client_run._DEFAULT_TIMEOUT", 0.3)
    done = ask("call", "wait", "x=1", "--era", "legacy", server=secretary(), code=4)
    assert "no response from the server for 0.3 s" in done.stderr
    assert secretary.notes()[-1]["method"] == "notifications/cancelled"  # CA-01


def test_read(ask):
    assert ask("read", "note://first").stdout == "The first note."
    assert json.loads(ask("read", "notes://all", "--format", "json").stdout)["contents"][1]["text"] == "The second note."


def test_the_bytes_of_a_resource_are_written_unchanged(run):
    assert run(python("-m", "twopipes", "read", "image://pixel", "--", *EVERYTHING)).stdout.startswith(b"\x89PNG\r\n")


def test_save(ask, tmp_path):
    assert "saved as pictures/blocks-1.png" in ask("call", "blocks", "--save", "pictures").stdout
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["blocks-1.png", "blocks-1.wav"]


def test_prompt(ask):
    assert ask("prompt", "review", "code=x = 1").stdout == "user:\nPlease review this python code:\nx = 1\n"
    assert json.loads(ask("prompt", "dialogue", "topic=1", "--format", "json").stdout)["messages"][1]["role"] == "assistant"


@ERAS
def test_answer_options_are_used_without_a_terminal(ask, era):
    done = ask("call", "ask", "--answer", "name=Anna", "--answer", "age=7", "--era", era)
    assert done.stdout == "Anna is 7\n"
    assert "Everything asks:" in done.stderr
    quiet = ask("call", "ask", "--answer", "name=Anna", "--answer", "age=7", "--quiet", "--era", era)
    assert (quiet.stdout, quiet.stderr) == ("Anna is 7\n", "")


def test_capabilities_without_an_answer_are_not_declared(ask):
    assert "elicitation" in ask("call", "ask", "--era", "legacy", code=1).stderr  # CP-02
    assert "--answer KEY=VALUE" in ask("call", "ask", code=1).stderr
    assert "--sample TEXT" in ask("call", "sample", "prompt=x", code=1).stderr


def test_a_model_and_roots(ask, tmp_path):
    assert ask("call", "sample", "prompt=x", "--sample", "I am the model", "--era", "legacy").stdout == "I am the model\n"
    assert tmp_path.as_uri() in ask("call", "roots_tool", "--root", ".").stdout


@ERAS
def test_log_messages(ask, era):
    done = ask("call", "log", "--log", "error", "--era", era)
    assert done.stdout == "logged\n"
    assert [line.partition("]")[0] for line in done.stderr.splitlines()] == ["[error", "[critical", "[alert", "[emergency"]


@pytest.mark.parametrize("listen", [["--unix", "socket"], ["--tcp", "127.0.0.1:0"]])
def test_a_server_on_a_socket(ask, listening, listen):
    _, address = listening(python("-m", "twopipes", "run", EXAMPLES / "everything.py", *listen))
    where = ["--unix", address.partition(":")[2]] if listen[0] == "--unix" else ["--tcp", address.partition(" ")[2]]
    assert "42" in ask("call", "add", "a=42", *where, server=None).stdout
    assert json.loads(ask("call", "add", "a=42", "--format", "json", *where, server=None).stdout)["content"]


def test_a_socket_without_a_listener(ask, tmp_path):
    assert "Error: " in ask("list", "--unix", str(tmp_path / "nothing"), server=None, code=3).stderr


def test_a_server_of_a_configuration_file(ask, tmp_path, monkeypatch):
    entry = {"command": sys.executable, "args": ["${HERE}/everything.py"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": entry, "b": {"type": "carrier pigeon"}}}))
    monkeypatch.setenv("HERE", str(EXAMPLES))
    assert "42" in ask("call", "add", "a=42", "--config", "mcp.json", "--server", "a", server=None).stdout
    assert "has no command" in ask("list", "--config", "mcp.json", "--server", "b", server=None, code=2).stderr


def test_the_conversation_can_be_recorded(ask, tmp_path):
    ask("call", "add", "a=1", "--trace", "trace.jsonl", "--format", "json")
    found = trace.read(tmp_path / "trace.jsonl")
    assert found.header.argv == tuple(EVERYTHING)
    assert any(b'"tools/call"' in entry.data for entry in found.whole_lines() if isinstance(entry, trace.Line))


def test_a_closed_output_pipe(run, environment):
    done = run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -c 1', "bash", *python("-m", "twopipes", "list", "--", *EVERYTHING)], text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# At a terminal


@pytest.mark.parametrize(
    ("era", "program"), [("legacy", ("-m", "twopipes")), ("modern", ("-c", WITHOUT_RICH))], ids=["rich", "plain"]
)
def test_a_form_is_filled_in(person, era, program):
    terminal = person("call", "book_trip", "--era", era, server=ASK, program=program)
    terminal.sees("travel agent")
    terminal.sees(":decline to decline")
    terminal.answers("Rome")
    terminal.sees("2. summer")
    terminal.answers("sumer")
    terminal.sees("did you mean summer?")
    terminal.answers("2", "")
    terminal.sees("Book it now?")
    terminal.answers("y")
    terminal.sees("Booked: Rome in summer.")
    assert terminal.exit_code() == 0


@pytest.mark.parametrize(("era", "typed", "action"), [("legacy", ":decline\n", "decline"), ("modern", CTRL_D, "cancel")])
def test_a_form_is_refused(person, era, typed, action):
    terminal = person("call", "ask", "--era", era)
    terminal.sees("  > ")
    terminal.presses(typed)
    terminal.sees(f"the user said {action}")
    assert terminal.exit_code() == 0


def test_a_url_needs_consent(person):
    terminal = person("call", "ask_url")
    terminal.sees("https://login.example/start")
    terminal.answers("y")
    terminal.sees("accept")
    assert terminal.exit_code() == 0


def test_two_concurrent_questions_are_asked_one_after_another(person):
    terminal = person("call", "ask_at_once", "--root", ".")
    terminal.answers("Anna", "7", "")
    terminal.sees("Anna, 1 roots")
    assert terminal.exit_code() == 0


def test_a_sampling_request_is_answered_by_the_user(person):
    terminal = person("call", "sample", "prompt=What now?", "--sample", "-")
    terminal.sees("user: What now?")
    terminal.answers("Tea")
    terminal.sees("Tea")
    assert terminal.exit_code() == 0


@pytest.mark.parametrize("program", [("-m", "twopipes"), ("-c", WITHOUT_RICH)], ids=["rich", "plain"])
def test_progress_is_shown_until_the_result_comes(person, program):
    terminal = person("call", "slow", "steps=30", "seconds=0.02", program=program)
    terminal.sees("/30")
    terminal.sees("30 steps")
    assert terminal.exit_code() == 0


@ERAS
def test_an_interruption_cancels_the_call(person, era):
    terminal = person("call", "slow", "steps=100000", "--era", era)
    terminal.sees("/100000")
    terminal.presses(CTRL_C)
    terminal.sees("Interrupted: cancelling the request and stopping the server.")
    assert terminal.exit_code() == 130
    assert "Traceback" not in terminal.seen


def test_the_server_is_notified_of_an_interruption(person, secretary):
    terminal = person("call", "wait", "x=1", "--era", "legacy", server=secretary())
    terminal.sees("[stderr] working")
    terminal.presses(CTRL_C)
    assert terminal.exit_code() == 130
    *_, call, cancelled = secretary.notes()
    assert (cancelled["method"], cancelled["params"]["requestId"]) == ("notifications/cancelled", call["id"])  # CA-01


def test_a_second_interruption_kills_a_server_that_does_not_exit(person, secretary):
    terminal = person(
        "call", "wait", "x=1", "--era", "legacy", server=["sh", "-c", 'echo $$ >&2; exec "$@"', "sh", *secretary("stubborn")]
    )
    terminal.sees("[stderr] ")
    pid = int(terminal.sees("\n").partition("\x1b")[0])
    terminal.sees("[stderr] working")
    terminal.presses(CTRL_C)
    terminal.sees("Interrupted")
    terminal.presses(CTRL_C)
    terminal.sees("Killing the server.")
    assert terminal.exit_code() == 130
    assert not is_running(pid)
    assert "Traceback" not in terminal.seen


def test_an_interruption_at_a_question(person):
    terminal = person("call", "ask", "--era", "legacy")
    terminal.sees("  > ")
    terminal.presses(CTRL_C)
    assert terminal.exit_code() == 130
    assert "Traceback" not in terminal.seen


def test_an_interruption_before_the_first_response(person):
    terminal = person("list", server=python("-c", "import sys; print('here', file=sys.stderr, flush=True); sys.stdin.read()"))
    terminal.sees("[stderr] here")
    terminal.presses(CTRL_C)
    assert terminal.exit_code() == 130
    assert "Traceback" not in terminal.seen


def test_text_of_the_server_cannot_control_the_terminal(person):
    terminal = person("call", "echo", "text=\x1b]0;title\x07", "--quiet")
    terminal.sees("\\x1b]0;title\\x07")
    assert terminal.exit_code() == 0
    assert "\x1b]0;" not in terminal.seen
