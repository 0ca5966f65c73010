"""`twopipes mock` as a process: it responds like the recorded server, in the recorded revision and in others."""

import asyncio
import base64
import json
import re
import signal
import subprocess
import sys

import pytest

from processes.launching import INITIALIZE, NET, call, modern, request
from processes.recordings import EVERYTHING, converse, handshake, options, record, trace_of
from twopipes import connect
from twopipes._process.command import ServerCommand
from twopipes._protocol.revisions import ALL

MOCK = [sys.executable, "-m", "twopipes", "mock"]
REPLAY = [sys.executable, "-m", "twopipes", "replay"]


def within(coroutine):
    async def bounded():
        async with asyncio.timeout(NET):
            return await coroutine

    return asyncio.run(bounded())


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """For each revision: a recording of the real server, and the results of its client."""
    folder = tmp_path_factory.mktemp("recordings")

    async def make():
        paths = {revision: folder / f"{revision}.jsonl" for revision in ALL}
        got = await asyncio.gather(*(record(path, EVERYTHING, revision) for revision, path in paths.items()))
        return {revision: (path, result) for (revision, path), result in zip(paths.items(), got, strict=True)}

    return within(make())


async def results_of_mock(path, revision):
    async with connect(*MOCK, str(path), **options(revision)) as client:
        return await converse(client)


@pytest.mark.parametrize("revision", ALL)
def test_a_client_gets_the_same_as_from_the_real_server(real, revision):
    path, got = real[revision]
    assert within(results_of_mock(path, revision)) == got


@pytest.mark.parametrize(
    ("recorded", "asked", "lost"),
    [
        # A newer revision has content that an older recording does not have: another kind of output schema, a log message.
        ("2025-11-25", "2026-07-28", {"tools", "numbers"}),
        ("2026-07-28", "2025-11-25", {"log"}),
        ("2026-07-28", "2024-11-05", {"log"}),
        ("2025-11-25", "2024-11-05", set()),
    ],
)
def test_a_client_of_another_revision_gets_what_can_be_translated(real, recorded, asked, lost):
    path, _ = real[recorded]
    _, wanted = real[asked]
    got = within(results_of_mock(path, asked))
    assert {name for name in wanted if got[name] != wanted[name]} == lost


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_replaying_its_recording_to_it_finds_no_difference(real, run, revision):
    path, _ = real[revision]
    done = run([*REPLAY, str(path), "--", *MOCK, "--strict", str(path)])
    assert (done.returncode, done.stderr) == (0, b""), done.stdout.decode()


# Written recordings


@pytest.fixture
def mock(launch, tmp_path):
    """Start a mock of a recording with these messages."""

    def mock(*said, arguments=(), **more):
        return launch([*MOCK, str(trace_of(tmp_path / "session.jsonl", *said, **more)), *arguments])

    return mock


def answer(id_, said):
    return {"jsonrpc": "2.0", "id": id_, "result": {"content": [{"type": "text", "text": said}]}}


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def texts_of(answered):
    return answered["result"]["content"][0]["text"]


def test_equal_requests_get_their_responses_in_order_and_then_the_last_one(mock):
    child = mock(*handshake(), *(each for n in (1, 2, 3) for each in ((">", call(n, "next")), ("<", answer(n, f"answer {n}")))))
    child.initialize()
    assert [texts_of(child.ask(call(f"c{n}", "next"))) for n in range(5)] == [
        "answer 1",
        "answer 2",
        "answer 3",
        "answer 3",
        "answer 3",
    ]
    assert child.finish() == []


def test_meta_empty_arguments_and_the_order_of_members_are_ignored(mock):
    recorded = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"_meta": {"a": 1}, "name": "t", "arguments": {}}}
    other = call(2, "u", b=2, a=[True, 1.0])
    child = mock(*handshake(), (">", recorded), ("<", answer(1, "t")), (">", other), ("<", answer(2, "u")))
    child.initialize()
    assert texts_of(child.ask(request(5, "tools/call", name="t"))) == "t"
    assert texts_of(child.ask(call(6, "u", a=[True, 1], b=2))) == "u"
    assert "error" in child.ask(call(7, "u", a=[1, 1], b=2))  # to JSON true is not 1
    child.end_input()
    assert child.wait() == 0


def test_a_request_that_was_not_recorded_names_the_nearest(mock):
    child = mock(
        *handshake(), (">", call(1, "add", a=1, b=2)), ("<", answer(1, "3")), (">", call(2, "sub", a=1)), ("<", answer(2, "0"))
    )
    child.initialize()
    error = child.ask(call(1, "add", a=1, b=3))["error"]
    assert error["code"] == -32602
    assert error["message"].startswith("session.jsonl has no tools/call with these params; the nearest of 2 recorded has ")
    assert error["data"]["nearest"] == {"name": "add", "arguments": {"a": 1, "b": 2}}
    assert error["data"]["asked"] == {"name": "add", "arguments": {"a": 1, "b": 3}}
    error = child.ask(request(2, "prompts/list"))["error"]
    assert (error["code"], error["message"]) == (-32601, "session.jsonl has no prompts/list")
    assert child.finish() == []
    assert child.complaints().count("twopipes mock: session.jsonl has no ") == 2


def test_progress_gets_the_live_token_and_comes_before_the_response(mock):
    asked = request(1, "tools/call", name="slow", _meta={"progressToken": "old"})
    steps = [("<", notification("progress", progressToken="old", progress=n)) for n in (1, 2)]
    child = mock(*handshake(), (">", asked), *steps, ("<", answer(1, "done")))
    child.initialize()
    child.send(request("x", "tools/call", name="slow", _meta={"progressToken": 77}))
    assert [child.receive()["params"] for _ in range(2)] == [
        {"progressToken": 77, "progress": 1},
        {"progressToken": 77, "progress": 2},
    ]
    assert texts_of(child.receive()) == "done"
    child.send(request("y", "tools/call", name="slow"))  # no progress without a token
    assert texts_of(child.receive()) == "done"
    assert child.finish() == []


def test_questions_are_asked_again_and_any_response_is_accepted(mock):
    child = mock(
        *handshake(sampling={}),
        (">", call(1, "think")),
        ("<", request(5, "sampling/createMessage", prompt="Hi")),
        (">", {"jsonrpc": "2.0", "id": 5, "result": {}}),
        ("<", answer(1, "thought")),
    )
    child.initialize(sampling={})
    child.send(call(1, "think"))
    question = child.receive()
    assert (question["method"], question["params"]) == ("sampling/createMessage", {"prompt": "Hi"})
    child.send({"jsonrpc": "2.0", "id": question["id"], "result": {"whatever": 1}})
    assert texts_of(child.receive()) == "thought"
    assert child.finish() == []


def test_a_client_without_the_capability_is_not_asked(mock):
    child = mock(*handshake(), (">", call(1, "think")), ("<", request(5, "sampling/createMessage")), ("<", answer(1, "thought")))
    child.initialize()
    assert texts_of(child.ask(call(1, "think"))) == "thought"
    assert child.finish() == []


ASKING = {
    "jsonrpc": "2.0",
    "id": 1,
    "result": {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "?"}}},
        "requestState": "sealed",
    },
}


def test_a_mock_accepts_a_recorded_state_that_it_did_not_send(mock):
    """Requests of the stateless era may go to another process (MR-18)."""
    retry = modern(2, "tools/call", name="ask", requestState="sealed", inputResponses={"k": {"action": "accept"}})
    child = mock((">", modern(1, "tools/call", name="ask")), ("<", ASKING), (">", retry), ("<", answer(2, "thanks")))
    assert texts_of(child.ask(retry | {"id": 9})) == "thanks"
    forged = modern(3, "tools/call", name="ask", requestState="forged", inputResponses={})
    assert child.ask(forged)["error"]["code"] == -32602
    assert child.finish() == []


def test_a_question_of_the_stateless_era_is_asked_in_a_session(mock):
    retry = modern(2, "tools/call", name="ask", requestState="sealed", inputResponses={"k": {"action": "accept"}})
    child = mock((">", modern(1, "tools/call", name="ask")), ("<", ASKING), (">", retry), ("<", answer(2, "thanks")))
    opened = child.initialize(elicitation={})
    assert opened["result"]["protocolVersion"] == "2025-11-25"
    assert opened["result"]["capabilities"] == {"tools": {}}
    child.send(request(1, "tools/call", name="ask"))
    question = child.receive()
    assert (question["method"], question["params"]) == ("elicitation/create", {"message": "?"})
    child.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
    assert texts_of(child.receive()) == "thanks"
    assert child.finish() == []


def test_both_eras_can_open_it(mock):
    child = mock(*handshake(), (">", call(1, "t")), ("<", answer(1, "x")))
    found = child.ask(modern(1, "server/discover"))["result"]
    assert (found["resultType"], found["supportedVersions"]) == ("complete", ["2026-07-28"])
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "s", "version": "1"}
    result = child.ask(modern(2, "tools/call", name="t"))["result"]
    assert (result["resultType"], result["content"][0]["text"]) == ("complete", "x")
    assert child.ask(
        modern(3, "server/discover") | {"params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}}}
    )["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2099-01-01"}
    assert child.finish() == []


def test_strict_responds_only_to_recorded_requests(mock):
    child = mock(*handshake(), (">", call(1, "t")), ("<", answer(1, "x")), arguments=["--strict"])
    child.initialize()
    assert texts_of(child.ask(call(1, "t"))) == "x"
    assert "error" in child.ask(call(2, "t"))
    assert "error" in child.ask(modern(3, "server/discover"))
    child.end_input()
    assert child.wait() == 1


def test_a_missing_response_is_an_error_and_a_cancelled_request_gets_none(mock):
    child = mock(*handshake(), (">", call(1, "given-up")), (">", notification("cancelled", requestId=1)), (">", call(2, "torn")))
    child.initialize()
    child.send(call(1, "given-up"))
    assert child.ask(call(2, "torn"))["error"]["message"] == "session.jsonl ends before the response to this tools/call"
    assert child.finish() == []


def test_redacted_values_match_any_value(mock):
    child = mock(*handshake(), (">", call(1, "login", token="***", user="ada")), ("<", answer(1, "in")), redacted=("token",))
    child.initialize()
    assert texts_of(child.ask(call(1, "login", token="secret", user="ada"))) == "in"
    assert "error" in child.ask(call(1, "login", token="secret", user="bob"))
    child.end_input()
    assert child.wait() == 0


def test_a_batch_gets_one_response(mock):
    child = mock(*handshake("2025-03-26"), (">", call(1, "t")), ("<", answer(1, "x")))
    child.ask(INITIALIZE | {"params": INITIALIZE["params"] | {"protocolVersion": "2025-03-26"}})
    child.send(json.dumps([call(1, "t"), {"jsonrpc": "2.0", "method": "notifications/initialized"}, request(2, "ping")]))
    assert [each["id"] for each in child.receive()] == [1, 2]
    assert child.finish() == []


def test_a_line_that_is_not_a_message_is_rejected_and_the_next_one_served(mock):
    child = mock(*handshake(), (">", call(1, "t")), ("<", answer(1, "x")))
    child.initialize()
    for line, code in (("{oops", -32700), ('{"jsonrpc":"2.0","id":3,"method":5}', -32600), ("[1", -32700), ("NaN", -32700)):
        child.send(line)
        error = child.receive()
        assert error["error"]["code"] == code
        assert error.get("id") == (3 if code == -32600 else None)
    child._send(b"\xff\xfe\n\r\n  \n")
    assert child.receive()["error"]["code"] == -32700
    assert texts_of(child.ask(call(9, "t"))) == "x"
    assert child.finish() == []


def test_a_torn_recording_serves_what_it_has(mock, launch, tmp_path):
    path = trace_of(tmp_path / "torn.jsonl", *handshake(), (">", call(1, "t")), ("<", answer(1, "x")), (">", call(2, "u")))
    path.write_bytes(path.read_bytes() + b'{"at":1,"kind":"<","li')
    child = launch([*MOCK, str(path)])
    child.initialize()
    assert texts_of(child.ask(call(1, "t"))) == "x"
    assert child.finish() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once(mock, number):
    child = mock(*handshake(), (">", call(1, "t")), ("<", answer(1, "x")))
    child.initialize()
    child.signal(number)
    assert child.ended() == []


def test_a_last_line_without_its_newline_is_served(run, tmp_path):
    path = trace_of(tmp_path / "session.jsonl", *handshake())
    done = run([*MOCK, str(path)], input=json.dumps(INITIALIZE).encode())
    assert (done.returncode, json.loads(done.stdout)["id"], done.stderr) == (0, 0, b"")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no trace given"),
        (["a", "b"], "expected one trace, got 2"),
        (["--fast", "a"], "unknown option --fast"),
        (["nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory"),
        (["{no_trace}"], "is not a trace: the file does not begin with the header of a trace"),
        (["{newer}"], "has version 99 of the format"),
    ],
)
def test_a_mistake_is_one_line(run, tmp_path, arguments, said):
    (tmp_path / "no_trace").write_text("hello\n")
    (tmp_path / "newer").write_text('{"twopipes_trace":99}\n')
    done = run([*MOCK, *(each.format(no_trace=tmp_path / "no_trace", newer=tmp_path / "newer") for each in arguments)])
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1
    assert said in done.stderr.decode()


def test_the_help_shows_usage_and_exit_codes(run):
    done = run([*MOCK, "--help"])
    assert done.returncode == 0
    assert b"usage: twopipes mock FILE" in done.stdout
    assert b"exit codes" in done.stdout


def test_the_first_response_needs_none_of_the_heavy_imports(tmp_path):
    path = trace_of(tmp_path / "session.jsonl", *handshake())
    program = (
        "import sys\nbefore = set(sys.modules)\nfrom twopipes._cli import main\nmain(['mock', sys.argv[1]])\n"
        "print(sorted({'asyncio', 'argparse', 'rich', 'subprocess', 'difflib', 'twopipes._protocol.types', 'twopipes._client'}"
        " & sys.modules.keys() - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        input=json.dumps(INITIALIZE).encode() + b"\n",
        capture_output=True,
        timeout=NET,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["protocolVersion"] == "2025-11-25"
    assert done.stderr.split() == [b"[]"]


# Redacted

ASKS_TWICE = """
from typing import TypedDict
from twopipes import Context, Server

server = Server("asks")

class Login(TypedDict):
    password: str

class Choice(TypedDict):
    colour: str

@server.tool
async def paint(ctx: Context, thing: str) -> str:
    await ctx.elicit("Who are you?", Login)
    choice = await ctx.elicit("Which colour?", Choice)
    return f"{thing} is {choice.content['colour']}"

server.run()
"""


def people(password):
    async def answer(question):
        known = {"password": password, "colour": "red"}
        return {name: known[name] for name in question.params.requested_schema["properties"]}

    return {**options("2026-07-28"), "on_elicit": answer}


def words_of(path):
    """Return the text of a recording, with decoded base64."""
    text = path.read_text()
    decoded = [base64.urlsafe_b64decode(word[: len(word) // 4 * 4]) for word in re.findall(r"[\w-]{16,}", text)]
    return text + b"\n".join(decoded).decode(errors="replace")


def test_input_of_the_user_is_not_in_a_redacted_recording_which_can_be_mocked_and_replayed(write, run, tmp_path):
    """MR-05, MR-07: the state of a question contains earlier responses, in both directions."""
    command = [sys.executable, str(write(ASKS_TWICE))]
    plain, redacted = tmp_path / "plain.jsonl", tmp_path / "redacted.jsonl"

    async def paint(target, password, **more):
        async with connect(target, **people(password), **more) as client:
            both = await asyncio.gather(*(client.call_tool("paint", {"thing": thing}) for thing in ("the door", "the door")))
            return [result.text for result in both]

    target = ServerCommand(command, environment="inherit")
    got = within(paint(target, "hunter2-hunter2", trace=plain))
    assert within(paint(target, "hunter2-hunter2", trace=redacted, redact=["Password"])) == got == ["the door is red"] * 2
    assert "hunter2" in words_of(plain)
    assert "hunter2" not in words_of(redacted)

    assert within(paint([*MOCK, str(redacted)], "another one")) == got
    done = run([*REPLAY, str(redacted), "--", *command])
    assert done.returncode == 0, done.stdout.decode()


def test_a_request_matches_if_a_string_of_it_was_redacted(mock):
    recorded = [(">", call(1, "get", url="https://h/?Token=[redacted]&page=1")), ("<", answer(1, "page 1"))]
    child = mock(*handshake(), *recorded, redacted=("token",))
    child.initialize()
    assert texts_of(child.ask(call(1, "get", url="https://h/?Token=secret&page=1"))) == "page 1"
    assert "error" in child.ask(call(2, "get", url="https://h/?page=1"))
    child.end_input()
    assert child.wait() == 0
