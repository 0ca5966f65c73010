"""Two sessions joined by two streams of bytes, with everything that can happen to them in any order.

A script is a list of numbers that Hypothesis draws. Playing it moves bytes, lets both sides speak, throws garbage in and ends the
streams. Two watchers read along: what each side received and wrote, line by line, must obey the rules whatever the script.
"""

import contextlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessions import (
    ABLE,
    EVERYTHING,
    FORM,
    ROOTS,
    SAMPLE,
    TAG,
    answer,
    cancelled,
    client_session,
    error,
    modern,
    note,
    request,
    server_session,
)
from twopipes._jsonrpc import encode
from twopipes._protocol import types
from twopipes._protocol.methods import RESULTS
from twopipes._protocol.revisions import ALL, LEGACY
from twopipes._session.events import (
    CallAbandoned,
    CallCancelled,
    CallReceived,
    ClientOpened,
    InputsAnswered,
    ListenEnded,
    OpeningEnded,
    RequestEnded,
)
from twopipes._session.subscriptions import Change
from twopipes.errors import InternalError, TwopipesError
from twopipes.settings import InputPolicy, Timeouts

RESULT = {
    "tools/call": types.CallToolResult([types.TextContent("é\n\u2028")]),
    "tools/list": types.ListToolsResult([]),
    "resources/read": types.ReadResourceResult([types.ResourceContents("x:", text="")]),
    "roots/list": types.ListRootsResult([]),
    "sampling/createMessage": types.CreateMessageResult("assistant", types.TextContent("hi"), "m"),
    "elicitation/create": types.ElicitResult("accept", {"name": "Anna"}),
}
QUESTIONS = ({"q": FORM}, {"q": ROOTS}, {"a": FORM, "b": SAMPLE}, {"q": SAMPLE})
CHANGES = (Change("tools"), Change("prompts"), Change("resource", "x:a/b"))
FILTERS = (
    types.SubscriptionFilter(),
    types.SubscriptionFilter(tools_list_changed=True),
    types.SubscriptionFilter(tools_list_changed=True, prompts_list_changed=True, resource_subscriptions=["x:a"]),
)
NOISE = (b"{oops\n", b"\n", b"hello\r\n", b"\xff\n", b"5\n", b'{"jsonrpc":"2.0"}\n', b"[]\n", b'[{"jsonrpc":"2.0","method":"x"}]\n')
LISTEN_9 = {"toolsListChanged": True}
FROM_NO_CLIENT = (
    modern("g1", "tools/call", can=ABLE, name="x", meta={"progressToken": "g1"}),
    modern("g2", "subscriptions/listen", notifications=LISTEN_9),
    modern(9, "subscriptions/listen", notifications=LISTEN_9),
    modern("9", "subscriptions/listen", notifications=LISTEN_9),
    modern(3, "tools/list"),
    modern("g1", "nope"),
    request("g3", "tools/call", name="x"),
    request("g4", "ping"),
    cancelled("g1"),
    cancelled(9),
    cancelled(3),
    cancelled(4),
    cancelled("4"),
    note("notifications/cancelled", requestId={}),
    note("notifications/nope"),
    answer(1),
    answer(2, roots=[]),
    error("g9", -1),
    {"jsonrpc": "2.0", "id": "g5", "method": 5},
)
FROM_NO_SERVER = (
    request("s1", "ping"),
    request("s2", "roots/list"),
    request(5, "elicitation/create", message="?", requestedSchema={"type": "object", "properties": {}}),
    request("s2", "nope"),
    cancelled("s2"),
    cancelled(2),
    cancelled(4),
    answer(2),
    answer("2", tools=[]),
    answer(4, tools=[], resultType="weird"),
    error(3, -32603),
    {"jsonrpc": "2.0", "error": {"code": -32700, "message": "?"}},
    note("notifications/progress", progressToken=3, progress=1),
    note("notifications/tools/list_changed", _meta={TAG: 3}),
    note("notifications/subscriptions/acknowledged", notifications={}, _meta={TAG: 4}),
    {"jsonrpc": "2.0", "id": 4, "result": 5},
)


def is_id(value):
    return isinstance(value, str | int) and not isinstance(value, bool)


def key(value):
    """Return an id with its type, because 1 == 1.0 == True in Python."""
    return type(value).__name__, value


class Watch:
    """The lines that one side received and wrote."""

    def __init__(self):
        self.open = {}  # the requests without a response, by id
        self.in_batches = set()
        self.progress = {}
        self.acknowledged = set()
        self.sent = set()

    def received(self, line):
        try:
            message = json.loads(line)
        except ValueError:
            return
        for each in message if isinstance(message, list) else [message]:
            if not isinstance(each, dict):
                continue
            params = each.get("params")
            if is_id(each.get("id")) and "result" not in each and "error" not in each:
                if key(each["id"]) not in self.open:
                    self.open[key(each["id"])] = each
                    if isinstance(message, list):
                        self.in_batches.add(key(each["id"]))
            elif each.get("method") == "notifications/cancelled" and isinstance(params, dict) and is_id(params.get("requestId")):
                self.forget(params["requestId"])

    def forget(self, request_id):
        self.open.pop(key(request_id), None)
        self.progress.pop(key(request_id), None)
        self.acknowledged.discard(key(request_id))

    def wrote(self, line):
        assert line.endswith(b"\n")
        message = json.loads(line.decode("utf-8"))  # FR-01, FR-03
        if isinstance(message, list):
            assert message  # JR-13
            for each in message:
                assert each.get("id") is None or key(each["id"]) in self.in_batches
            return message
        assert isinstance(message, dict)
        assert message["jsonrpc"] == "2.0"
        if "method" not in message:
            assert ("result" in message) is not ("error" in message)  # JR-07
            if message.get("id") is not None:
                # CA-04, CA-07: only what is open is answered, so nothing twice and nothing after a cancel.
                assert key(message["id"]) in self.open
                self.forget(message["id"])
        elif "id" in message:
            assert key(message["id"]) not in self.sent  # JR-04
            self.sent.add(key(message["id"]))
        return message

    def check_progress(self, params):
        """PR-02, PR-03, PR-04, PR-08."""
        token = key(params["progressToken"])
        owners = [
            owner
            for owner, message in self.open.items()
            if key(message.get("params", {}).get("_meta", {}).get("progressToken")) == token
        ]
        assert owners
        (owner, *_) = owners
        assert params["progress"] > self.progress.get(owner, float("-inf"))
        self.progress[owner] = params["progress"]

    def check_tag(self, method, tag):
        """SU-02, SU-04, SU-11."""
        assert self.open[key(tag)]["method"] == "subscriptions/listen"
        if method == "notifications/subscriptions/acknowledged":
            assert key(tag) not in self.acknowledged
            self.acknowledged.add(key(tag))
        else:
            assert key(tag) in self.acknowledged


class Play:
    """One run of a script."""

    def __init__(self, revision, *, cuts):
        self.legacy = revision in LEGACY
        self.cuts = cuts
        self.now = 0.0
        self.client = client_session(
            revisions=(revision,), timeouts=Timeouts(request=20.0, total=50.0, probe=20.0, connect=20.0), capabilities=ABLE
        )
        self.server = server_session(
            revisions=ALL, capabilities=EVERYTHING, questions=InputPolicy(wait=15.0, max_waiting=2, max_rounds=4)
        )
        self.to_server = b""
        self.to_client = b""
        self.partial = {"server": b"", "client": b""}
        self.by_server, self.by_client = Watch(), Watch()
        self.said = {"server": [], "client": []}
        self.asked, self.ended, self.asking = [], [], []
        self.calls, self.questions, self.waiting = [], [], []
        self.openings = 0
        self.initialized = False
        self.client.open(now=0.0)
        self.drain()

    # Bytes

    def move(self, where, amount):
        """Move some of the pending bytes, in the chunks of this run."""
        stream = self.to_server if where == "server" else self.to_client
        data, rest = stream[:amount], stream[amount:]
        if where == "server":
            self.to_server = rest
        else:
            self.to_client = rest
        session = self.server if where == "server" else self.client
        for piece in self.pieces(data):
            watch = self.by_server if where == "server" else self.by_client
            *lines, self.partial[where] = (self.partial[where] + piece).split(b"\n")
            for line in lines:
                watch.received(line)
                self.initialized |= where == "server" and b"notifications/initialized" in line
            self.take(session.receive(piece, now=self.now))
            self.drain()

    def pieces(self, data):
        """Small chunks if the rules are checked; otherwise all bytes at once."""
        if self.cuts is None:
            return [data]
        size = self.cuts
        return [line[start : start + size] for line in data.splitlines(keepends=True) for start in range(0, len(line), size)]

    def drain(self):
        for name, session in (("server", self.server), ("client", self.client)):
            data = session.data_to_send()
            assert not data or data.endswith(b"\n")
            lines = data.split(b"\n")[:-1]
            self.said[name] += [normal(line) for line in lines]
            if self.cuts is not None:
                for line in lines:
                    (self.check_server if name == "server" else self.check_client)(line + b"\n")
            if name == "server":
                self.to_client += data
            else:
                self.to_server += data

    # The rules

    def check_server(self, line):
        watch = self.by_server
        message = watch.wrote(line)
        if isinstance(message, list):
            return
        method, params = message.get("method"), message.get("params") or {}
        if method is not None and "id" in message:
            assert self.legacy  # FR-09
            assert self.initialized or method == "ping"  # LC-06, DE-16
        elif method == "notifications/progress":
            watch.check_progress(params)
        elif method == "notifications/cancelled":
            named = key(params["requestId"])
            # CA-02, CA-09: an open listen, or a request of its own.
            assert named in watch.sent or watch.open[named]["method"] == "subscriptions/listen"
        if TAG in params.get("_meta", {}) and method != "notifications/cancelled":
            watch.check_tag(method, params["_meta"][TAG])

    def check_client(self, line):
        message = self.by_client.wrote(line)
        if isinstance(message, list):
            assert self.legacy
        elif "method" not in message:
            assert self.legacy  # FR-10
        elif message["method"] == "notifications/cancelled":
            assert key(message["params"]["requestId"]) in self.by_client.sent  # CA-08

    # Events

    def take(self, events):
        for event in events:
            match event:
                case RequestEnded() | ListenEnded() if event.asked in self.asked:
                    self.ended.append(event.asked)
                    if isinstance(event, RequestEnded) and isinstance(event.result, types.InputRequiredResult):
                        self.asking.append((event.asked, event.result))
                case CallReceived() if event.call.method in RESULT:
                    (self.calls if event.call.method in ("tools/call", "tools/list", "resources/read") else self.questions).append(
                        event.call
                    )
                case InputsAnswered():
                    self.waiting.remove(event.call)  # only waiting calls get answers
                case CallAbandoned() | CallCancelled():
                    self.stop_waiting(event.call)
                case ClientOpened() | OpeningEnded():
                    self.openings += 1

    def stop_waiting(self, call):
        self.waiting = [each for each in self.waiting if each is not call]

    # Steps

    def step(self, op, index, amount):
        with contextlib.suppress(TwopipesError):  # a side may raise; then nothing was written or recorded
            getattr(self, op)(index, amount)
        self.drain()

    def to_the_server(self, _index, amount):
        self.move("server", len(self.to_server) if amount < 3 else amount * 17)

    def to_the_client(self, _index, amount):
        self.move("client", len(self.to_client) if amount < 3 else amount * 17)

    def ask(self, index, _amount):
        methods = ("tools/call", "tools/list", "resources/read", "com.example/own", "tools/call", "ping")
        method = methods[index % len(methods)]
        params = {"tools/call": types.CallToolParams("x"), "resources/read": types.ReadResourceParams("x:")}.get(method)
        self.asked.append(self.client.request(method, params, now=self.now))

    def subscribe(self, index, _amount):
        self.asked.append(self.client.listen(FILTERS[index % len(FILTERS)], now=self.now))

    def give_up(self, index, _amount):
        if self.asked:
            self.client.cancel(self.asked[index % len(self.asked)])

    def try_again(self, index, amount):
        if self.asking:
            asked, result = self.asking[index % len(self.asking)]
            answers = {name: RESULT[question.__struct_config__.tag] for name, question in (result.input_requests or {}).items()}
            if amount == 1:
                answers.popitem()
            self.asked.append(self.client.retry(asked, result, answers, now=self.now))

    def reply(self, index, amount):
        """The host of the client answers a question of the server."""
        if self.questions:
            call = self.questions[index % len(self.questions)]
            if amount == 1:
                self.client.fail(call, InternalError("no"))
            else:
                self.client.respond(call, RESULT[call.method])

    def respond(self, index, amount):
        if self.calls:
            call = self.calls[index % len(self.calls)]
            done = self.server.fail(call, InternalError("no")) if amount == 1 else self.server.respond(call, RESULT[call.method])
            if done:
                self.stop_waiting(call)

    def report(self, index, amount):
        if self.calls:
            call = self.calls[index % len(self.calls)]
            self.server.report_progress(call, amount, 10)
            self.server.log("error", amount, call=call)

    def question(self, index, amount):
        if self.calls:
            call = self.calls[index % len(self.calls)]
            if self.server.ask(call, QUESTIONS[amount % len(QUESTIONS)], now=self.now) is None:
                self.waiting.append(call)

    def announce(self, index, _amount):
        self.server.announce(CHANGES[index % len(CHANGES)])

    def end_listens(self, _index, _amount):
        self.server.end_listens()

    def server_pings(self, _index, _amount):
        self.server.ping(now=self.now, limit=3.0)

    def wait(self, _index, amount):
        self.now += amount * 4.0
        self.take(self.server.tick(now=self.now))
        self.take(self.client.tick(now=self.now))

    def noise_to_server(self, index, amount):
        self.to_server += NOISE[(index + amount) % len(NOISE)]

    def noise_to_client(self, index, amount):
        self.to_client += NOISE[(index + amount) % len(NOISE)]

    def lie_to_server(self, index, amount):
        self.to_server += encode(FROM_NO_CLIENT[(index * 6 + amount) % len(FROM_NO_CLIENT)])

    def lie_to_client(self, index, amount):
        self.to_client += encode(FROM_NO_SERVER[(index * 6 + amount) % len(FROM_NO_SERVER)])

    def end(self):
        """Deliver the pending bytes, then end both streams."""
        self.move("server", len(self.to_server))
        self.move("client", len(self.to_client))
        self.take(self.server.receive_eof(now=self.now))
        self.take(self.client.receive_eof(now=self.now))
        self.take(self.server.tick(now=self.now))
        self.take(self.client.tick(now=self.now))
        for op in ("ask", "subscribe", "question", "server_pings"):  # a side that does not know yet that the connection is over
            self.step(op, 0, 0)
        self.take(self.server.tick(now=self.now))
        for call in self.calls:  # SD-07: who works may still answer
            self.server.respond(call, RESULT[call.method])
        self.drain()


def normal(line):
    """Return a line without its intentionally random parts."""
    line = re.sub(rb'"requestState":"[^"]*"', b'"requestState":"..."', line)
    return re.sub(rb'"elicitationId":"[^"]*"', b'"elicitationId":"..."', line)


OPS = [
    *["to_the_server", "to_the_client", "ask"] * 4,
    *["respond", "report", "question", "try_again", "reply", "subscribe", "announce", "give_up"] * 2,
    "end_listens",
    "server_pings",
    "wait",
    "noise_to_server",
    "noise_to_client",
    "lie_to_server",
    "lie_to_client",
]
steps = st.tuples(st.sampled_from(OPS), st.integers(0, 5), st.integers(0, 5))
# A minimum length, because by default Hypothesis draws about five steps, which do not reach much.
scripts = st.lists(steps, min_size=30, max_size=100) | st.lists(steps, max_size=30)


def play(revision, script, *, cuts, opened=3):
    """Run a script from a stage of the opening: not started (0), at the server, back at the client, complete (3)."""
    run = Play(revision, cuts=cuts)
    for where in ("server", "client", "server")[:opened]:
        run.move(where, len(run.to_server if where == "server" else run.to_client))
    for op, index, amount in script:
        run.step(op, index, amount)
    run.end()
    return run


@pytest.mark.parametrize("revision", ALL)
@settings(max_examples=2 * settings.default.max_examples)
@given(script=scripts, cuts=st.integers(1, 200), opened=st.sampled_from([3, 3, 3, 2, 1, 0]))
def test_the_rules_hold_for_any_script_and_every_request_ends(revision, script, cuts, opened):
    """CA-04, CA-07, PR-03, FR-09, FR-10, FR-13, JR-06, SU-02, SU-04, SU-15, DE-12, DE-16, MR-18, JR-20."""
    run = play(revision, script, cuts=cuts, opened=opened)
    # Each request ended exactly once.
    assert len(run.ended) == len({id(asked) for asked in run.ended})
    assert {id(asked) for asked in run.asked} == {id(asked) for asked in run.ended}
    assert run.openings == 1
    # No handler waits for an answer that will not come, and the ledgers are empty.
    assert run.waiting == []
    assert len(run.server.outgoing) == len(run.client.outgoing) == 0
    assert len(run.server._rounds.waiting) == len(run.server._requests.groups) == 0
    assert run.server.next_deadline() is None
    assert run.client.next_deadline() is None
    # The output does not depend on the chunks (FR-13).
    whole = play(revision, script, cuts=None, opened=opened)
    assert whole.said == run.said


def test_scripts_reach_every_part_of_the_protocol():
    """A check of the test: scripts reach questions, retries, listens and cancellations."""
    through = [
        *[("ask", 0, 0), ("to_the_server", 0, 0), ("report", 0, 1), ("report", 0, 2), ("question", 0, 0), ("to_the_client", 0, 0)],
        *[("try_again", 0, 0), ("reply", 0, 0), ("to_the_server", 0, 0), ("respond", 0, 0), ("to_the_client", 0, 0)],
        *[("subscribe", 1, 0), ("to_the_server", 0, 0), ("announce", 0, 0), ("end_listens", 0, 0), ("to_the_client", 0, 0)],
        *[("ask", 0, 0), ("to_the_server", 0, 0), ("give_up", -1, 0), ("to_the_server", 0, 0), ("respond", -1, 0)],
    ]
    for revision in ALL:
        run = play(revision, through, cuts=50)
        text = b"\n".join(run.said["server"] + run.said["client"])
        expected = [b"notifications/progress", b"notifications/cancelled", b"Your name?", b'"result":{"content":[{']
        if revision == ALL[-1]:
            expected += [b"input_required", b"inputResponses", b"subscriptions/acknowledged", b"tools/list_changed"]
        elif revision < "2025-06-18":
            expected.remove(b"Your name?")
        assert [each for each in expected if each not in text] == [], revision


def test_every_response_in_a_script_matches_its_method():
    assert all(isinstance(result, RESULTS[method]) for method, result in RESULT.items())
