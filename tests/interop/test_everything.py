"""Real clients use every feature of ``examples/everything.py``, each in every era that it supports.

Each client runs its tour once, and each test checks one part of its findings and of the messages on the wire.
"""

import base64
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

import pytest

from interop.harness import (
    BY_ITSELF,
    EVERYTHING,
    NET,
    SCRIPTS,
    Launch,
    Line,
    node,
    node_script,
    peer,
    python_of,
    run_client,
    traces,
    tracing,
    visit_of,
    witnessed,
)
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(sys.platform == "win32", reason="the witness reports through a FIFO"),
]

TOOLS = [
    *("echo", "add", "structured", "distance", "blocks", "numbers", "fail", "boom", "slow", "block", "log", "whoami", "ask"),
    *("ask_twice", "ask_at_once", "ask_url", "sample", "roots_tool", "ask_from_a_thread", "mutate", "touch"),
]
RESOURCES = ["note://first", "image://pixel", "notes://all", "broken://always", "gated://secret"]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
FIRST = {"uri": "note://first", "mimeType": "text/plain", "text": "The first note."}
SECOND = {"uri": "note://second", "mimeType": "text/plain", "text": "The second note."}
REVIEW = [{"role": "user", "content": {"type": "text", "text": "Please review this rust code:\npass"}}]


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


# The tours of client libraries


class Tour(NamedTuple):
    """The findings of a client, how the servers that it launched ended, and the conversation with the one that it used."""

    revision: str
    found: dict[str, Any]
    launches: list[Launch]
    wire: list[Line]


def python_client(environment: str, script: str) -> list[str]:
    return [python_of(environment), str(SCRIPTS / script)]


def official_2() -> list[str]:
    return python_client("official-2", "official_2_everything.py")


def official_1() -> list[str]:
    return python_client("official-1", "official_1_everything.py")


def fastmcp() -> list[str]:
    return python_client("fastmcp-4", "fastmcp_everything.py")


def typescript() -> list[str]:
    return node_script("typescript_everything.mjs")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((official_2, "auto", LATEST_MODERN), id="official-2-auto"),
        pytest.param((official_2, "legacy", LATEST_LEGACY), id="official-2-legacy"),
        pytest.param((official_2, LATEST_MODERN, LATEST_MODERN), id="official-2-pinned"),
        pytest.param((official_1, None, LATEST_LEGACY), id="official-1"),
        pytest.param((fastmcp, "auto", LATEST_MODERN), id="fastmcp-auto"),
        pytest.param((fastmcp, "legacy", LATEST_LEGACY), id="fastmcp-legacy"),
        pytest.param((typescript, None, LATEST_LEGACY), id="typescript-default"),
        pytest.param((typescript, "auto", LATEST_MODERN), id="typescript-auto"),
        pytest.param((typescript, {"pin": LATEST_MODERN}, LATEST_MODERN), id="typescript-pinned"),
    ],
)
def tour(request, tmp_path_factory) -> Tour:
    client, mode, revision = request.param
    folder = tmp_path_factory.mktemp("tour")
    visit = visit_of(client(), mode=mode, folder=folder, server=tracing(EVERYTHING, folder / "wire"))
    return Tour(revision, visit.findings, visit.launches, traces(folder / "wire")[-1])


def test_a_client_connects_in_its_preferred_era(tour):
    assert tour.found["revision"] == tour.revision


def test_a_client_lists_all_pages(tour):
    assert tour.found["tools"] == TOOLS
    assert tour.found.get("pages", 3) == 3
    assert tour.found["resources"] == RESOURCES
    assert tour.found["templates"] == ["note://{name}"]
    assert tour.found["prompts"] == ["review", "dialogue", "gated_prompt"]


def test_pages_are_requested_one_after_the_other(tour):
    # The TypeScript client collects all pages itself and does not report their number.
    cursors = [line.message["params"].get("cursor") for line in asked(tour, "tools/list") if "params" in line.message]
    assert len({cursor for cursor in cursors if cursor}) >= 2


def test_a_client_calls_tools_and_sees_which_failed(tour):
    calls = tour.found["calls"]
    results = {name: (result["content"], result.get("isError", False)) for name, result in calls.items()}
    assert results == {
        "echo": (text("h\u00e9llo\n\u2028"), False),
        "structured": (text('{"city":"Bergen","celsius":7.5,"conditions":"sun"}'), False),
        "numbers": (text("[0,1,2]"), False),
        "fail": (text("This tool always fails."), True),
        "boom": (text("The tool boom failed: RuntimeError"), True),
    }
    structured = {name: result["structuredContent"] for name, result in calls.items() if "structuredContent" in result}
    # A result of the handshake era cannot hold a value that is not an object.
    assert structured == {
        "echo": {"result": "h\u00e9llo\n\u2028"},
        "structured": {"city": "Bergen", "celsius": 7.5, "conditions": "sun"},
        **({"numbers": [0, 1, 2]} if tour.revision == LATEST_MODERN else {}),
    }


def test_a_client_gets_a_block_of_each_kind(tour):
    blocks = tour.found["blocks"]
    assert isinstance(blocks, list), blocks
    assert [block["type"] for block in blocks] == ["text", "image", "audio", "resource_link", "resource", "text"]
    assert blocks[1] == {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    assert base64.b64decode(blocks[2]["data"]).startswith(b"RIFF")
    assert (blocks[3]["uri"], blocks[3]["name"]) == ("note://first", "first")
    assert blocks[4]["resource"] == SECOND
    assert blocks[5]["annotations"] == {"audience": ["user"], "priority": 0.5}


def test_a_client_reads_texts_bytes_and_templates(tour):
    assert tour.found["read"] == {
        "note://first": [FIRST],
        "image://pixel": [{"uri": "image://pixel", "mimeType": "image/png", "blob": PIXEL}],
        "note://second": [SECOND],
    }


def test_a_client_gets_prompts_and_completes_their_arguments(tour):
    assert tour.found["review"] == REVIEW
    assert tour.found["dialogue"] == [
        {"role": "user", "content": {"type": "text", "text": "Let us talk about tea."}},
        {"role": "assistant", "content": {"type": "text", "text": "With pleasure."}},
        {"role": "user", "content": {"type": "resource", "resource": FIRST}},
    ]
    topics, *others = tour.found["completed"]
    assert topics.pop("values") == [f"topic-{number}" for number in range(250) if str(number).startswith("1")][:100]
    assert topics == {"total": 111, "hasMore": True}
    assert others == [
        {"values": ["rust"], "total": 1, "hasMore": False},
        {"values": ["second"], "total": 1, "hasMore": False},
    ]


def test_a_client_answers_the_questions_of_handlers(tour):
    assert tour.found["asked"] == {
        "ask": "Ada is 36",
        "ask_twice": "Ada likes green",
        "ask_at_once": "Ada, 1 roots",
        "ask_from_a_thread": "accept",
        "ask_url": "accept",
        "gated://secret": [{"uri": "gated://secret", "mimeType": "text/plain", "text": "The secret of Ada"}],
        "gated_prompt": [{"role": "user", "content": {"type": "text", "text": "I am Ada"}}],
        "ask, declined": "the user said decline",
        "sample": "the model heard: hm",
        "roots": ["file:///home/ada"],
    }
    who = "Who are you?"
    page = "Please log in. https://login.example/start"
    likes = "What do you like, Ada?"
    assert tour.found["questions"] == [who, who, likes, who, who, page, "Who wants to know?", "Who asks?", who]


def test_questions_are_requests_in_one_era_and_results_in_the_other(tour):
    requests = [line for line in sent(tour) if "method" in line.message and "id" in line.message]
    unfinished = [line for line in sent(tour) if line.message.get("result", {}).get("resultType") == "input_required"]
    assert (len(requests), len(unfinished)) == ((0, 11) if tour.revision == LATEST_MODERN else (12, 0))


def test_a_client_gets_log_messages_from_the_level_it_chose(tour):
    levels = ["warning", "error", "critical", "alert", "emergency"]
    assert tour.found["logged"] == [[level, {"says": level}, "everything"] for level in levels]


def test_a_client_follows_the_progress_of_a_call(tour):
    assert tour.found["slow"] == "3 steps"
    steps = [[step, 3, f"step {step}"] for step in (1, 2, 3)]
    (call,) = calls_of(tour, "slow", steps=3)
    assert [[params["progress"], params["total"], params["message"]] for params in progress_of(tour, call)] == steps
    # The TypeScript client handles a notification later than a response that came with it in one read, and then complains
    # that the token is unknown.
    missed = []
    for complaint in tour.found.get("complaints", []):
        problem, _, notification = complaint.partition("unknown token: ")
        assert problem.startswith("Received a progress notification")
        missed.append(json.loads(notification)["params"])
    late = [[params["progress"], params["total"], params["message"]] for params in missed if params["total"] == 3]
    assert tour.found["progress"] + late == steps


def test_a_client_is_notified_of_changes_while_it_watches(tour):
    updated = ["notifications/resources/updated", "note://first"]
    changed = ["notifications/tools/list_changed"]
    assert tour.found["changes"] == [updated, changed, ["extra"], changed, []]
    assert tour.found["touched"] == [{**FIRST, "text": "A new note."}]


def test_a_change_is_sent_once_and_only_while_it_is_watched(tour):
    assert [line.message.get("method") for line in sent(tour)].count("notifications/tools/list_changed") == 2
    # It was touched once more at the end, when it was no longer watched. The official Python client unsubscribes in the
    # background, so that its next request may come first: what counts is when the server received it.
    assert len(calls_of(tour, "touch")) == 2
    (left,) = [line for line in tour.wire if line.direction == ">" and ends_the_watch(line)]
    updated = "notifications/resources/updated"
    methods = [line.message.get("method") for line in tour.wire if line.direction == "<"]
    assert methods.count(updated) >= 1
    assert updated not in [line.message.get("method") for line in tour.wire[tour.wire.index(left) :]]


def test_a_client_cancels_a_call_and_the_server_continues(tour):
    assert tour.found["cancelled"] in {"CancelledError", "the tour has seen enough"}
    assert tour.found["afterwards"] == "still here"


def test_a_cancelled_call_gets_no_response(tour):
    (call,) = calls_of(tour, "slow", steps=1_000_000)
    request_id = call.message["id"]
    (cancelled,) = [line for line in asked(tour, "notifications/cancelled") if line.message["params"]["requestId"] == request_id]
    assert not [line for line in sent(tour) if line.message.get("id") == request_id and "method" not in line.message]
    assert progress_of(tour, call)
    assert not progress_of(tour, call, since=cancelled)


def test_every_other_request_is_answered_once(tour):
    given_up = {key(line.message["params"]["requestId"]) for line in asked(tour, "notifications/cancelled")}
    requests = [key(line.message["id"]) for line in tour.wire if line.direction == ">" and is_request(line)]
    answers = [key(line.message["id"]) for line in sent(tour) if "method" not in line.message]
    assert len(set(requests)) == len(requests)
    assert sorted(answers) == sorted(request for request in requests if request not in given_up)


def test_a_server_exits_when_its_client_does(tour):
    assert tour.launches[-1] == BY_ITSELF
    # The TypeScript client ends a first process as soon as it knows its era; how it does so does not matter here.
    assert len(tour.launches) <= 2


def sent(tour: Tour) -> list[Line]:
    return [line for line in tour.wire if line.direction == "<"]


def asked(tour: Tour, method: str) -> list[Line]:
    return [line for line in tour.wire if line.direction == ">" and line.message.get("method") == method]


def ends_the_watch(line: Line) -> bool:
    if line.message.get("method") == "resources/unsubscribe":
        return True
    # The ids of listens are texts in every client, those of other requests are numbers.
    return line.message.get("method") == "notifications/cancelled" and isinstance(line.message["params"]["requestId"], str)


def is_request(line: Line) -> bool:
    return "method" in line.message and "id" in line.message


def key(request_id: Any) -> str:
    """Return an id with its type: 1 and "1" are different."""
    return json.dumps(request_id)


def calls_of(tour: Tour, tool: str, **arguments: Any) -> list[Line]:
    calls = [line for line in asked(tour, "tools/call") if line.message["params"]["name"] == tool]
    return [line for line in calls if arguments.items() <= line.message["params"]["arguments"].items()]


def progress_of(tour: Tour, call: Line, *, since: Line | None = None) -> list[dict[str, Any]]:
    token = call.message["params"]["_meta"]["progressToken"]
    lines = tour.wire[tour.wire.index(since) if since is not None else 0 :]
    reports = [line.message["params"] for line in lines if line.message.get("method") == "notifications/progress"]
    return [params for params in reports if params["progressToken"] == token]


# The Inspector is a program: one connection for each request


ERAS = [
    pytest.param(("--protocol-era", "legacy"), LATEST_LEGACY, id="legacy"),
    pytest.param(("--protocol-era", "auto"), LATEST_MODERN, id="auto"),
    pytest.param(("--protocol-era", "modern"), LATEST_MODERN, id="modern"),
]


class Inspected(NamedTuple):
    """The exit code, stdout and stderr of the Inspector, and the messages on the wire."""

    exit_code: int
    result: Any
    error: Any
    wire: list[Line]


def inspector(command: list[str], era: tuple[str, ...], *request: str) -> list[str]:
    launcher = peer("npm") / "node_modules" / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
    return [node(), str(launcher), "--cli", "--format", "json", "--quiet", *era, *command, *request]


@pytest.fixture
def inspect(tmp_path):
    def inspect(era: tuple[str, ...], *request: str) -> Inspected:
        def run(command: list[str]) -> subprocess.CompletedProcess[bytes]:
            return run_client(inspector(command, era, *request), tmp_path)

        done, launches = witnessed(tracing(EVERYTHING, tmp_path / "wire"), run, folder=tmp_path)
        assert launches == [BY_ITSELF]
        (wire,) = traces(tmp_path / "wire")
        complaint = (tmp_path / "stderr").read_bytes()
        return Inspected(
            done.returncode,
            json.loads(done.stdout)["result"] if done.stdout else None,
            json.loads(complaint)["error"] if complaint else None,
            wire,
        )

    return inspect


# Lists are compared by the names of their items.
NAMED_BY = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


@pytest.mark.parametrize(("era", "revision"), ERAS)
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        pytest.param(["tools/list"], {"tools": TOOLS}, id="tools-list"),
        pytest.param(
            ["tools/call", "--tool-name", "echo", "--tool-arg", "text=h\u00e9llo"], {"content": text("h\u00e9llo")}, id="tools-call"
        ),
        pytest.param(["resources/list"], {"resources": RESOURCES}, id="resources-list"),
        pytest.param(["resources/templates/list"], {"resourceTemplates": ["note://{name}"]}, id="templates-list"),
        pytest.param(["resources/read", "--uri", "note://second"], {"contents": [SECOND]}, id="resources-read"),
        pytest.param(["prompts/list"], {"prompts": ["review", "dialogue", "gated_prompt"]}, id="prompts-list"),
        pytest.param(
            ["prompts/get", "--prompt-name", "review", "--prompt-args", "code=pass", "language=rust"],
            {"messages": REVIEW},
            id="prompts-get",
        ),
    ],
)
def test_the_inspector_gets_the_expected_result(era, revision, method, expected, inspect):
    inspected = inspect(era, "--method", *method)
    assert inspected.error is None
    assert inspected.exit_code == 0
    assert revision_of(inspected.wire) == revision
    ((member, values),) = expected.items()
    found = inspected.result[member]
    assert ([item[NAMED_BY[member]] for item in found] if member in NAMED_BY else found) == values


def test_the_inspector_opens_with_the_handshake_by_default(inspect):
    inspected = inspect((), "--method", "tools/list")
    assert (inspected.exit_code, inspected.error) == (0, None)
    assert revision_of(inspected.wire) == LATEST_LEGACY


@pytest.mark.parametrize(("era", "revision"), ERAS)
def test_the_inspector_reports_a_failed_tool(era, revision, inspect):
    inspected = inspect(era, "--method", "tools/call", "--tool-name", "fail")
    assert (inspected.exit_code, inspected.error["code"]) == (5, "tool_is_error")
    assert (inspected.result["content"], inspected.result["isError"]) == (text("This tool always fails."), True)


@pytest.mark.parametrize(("era", "revision"), ERAS)
def test_the_inspector_answers_the_only_question_it_supports(era, revision, inspect):
    inspected = inspect(era, "--method", "tools/call", "--tool-name", "roots_tool")
    assert (inspected.exit_code, inspected.result["structuredContent"]) == (0, {"result": []})
    results = [line.message["result"] for line in inspected.wire if line.direction == "<" and "result" in line.message]
    assert ("input_required" in [result.get("resultType") for result in results]) is (revision == LATEST_MODERN)


@pytest.mark.parametrize(("era", "revision"), ERAS)
def test_the_inspector_gets_an_error_for_a_form_it_cannot_show(era, revision, inspect):
    """Its command line declares no elicitation, so a form must not reach it. A session gets a result with isError."""
    inspected = inspect(era, "--method", "tools/call", "--tool-name", "ask")
    explained = "This request needs a client that declares the capability elicitation"
    if revision == LATEST_MODERN:
        assert inspected.exit_code == 1
        assert inspected.error["message"] == explained
        (refusal,) = [line.message["error"] for line in inspected.wire if "error" in line.message]
        assert refusal["code"] == -32021
        assert refusal["data"] == {"requiredCapabilities": {"elicitation": {}}}
    else:
        assert inspected.exit_code == 5  # the Inspector's exit code for a failed tool
        assert inspected.result["isError"] is True
        assert inspected.result["content"] == [{"type": "text", "text": explained}]


@pytest.mark.parametrize("era", [ERAS[0].values[0], ERAS[2].values[0]], ids=["legacy", "modern"])
def test_a_server_exits_when_the_inspector_is_interrupted(era, tmp_path):
    """An interrupted Inspector exits without cancelling; the server gives the call the usual time, and exits too."""
    wire = tmp_path / "wire"
    os.mkfifo(wire)
    heard = os.open(wire, os.O_RDWR | os.O_NONBLOCK)

    def run(command: list[str]) -> int:
        request = ("--method", "tools/call", "--tool-name", "slow", "--tool-arg", "steps=1000000", "seconds=0.01")
        with subprocess.Popen(
            inspector(command, era, *request), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as client:
            try:
                wait_for(heard, rb"\"name\":\"slow\",\"arguments\"")  # JSON inside a JSON string
                client.send_signal(signal.SIGINT)
                return client.wait(NET)
            finally:
                client.kill()

    try:
        server = ["env", f"TWOPIPES_TRACE={wire}", *EVERYTHING]
        code, launches = witnessed(server, run, folder=tmp_path)
    finally:
        os.close(heard)
    assert code in {-signal.SIGINT, 130}
    assert launches == [BY_ITSELF]


def wait_for(pipe: int, wanted: bytes) -> None:
    """Read until some bytes have been written."""
    read = bytearray()
    deadline = time.monotonic() + NET
    while wanted not in read:
        assert select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0], bytes(read)
        read += os.read(pipe, 65536)


def revision_of(wire: list[Line]) -> str:
    """Return the revision of the last request."""
    if any(line.message.get("method") == "initialize" for line in wire):
        (agreed,) = [
            line.message["result"]["protocolVersion"] for line in wire if "protocolVersion" in line.message.get("result", {})
        ]
        return str(agreed)
    requests = [line.message for line in wire if line.direction == ">" and is_request(line)]
    return str(requests[-1]["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"])
