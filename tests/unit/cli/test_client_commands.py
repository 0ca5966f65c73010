"""`twopipes list`, `call`, `read` and `prompt`: their command lines, and how results are shown."""

import argparse
import asyncio
import base64
import io
import json
import os
import signal
import sys

import pytest

from twopipes import CallResult, McpError, RequestTimedOut, ServerExited, TwopipesError
from twopipes._cli import main
from twopipes._cli.client_run import Conversation, exit_code_for
from twopipes._cli.display import ResultPrinter, Saver, argument_summary, bytes_of, first_line
from twopipes._cli.interrupts import run_interruptibly
from twopipes._cli.raw_results import RawResults
from twopipes._cli.reporter import Reporter
from twopipes._error_text import OptionHint
from twopipes._process.stderr import StderrLine
from twopipes._protocol.content import UnknownContent
from twopipes._protocol.types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    LogParams,
    ProgressParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    ResourceContents,
    ResourceLink,
    TextContent,
    Tool,
    ToolAnnotations,
)
from twopipes._tools.terminal import Terminal
from twopipes._tools.usage import UsageError
from twopipes.errors import (
    CapabilityMissing,
    ChannelBroken,
    ClientClosed,
    ConnectionLost,
    OpeningFailed,
    RemoteProtocolError,
    StartFailed,
)
from twopipes.types import StrayOutput, Validation

COMMANDS = ("list", "call", "read", "prompt")


class Tty(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(params=["with rich", "without rich"])
def rich(request, monkeypatch):
    if request.param == "without rich":
        for name in [name for name in sys.modules if name.partition(".")[0] == "rich" or name.endswith(".rich_output")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "rich", None)


# The command line


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_has_examples_and_exit_codes(name, capsys):
    assert main([name, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: twopipes {name} ")
    for part in ("-- python server.py", "exit codes:", "130  interrupted", "--config FILE", "--format", "--timeout SECONDS"):
        assert part in out
    assert err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list"], "no server given"),
        (["list", "birds", "--", "server"], "invalid choice: 'birds'"),
        (["call", "--", "server"], "the following arguments are required: TOOL; see"),
        (["call"], "the following arguments are required: TOOL; see"),
        (
            ["call", "add", "5", "--", "server"],
            "invalid argument '5'; write key=value, key:=JSON or key=@FILE (the command of the server comes",
        ),
        (["call", "add", "a=@/nowhere/file", "--", "server"], "file /nowhere/file cannot be read"),
        (["call", "add", "--json", "{", "--", "server"], "--json: "),
        (["call", "add", "--json", "[]", "--", "server"], "--json needs an object"),
        (["call", "add", "--json", '{"a": NaN}', "--", "server"], "--json: NaN is not a number in JSON"),
        (["call", "add", "--json", '{"a": 1e999}', "--", "server"], "--json: 1e999 is too large for a number"),
        (
            ["list", "--era", "legacy", "--revision", "2026-07-28", "--", "server"],
            "--revision 2026-07-28 belongs to the modern era; leave out --era legacy",
        ),
        (["call", "add", "--answer", "x", "--", "server"], "invalid answer 'x'"),
        (["call", "add", "--sample", "-", "--", "server"], "--sample - needs a terminal"),
        (["call", "add", "--log", "loud", "--", "server"], "invalid choice: 'loud'"),
        (["read", "--", "server"], "the following arguments are required: URI"),
        (["read", "a://b", "c://d", "--", "server"], "c://d"),
        (["prompt", "--", "server"], "the following arguments are required: NAME; see"),
        (["prompt", "x", "--format", "xml", "--", "server"], "invalid choice: 'xml'"),
    ],
)
def test_usage_errors_are_one_line_and_no_server_is_started(words, said, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert said in err


# Ctrl-C


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_interruption_cancels_and_waits_for_the_cleanup():
    numbers, tidied = [], []

    async def work():
        try:
            interrupt()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            tidied.append(True)
        return 0

    before = signal.getsignal(signal.SIGINT)
    assert run_interruptibly(work, on_interrupt=numbers.append) == 130
    assert (numbers, tidied) == ([1], [True])
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_interruption_does_not_wait():
    numbers = []

    async def work():
        try:
            interrupt()
            await asyncio.sleep(60)
        finally:
            interrupt()
            await asyncio.sleep(60)
        return 0

    assert run_interruptibly(work, on_interrupt=numbers.append) == 130
    assert numbers == [1, 2]


def test_without_an_interruption_the_code_is_that_of_the_work():
    async def work():
        return 4

    assert run_interruptibly(work, on_interrupt=pytest.fail) == 4


def test_an_error_of_the_work_is_an_error():
    async def work():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run_interruptibly(work, on_interrupt=pytest.fail)


# Errors and what to do


def complained(error):
    stream = io.StringIO()
    talk = Conversation(argparse.Namespace(format="text", save=None, timeout=None), Reporter(Terminal(stream, width=200)), name="x")
    talk.print_error(error)
    return stream.getvalue()


def test_pages_that_the_user_must_visit_first_are_shown():
    asked = [{"mode": "url", "message": "Log in\x1b", "url": "https://login.example/", "elicitationId": "1"}, "nonsense", {}]
    assert complained(McpError("Go there first", code=-32042, data={"elicitations": asked})).splitlines() == [
        "Error: Go there first (code -32042)",
        "  Log in\\x1b: https://login.example/",
    ]


@pytest.mark.parametrize(("name", "option"), [("elicitation", "--answer"), ("sampling", "--sample"), ("roots", "--root")])
def test_a_missing_capability_names_the_option_that_declares_it(name, option):
    assert option in complained(CapabilityMissing({name: {}}))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StartFailed(["x"], "no such folder", cwd="/srv"), "create it, or set another one with --cwd FOLDER\n"),
        (StartFailed(["x"], "not found", path=["/bin"]), "or give its full path, or set --env PATH=FOLDERS; searched"),
        (
            RequestTimedOut("tools/list", 1, waited=30.0, limit="idle"),
            "no response within the idle limit; pass --timeout 60 to wait longer\n",
        ),
        # What has no option at the command line is not advised there.
        (
            RequestTimedOut("tools/list", 1, waited=30.0, limit="total"),
            "no response within the total limit\n",
        ),
        (RemoteProtocolError("too many pages", hint=OptionHint("max_pages", 2, "if so")), "Error: too many pages\n"),
    ],
)
def test_options_are_named_as_they_are_typed_at_the_command_line(error, said):
    assert said in complained(error)


def test_an_error_message_cannot_control_the_terminal():
    assert complained(McpError("a\x1b[2Jb\nc", data=[1])) == "Error: a\\x1b[2Jb\nc (code -32603)\n"


@pytest.mark.parametrize(
    ("error", "reached", "code"),
    [
        (StartFailed(["x"], "not found"), False, 3),
        (OpeningFailed("no"), False, 3),
        (ServerExited(["x"], phase="starting"), False, 3),
        (ServerExited(["x"], phase="serving"), True, 4),
        (ConnectionLost("tools/call", 1), True, 4),
        (ChannelBroken("gone"), False, 3),
        (ChannelBroken("gone"), True, 4),
        (RequestTimedOut("tools/call", 1, waited=1.0, limit="idle"), True, 4),
        (RemoteProtocolError("nonsense"), True, 4),
        (McpError("no"), True, 1),
        (ClientClosed(), True, 4),
    ],
)
def test_every_error_has_an_exit_code(error, reached, code):
    assert exit_code_for(error, connected=reached) == code


# Timeouts


def conversation(seconds):
    options = argparse.Namespace(format="text", save=None, timeout=seconds)
    return Conversation(options, Reporter(Terminal(io.StringIO())), name="x")


def test_the_timeout_is_suspended_while_the_user_is_asked():
    talk = conversation(3600)

    async def call(*, timeouts, on_progress):
        assert (timeouts.request, timeouts.total) == (None, None)
        began = talk._timeout.when()
        with talk.attention():
            with talk.attention():
                assert talk._timeout.when() is None
            assert talk._timeout.when() is None
        assert talk._timeout.when() >= began
        on_progress(ProgressParams(1, 1))
        return talk._timeout.when() >= began

    assert asyncio.run(talk.request(call)) is True


def test_a_call_without_a_response_times_out():
    talk = conversation(0.01)

    async def call(*, timeouts, on_progress):
        await asyncio.sleep(60)

    with pytest.raises(TwopipesError, match=r"no response from the server for 0.01 s.*To wait longer, use --timeout SECONDS"):
        asyncio.run(talk.request(call))


def test_another_timeout_is_not_reported_as_ours():
    talk = conversation(0)
    assert talk.seconds is None

    async def call(*, timeouts, on_progress):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        asyncio.run(talk.request(call))


# Raw results


def line(**message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def test_results_are_kept_as_the_server_sent_them():
    raw_results = RawResults()
    raw_results.chunk(">", line(id=1, method="tools/call", params={})[:10])
    raw_results.chunk(">", line(id=1, method="tools/call", params={})[10:])
    raw_results.chunk("<", b"noise\n" + line(method="notifications/x") + line(id=9, result={"not": "asked for"}))
    raw_results.chunk("<", b'{"jsonrpc":"2.0","id":1,"result":{"vendor": 1.00, "content":\r\n'[:-2])
    raw_results.chunk("<", b" []}}\n")
    assert bytes(raw_results.last("tools/call")) == b'{"vendor": 1.00, "content": []}'
    assert raw_results.last("prompts/get") is None
    raw_results.chunk(">", line(id=2, method="tools/call", params={}))
    raw_results.chunk("<", line(id=2, error={"code": -32602, "message": "no", "data": {"x": 1}}))
    assert raw_results.error == {"code": -32602, "message": "no", "data": {"x": 1}}


def test_the_pages_of_a_list_are_joined_and_the_first_page_starts_anew():
    raw_results = RawResults()
    for number, (cursor, names) in enumerate([(None, "ab"), ("x", "c"), (None, "ab"), ("y", "d")]):
        raw_results.chunk(">", line(id=number, method="tools/list", params={} if cursor is None else {"cursor": cursor}))
        raw_results.chunk("<", line(id=number, result={"tools": [{"name": name, "new": None} for name in names]}))
    assert [json.loads(bytes(item)) for item in raw_results.items("tools/list", "tools")] == [
        {"name": name, "new": None} for name in "abd"
    ]
    raw_results.chunk(">", line(id=9, method="prompts/list"))
    raw_results.chunk("<", b"[" + line(id=9, result={}) + b"]\n")
    assert raw_results.items("prompts/list", "prompts") == []


# Results and lists


def shown(show, *, terminal=False, saver=None):
    stream = Tty() if terminal else io.StringIO()
    printer = ResultPrinter(Terminal(stream, colour=False, width=100), saver)
    show(printer)
    return stream.getvalue()


def result_of(*content, **members):
    return CallResult(CallToolResult(list(content), **members), Validation(None))


def test_a_text_is_unchanged_but_escaped_at_a_terminal(rich):
    result = result_of(TextContent("a\x1b[31m\r\nb\t[bold]"))
    assert shown(lambda printer: printer.result(result)) == "a\x1b[31m\r\nb\t[bold]\n"
    on_terminal = shown(lambda printer: printer.result(result), terminal=True)
    assert "\x1b[31m" not in on_terminal
    assert on_terminal.startswith("a\\x1b[31m\nb")
    assert "[bold]" in on_terminal


@pytest.mark.parametrize(
    ("text", "structured", "out"),
    [
        ('{"a":1}', {"a": 1}, '{\n  "a": 1\n}\n'),
        ("three", {"result": "three"}, "three\n"),
        ("3", {"result": 3}, "3\n"),
        ("one thing", {"another": 1}, 'one thing\n{\n  "another": 1\n}\n'),
        ("null", None, "null\n"),
    ],
)
def test_a_value_and_the_text_that_repeats_it_are_shown_once(text, structured, out, rich):
    result = result_of(TextContent(text), structured_content=structured)
    assert shown(lambda printer: printer.result(result)) == out


def test_json_is_escaped_at_a_terminal(rich):
    out = shown(lambda printer: printer.json({"\x9b": ["\u202e"]}), terminal=True)
    assert "\x9b" not in out
    assert "\u202e" not in out


def test_an_empty_result(rich):
    assert shown(lambda printer: printer.result(result_of())) == "(empty)\n"


def test_other_blocks_are_described(rich):
    blob = base64.b64encode(bytes(5000)).decode()
    blocks = [
        ImageContent(blob, "image/png"),
        ImageContent("§", "image/png"),
        ResourceLink("a://b", "b", mime_type="text/plain"),
        EmbeddedResource(ResourceContents("a://c", text="inside")),
        EmbeddedResource(ResourceContents("a://d", blob="AA==")),
        UnknownContent(type="hologram", depth=3),
    ]
    assert shown(lambda printer: printer.result(result_of(*blocks))).splitlines() == [
        "[image] image/png, 4.9 KiB (use --save FOLDER to save it)",
        "[image] image/png, 1 characters of invalid base64",
        "[link] a://b (b, text/plain)",
        "[resource] a://c",
        "inside",
        "[resource] a://d",
        "[blob] unknown type, 1 byte (use --save FOLDER to save it)",
        "{",
        '  "type": "hologram",',
        '  "depth": 3',
        "}",
    ]


def test_bytes_are_saved_and_nothing_is_overwritten(tmp_path):
    folder = tmp_path / "new" / "folder"
    saver = Saver(str(folder), "../a tool")
    block = ImageContent(base64.b64encode(b"data").decode(), "image/png; x=y")
    out = shown(lambda printer: [printer.block(block), printer.block(block)], saver=saver)
    assert sorted(path.name for path in folder.iterdir()) == ["a-tool-1.png", "a-tool-2.png"]
    assert (folder / "a-tool-2.png").read_bytes() == b"data"
    assert f"saved as {folder / 'a-tool-1.png'}" in out
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--save needs a folder"):
        Saver(str(tmp_path / "file"), "x").save(b"", None)


def test_contents_of_a_resource(rich):
    contents = [ResourceContents("a://b", text="one"), ResourceContents("a://c", blob="/w==", mime_type="x/y")]
    assert bytes_of(contents) == b"one\xff"
    out = shown(lambda printer: printer.contents(contents), terminal=True)
    assert out.splitlines() == ["a://b", "one", "a://c (x/y)", "[blob] x/y, 1 byte (use --save FOLDER to save it)"]


def test_a_prompt_is_a_conversation(rich):
    messages = [PromptMessage("user", TextContent("Hi")), PromptMessage("assistant", TextContent("Hello"))]
    assert shown(lambda printer: printer.messages(messages)) == "user:\nHi\n\nassistant:\nHello\n"


TOOL = Tool(
    "add",
    {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "the first"}, "b": {"default": 0}},
        "required": ["a"],
    },
    description="Add\ntwo numbers.\n\nA long story.\x1b",
    title="Addition",
    output_schema={"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]},
    annotations=ToolAnnotations(read_only_hint=True),
)


def words(text):
    return " ".join(text.split())


def test_a_table_of_tools(rich):
    out = shown(lambda printer: printer.tools([TOOL]))
    assert out.startswith("Tools (1)\n")
    assert "add a: integer, [b: anything = 0] Add two numbers." in words(out)
    assert "long story" not in out


def test_the_details_of_a_tool(rich):
    out = words(shown(lambda printer: printer.tool(TOOL)))
    assert out.startswith("add Addition (read-only) Add two numbers. A long story.\\x1b argument type description")
    assert "a integer required the first" in out
    assert "b anything = 0" in out
    assert out.endswith("returns {sum: integer}")


def test_the_details_of_a_prompt(rich):
    prompt = Prompt("review", "Ask for it.", [PromptArgument("code", "The code.", required=True), PromptArgument("how")])
    assert "review Ask for it. argument description" in words(shown(lambda printer: printer.prompt(prompt)))
    out = words(shown(lambda printer: printer.prompts([prompt])))
    assert out.startswith("Prompts (1) prompt arguments description")
    assert out.endswith("review code, [how] Ask for it.")


def test_short_forms():
    assert argument_summary({"properties": {"x": {}, "y": True}, "required": ["y"]}) == "[x: anything], y: anything"
    assert argument_summary({}) == ""
    assert first_line("\n one\n two\n\nthree") == "one two"


# Output on stderr


def reported(report, *, terminal=False, quiet=False):
    stream = Tty() if terminal else io.StringIO()
    reporter = Reporter(Terminal(stream, width=100), quiet=quiet)
    report(reporter)
    reporter.done()
    return stream.getvalue()


def speak(reporter):
    reporter.log(LogParams("warning", {"a": "\x1b"}, "db"))
    reporter.log(LogParams("info", "two\nlines"))
    reporter.stderr(StderrLine(0.0, "on stderr \x07"))
    reporter.stray(StrayOutput("not JSON", "print"))


def test_log_messages_and_stderr_are_shown(rich):
    assert reported(speak).splitlines() == [
        '[warning] db: {"a":"\\u001b"}',
        "[info] two",
        "[info] lines",
        "[stderr] on stderr \\x07",
        "[stdout, not a message] print",
    ]
    assert reported(speak, quiet=True) == ""


def test_progress_is_shown_only_at_a_terminal(rich, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")

    def go_on(reporter):
        reporter.progress(ProgressParams(1, 1, 4, "starting \x1b"))
        reporter.say("a line")
        reporter.progress(ProgressParams(1, 2))

    out = reported(go_on, terminal=True)
    assert "1/4 25%" in out
    assert "starting \\x1b" in out
    assert "a line" in out
    assert reported(go_on) == "a line\n"
    assert reported(go_on, terminal=True, quiet=True) == "a line\n"
    monkeypatch.setenv("TERM", "dumb")
    assert reported(go_on, terminal=True) == "a line\n"
