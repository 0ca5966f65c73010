"""A conversation as lines for the terminal."""

import pytest

from twopipes._tools.view.render import Choice, Renderer
from twopipes._trace.conversation import Conversation
from twopipes._trace.findings import Judge, judge
from twopipes._trace.format import Damage, Event, Header
from twopipes._trace.units import columns, duration, size_of
from unit.trace.recordings import HEADER, call, done, entries, handshake, modern, note, recording

SLOW = (">", call(2, "tools/call", name="slow", arguments={"steps": 2}, _meta={"progressToken": 7}))
CONVERSATION = [
    *handshake(),
    SLOW,
    (">", call(3, "tools/call", name="fail")),
    ("!", "working"),
    ("<", note("notifications/progress", progressToken=7, progress=1, total=2, message="half")),
    ("<", {"id": 3, "result": {"content": [{"type": "text", "text": "no disk"}], "isError": True}}),
    ("<", "Hello from print()"),
    ("<", {"id": 2, "result": {"content": [{"type": "text", "text": "done"}]}}),
    (">", call(4, "resources/read", uri="x://gone")),
    ("<", {"id": 4, "error": {"code": -32002, "message": "no such thing"}}),
    (">", call(5, "tools/call", name="slow")),
    (">", note("notifications/cancelled", requestId=5, reason="bored")),
    (">", call(6, "tools/call", name="hang")),
    Event(at=3.0, name="exit", code=1),
]


def text(lines):
    return ["".join(piece.text for piece in line).rstrip() for line in lines]


def shown(conversation, choice=None, **options):
    """The lines of a finished conversation, without header and summary."""
    renderer = Renderer(conversation, choice, **options)
    judging = Judge(conversation)
    renderer.know(judge(conversation))
    return text(line for item in conversation.items for line in renderer.show(item, judging.look(item)))


def followed(steps, choice=None):
    """The lines as they come, for each entry."""
    conversation = Conversation(HEADER)
    renderer = Renderer(conversation, choice)
    judging = Judge(conversation)
    come = []
    for entry in entries(*steps):
        item = conversation.feed(entry)
        come.append(text(renderer.show(item, judging.look(item))))
    conversation.finish()
    return come, text(renderer.summary())


def test_a_conversation_with_its_rails():
    assert shown(recording(*CONVERSATION)) == [
        "    0.000  = the server was started, pid 4242",
        '    0.100 ┌> initialize #"init" 2025-11-25 c 1',
        '    0.200 └< initialize #"init" 2025-11-25 s 1  100 ms',
        "    0.300  > notifications/initialized",
        "    0.400 ┌> tools/call #2 slow steps=2",
        "    0.500 │┌> tools/call #3 fail",
        "    0.600 ││! working",
        "    0.700 ├│< progress 1 of 2 half",
        "    0.800 │└< tools/call #3 failed: no disk  300 ms",
        "    0.900 │< Hello from print()",
        "          │   ✗ FR-04 not a message on stdout: this is not JSON",
        "    1.000 └< tools/call #2 done  600 ms",
        "    1.100 ┌> resources/read #4 x://gone",
        "          │   ✗ LC-11 resources/read, and the server did not declare resources",
        "    1.200 └< resources/read #4 error -32002 no such thing  100 ms",
        "    1.300 ┌> tools/call #5 slow",
        "    1.400 └> cancelled #5 bored",
        "    1.500 ╶> tools/call #6 hang  no response: the server disconnected",
        "    3.000  = the server exited (exit code 1)",
    ]


def test_the_summary():
    conversation = recording(*CONVERSATION)
    renderer = Renderer(conversation)
    for item, found in [(item, [one for one in judge(conversation) if one.message is item]) for item in conversation.items]:
        list(renderer.show(item, found))
    assert text(renderer.summary()) == [
        "",
        "6 requests, 1 error, 1 failed tool call, 1 without a response, 2 broken rules in 3 s",
        "slowest      tools/call slow steps=2  600 ms  at 0.400, id 2",
        "no response  tools/call hang  the server disconnected after 1.5 s  at 1.500, id 6",
        "FR-04        server: not a message on stdout: this is not JSON (at 0.900)",
        "LC-11        client: resources/read, and the server did not declare resources (at 1.100)",
    ]


def test_the_header():
    lines = text(Renderer(recording(*handshake(), header=HEADER)).header())
    assert lines == ["python server.py", "recorded by tap 0 · linux · 2026-07-30 10:00:00 UTC", "2025-11-25, with a handshake", ""]
    assert text(Renderer(recording(header=Header(target="unix:/run/x.sock", redacted=("token",)))).header()) == [
        "unix:/run/x.sock",
        "redacted: token",
        "",
    ]


def test_the_rounds_of_a_call_hang_on_one_rail():
    lines = shown(
        recording(
            (">", modern(1, "tools/call", name="ask")),
            ("<", {"id": 1, "result": {"resultType": "input_required", "requestState": "s", "inputRequests": {}}}),
            (">", modern(2, "tools/list")),
            (">", modern(3, "tools/call", name="ask", requestState="s", inputResponses={"a": {"action": "accept"}})),
            ("<", done(3, content=[{"type": "text", "text": "thanks"}])),
        )
    )
    assert [line[10:] for line in lines if "tools" in line and "VN" not in line and "MR" not in line] == [
        "┌> tools/call #1 ask",
        "├< tools/call #1 asks for input  100 ms",
        "│> tools/list #2  no response",
        "├> tools/call #3 again ask (input: accept)",
        "└< tools/call #3 thanks  100 ms  (400 ms in 2 rounds)",
    ]


def test_a_subscription_has_a_rail_while_it_lives():
    tag = {"io.modelcontextprotocol/subscriptionId": "L"}
    lines = shown(
        recording(
            (">", modern("L", "subscriptions/listen", notifications={"toolsListChanged": True})),
            ("<", note("notifications/subscriptions/acknowledged", _meta=tag, notifications={"toolsListChanged": True})),
            ("<", note("notifications/tools/list_changed", _meta=tag)),
            (">", note("notifications/cancelled", requestId="L")),
        )
    )
    assert [line[10:13].strip() for line in lines[1:]] == ["┌>", "├<", "├<", "└>"]


def test_a_batch_is_shown_and_then_its_members():
    lines = shown(recording(*handshake("2025-03-26"), (">", [call(1, "ping"), note("a/b")]), ("<", [{"id": 1, "result": {}}])))
    assert [line[10:] for line in lines[4:]] == [
        " > batch of 2 messages",
        "┌> ping #1",
        "│> a/b",
        "│< batch of 1 message",
        "└< ping #1 empty  100 ms",
    ]


def test_more_calls_at_once_than_there_are_rails():
    asked = [(">", call(number, "a/b")) for number in range(9)]
    lines = shown(recording(*handshake(), *asked, *(("<", {"id": number, "result": {}}) for number in range(9))))
    assert [line[10:] for line in lines[4:13]] == [
        "┌> a/b #0",
        "│┌> a/b #1",
        "││┌> a/b #2",
        "│││┌> a/b #3",
        "││││┌> a/b #4",
        "│││││┌> a/b #5",
        "││││││> a/b #6",
        "││││││> a/b #7",
        "││││││> a/b #8",
    ]
    assert lines[-1][10:] == " < a/b #8 empty  900 ms"


def test_stderr_events_and_damage_have_a_line_each():
    events = [
        Event(at=1.0, name="lost", lines=3, size=2048, reason="the disk is full"),
        Event(at=1.0, name="signal", signal="SIGTERM"),
        Event(at=1.0, name="eof", stream=">"),
        Event(at=1.0, name="note", reason="by hand"),
        Event(at=1.0, name="exit", signal="SIGKILL"),
        Damage(9, "torn", b"{"),
    ]
    assert [line.strip() for line in shown(recording(*events, spawn=False))] == [
        "1.000  = the recording is missing 3 lines, 2.0 KiB from here: the disk is full",
        "1.000  = SIGTERM was sent to the server",
        "1.000  = the client closed its output",
        "1.000  = by hand",
        "1.000  = the server exited (signal SIGKILL)",
        "line 9 of the file cannot be read: torn",
    ]


@pytest.mark.parametrize(
    ("choice", "ids"),
    [
        (Choice(methods=("tools/*",)), {"2", "3", "5", "6"}),
        (Choice(methods=("resources/read", "initialize")), {"4", '"init"'}),
        (Choice(ids=("3",)), {"3"}),
        (Choice(ids=("init",)), {'"init"'}),
        (Choice(ids=('"3"',)), set()),
        (Choice(errors=True), {"3", "4", "6"}),
        (Choice(slow=0.5), {"2", "6"}),
        (Choice(errors=True, methods=("tools/*",)), {"3", "6"}),
    ],
    ids=lambda given: str(sorted(given) if isinstance(given, set) else given),  # the same in every process
)
def test_a_choice_shows_whole_calls(choice, ids):
    lines = shown(recording(*CONVERSATION), choice)
    assert {word[1:] for line in lines for word in line.split() if word.startswith("#")} == ids
    assert not any("working" in line for line in lines)


def test_errors_show_noise_too():
    assert any("Hello from print()" in line for line in shown(recording(*CONVERSATION), Choice(errors=True)))


def test_a_request_is_shown_when_it_comes_and_its_answer_later():
    come, _ = followed([(">", call(1, "a")), ("<", {"id": 1, "result": {}})])
    assert come[1:] == [["    0.100 ┌> a #1", "          │   ✗ LC-01 a before initialize"], ["    0.200 └< a #1 empty  100 ms"]]


def test_what_is_chosen_by_its_outcome_is_shown_when_that_is_known():
    steps = [*handshake(), (">", call(1, "tools/list")), ("<", {"id": 1, "result": {"tools": []}}), (">", call(2, "tools/list"))]
    steps += [("<", {"id": 2, "error": {"code": 1, "message": "no"}}), (">", call(3, "tools/list"))]
    come, summary = followed(steps, Choice(errors=True))
    assert [line for lines in come[:-2] for line in lines] == []
    assert come[-2] == ["    0.600  > tools/list #2", "    0.700  < tools/list #2 error 1 no  100 ms"]
    assert come[-1] == []
    assert summary[0] == "    0.800  > tools/list #3  no response"


@pytest.mark.parametrize("width", [50, 80, 140])
def test_lines_fit_the_terminal(width):
    wide = (">", call(9, "tools/call", name="日本語" * 30, arguments={"x": "y" * 500}))
    for line in shown(recording(*CONVERSATION, wide, ("!", "z" * 500)), width=width):
        assert columns(line) <= width


def test_findings_are_wrapped_instead_of_cut():
    lines = shown(recording(*handshake(), (">", call(4, "resources/read", uri="x://gone"))), width=50)
    start = next(number for number, line in enumerate(lines) if "LC-11" in line)
    assert lines[start].startswith("              ✗ LC-11 resources/read")
    assert " ".join(" ".join(lines[start:]).split()) == "✗ LC-11 resources/read, and the server did not declare resources"


def test_control_characters_are_escaped_before_they_are_counted():
    escape = {27: "\\x1b"}
    lines = shown(recording(("!", "\x1b" * 60)), width=40, escape=lambda said: said.translate(escape))
    assert columns(lines[1]) <= 40


def test_tabs_are_as_wide_as_they_are_counted():
    lines = shown(recording(("!", "\tone\ttwo")), width=80)
    assert lines[1] == "    0.100  !     one    two"


def test_the_whole_of_a_message():
    lines = shown(recording(*handshake(), (">", call(1, "tools/list")), ("<", "Hello")), is_full=True)
    start = next(number for number, line in enumerate(lines) if "tools/list #1" in line)
    assert [line.strip() for line in lines[start + 1 : start + 7]] == [
        "{",
        '"jsonrpc": "2.0",',
        '"id": 1,',
        '"method": "tools/list",',
        '"params": {}',
        "}",
    ]


def test_the_size_of_long_messages_is_shown():
    lines = shown(recording(*handshake(), (">", call(1, "tools/call", name="a", arguments={"x": "y" * 20_000}))))
    assert any("  19.6 KiB" in line for line in lines)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.00034, "340 µs"),
        (0.0123, "12.3 ms"),
        (0.6004, "600 ms"),
        (1.25, "1.25 s"),
        (59.94, "59.9 s"),
        (200, "3 min 20 s"),
        (7260, "2 h 1 min"),
        (-1, "0 µs"),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(512, "512 bytes"), (12_595, "12.3 KiB"), (64 << 20, "64.0 MiB"), (5 << 40, "5120.0 GiB")]
)
def test_sizes(count, said):
    assert size_of(count) == said


def test_several_connections_are_distinguished():
    steps = entries(*handshake())
    other = Event(at=5.0, name="spawn", pid=7, connection=1)
    conversation = Conversation(HEADER)
    for entry in [*steps, other]:
        conversation.feed(entry)
    conversation.finish()
    assert shown(conversation)[-1] == "    5.000  1:= the server was started, pid 7"
    assert "connection 0: 2025-11-25, with a handshake" in text(Renderer(conversation).header())
