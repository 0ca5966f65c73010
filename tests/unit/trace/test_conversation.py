"""The model of a recorded conversation: what belongs to what."""

import pytest
from msgspec import UNSET

from twopipes._trace.conversation import Conversation, read_conversation
from twopipes._trace.format import Damage, Event, Line
from twopipes._trace.message import Message
from unit.trace.recordings import DISCOVERY, call, done, entries, handshake, meta, modern, note, played, recording, transcripts

TAG = "io.modelcontextprotocol/subscriptionId"


def of(conversation, request_id):
    """The calls with that id."""
    return [each for each in conversation.calls if type(each.id) is type(request_id) and each.id == request_id]


def shapes(*lines, kind="<"):
    return [message.shape for message in recording(*((kind, line) for line in lines)).messages]


def test_requests_and_answers_are_paired_whatever_their_order():
    conversation = recording(
        (">", call(1, "tools/call", name="a")),
        (">", call(2, "tools/call", name="b")),
        ("<", {"id": 2, "result": {}}),
        ("<", {"id": 1, "error": {"code": 1, "message": "no"}}),
    )
    first, second = conversation.calls
    assert (first.state, second.state) == ("error", "answered")
    assert first.latency == pytest.approx(0.3)
    assert second.latency == pytest.approx(0.1)
    assert [message.call for message in conversation.messages] == [first, second, second, first]
    assert [message.index for message in conversation.messages] == [1, 2, 3, 4]


def test_ids_keep_their_type():
    """JR-06: 7 and "7" are two requests, and true is not a number."""
    conversation = recording(
        (">", call(1, "a")), (">", call("1", "b")), ("<", {"id": "1", "result": {}}), ("<", {"id": True, "result": {}})
    )
    assert [each.state for each in conversation.calls] == ["open", "answered"]


def test_both_sides_count_for_themselves():
    conversation = recording(
        (">", call(1, "a")), ("<", call(1, "b")), (">", {"id": 1, "result": {"to": "b"}}), ("<", {"id": 1, "result": {}})
    )
    from_client, from_server = conversation.calls
    assert (from_client.direction, from_server.direction) == (">", "<")
    assert from_server.answer.result == {"to": "b"}
    assert from_client.answer.direction == "<"


def test_a_second_answer_is_kept_beside_the_first():
    conversation = recording((">", call(1, "a")), ("<", {"id": 1, "result": {}}), ("<", {"id": 1, "result": {"again": 1}}))
    (one,) = conversation.calls
    assert one.answer.result == {}
    assert [message.result for message in one.further_answers] == [{"again": 1}]
    assert one.further_answers[0].call is one


def test_a_response_without_a_request_has_no_call():
    conversation = recording(("<", {"id": 9, "result": {}}), ("<", {"id": None, "error": {"code": 1, "message": ""}}))
    assert [message.call for message in conversation.messages] == [None, None]


def test_an_id_that_is_used_again_means_the_new_request():
    steps = [(">", modern(1, "a")), ("<", done(1)), (">", modern(1, "b")), ("<", done(1, x=1))]
    first, second = recording(*steps).calls
    assert "x" not in first.answer.result
    assert second.answer.result["x"] == 1


def test_after_a_cancellation_the_id_means_the_new_request():
    steps = [(">", modern(1, "a")), (">", note("notifications/cancelled", requestId=1)), (">", modern(1, "b")), ("<", done(1))]
    first, second = recording(*steps).calls
    assert (first.state, second.state) == ("cancelled", "answered")


def test_progress_and_cancellation_belong_to_their_request():
    conversation = recording(
        (">", call(1, "slow", _meta={"progressToken": "t"})),
        (">", call(2, "slow", _meta={"progressToken": 7})),
        ("<", note("notifications/progress", progressToken="t", progress=1)),
        ("<", note("notifications/progress", progressToken=7, progress=1)),
        ("<", note("notifications/progress", progressToken="7", progress=1)),
        (">", note("notifications/cancelled", requestId=1)),
        (">", note("notifications/cancelled", requestId="1")),
    )
    first, second = conversation.calls
    assert len(first.progress) == len(second.progress) == 1
    assert len(first.cancels) == 1
    assert (first.state, second.state) == ("cancelled", "open")
    assert [message.call for message in conversation.messages][-3:] == [None, first, None]


def test_a_server_cancels_its_own_request_before_a_subscription_of_the_client():
    conversation = recording(
        (">", modern(1, "subscriptions/listen", notifications={})),
        ("<", call(1, "roots/list")),
        ("<", note("notifications/cancelled", requestId=1)),
    )
    listen, asked = conversation.calls
    assert (listen.cancels, len(asked.cancels)) == ([], 1)


def test_the_rounds_of_a_call_are_one_group():
    """MR-05, MR-11: by the state they carry."""
    questions = {"resultType": "input_required", "requestState": "s1", "inputRequests": {"a": {}}}
    conversation = recording(
        (">", modern(1, "tools/call", name="ask")),
        ("<", {"id": 1, "result": questions}),
        (">", modern(2, "tools/call", name="ask", requestState="s1", inputResponses={"a": {}})),
        ("<", {"id": 2, "result": {**questions, "requestState": "s2"}}),
        (">", modern(3, "tools/call", name="other", requestState="s2")),
        (">", modern(4, "tools/call", name="ask", requestState="s2", inputResponses={"a": {}})),
        ("<", done(4)),
    )
    first, second, other, last = conversation.calls
    assert first.rounds == [first, second, last]
    assert first.rounds is second.rounds is last.rounds
    assert (first.is_retry, second.is_retry, last.is_retry) == (False, True, True)
    assert last.first_round is first
    assert first.asks_back
    assert not last.asks_back
    assert other.rounds == []
    assert other.first_round is other


def test_rounds_without_a_state_are_known_by_their_answers():
    conversation = recording(
        (">", modern(1, "resources/read", uri="x:")),
        ("<", {"id": 1, "result": {"resultType": "input_required", "inputRequests": {"a": {}}}}),
        (">", modern(2, "resources/read", uri="y:", inputResponses={"a": {}})),
        (">", modern(3, "resources/read", uri="x:", inputResponses={"a": {}})),
    )
    first, other, again = conversation.calls
    assert first.rounds == [first, again]
    assert other.rounds == []


def test_a_round_may_go_on_in_another_process():
    """ST-03."""
    first = entries(
        (">", modern(1, "tools/call", name="a")), ("<", {"id": 1, "result": {"resultType": "input_required", "requestState": "s"}})
    )
    again = Line(2.0, ">", entries((">", modern(2, "tools/call", name="a", requestState="s")))[1].data, connection=1)
    conversation = read_conversation([*first, again])
    assert conversation.calls[0].rounds == conversation.calls
    assert [connection.number for connection in conversation.connections] == [0, 1]


def test_notifications_of_a_subscription_belong_to_it():
    """SU-04: by its tag, with its JSON type."""
    conversation = recording(
        (">", modern(7, "subscriptions/listen", notifications={})),
        ("<", note("notifications/subscriptions/acknowledged", _meta={TAG: 7}, notifications={})),
        ("<", note("notifications/tools/list_changed", _meta={TAG: "7"})),
        ("<", note("notifications/tools/list_changed", _meta={TAG: 7})),
    )
    (listen,) = conversation.calls
    assert len(listen.notifications) == 2
    assert listen.state == "listening"
    assert not listen.is_hanging
    assert conversation.hanging == []


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (None, "open"),
        (Event(at=9.0, name="eof", stream="<"), "lost"),
        (Event(at=9.0, name="exit", code=1), "lost"),
        (Event(at=9.0, name="eof", stream=">"), "open"),
        (Event(at=9.0, name="exit", code=1, connection=3), "open"),
    ],
    ids=["the recording ends", "stdout ends", "the server exits", "stdin ends", "another server exits"],
)
def test_a_call_that_hangs(end, state):
    conversation = recording((">", call(1, "a")), *([end] if end else []))
    (hanging,) = conversation.hanging
    assert hanging.state == state


def test_an_answer_that_is_recorded_after_the_exit_is_an_answer():
    conversation = recording((">", call(1, "a")), Event(at=0.15, name="exit", code=0), ("<", {"id": 1, "result": {}}))
    assert conversation.hanging == []


def test_the_era_and_the_revision():
    legacy = recording(*handshake("2025-06-18")).connections[0]
    assert (legacy.era, legacy.revision, legacy.handshake.method) == ("legacy", "2025-06-18", "initialize")
    stateless = recording(*DISCOVERY).connections[0]
    assert (stateless.era, stateless.revision, stateless.revisions) == ("modern", "2026-07-28", ["2026-07-28"])
    both = recording(*handshake(), (">", modern(1, "tools/list")), ("<", done(1, tools=[]))).connections[0]
    assert (both.era, both.revision) == ("both", "2025-11-25")
    probed = recording(DISCOVERY[0], ("<", {"id": "d", "error": {"code": -32601, "message": ""}}), *handshake()).connections[0]
    assert probed.era == "legacy"
    assert recording().connections[0].era is None


def test_each_call_has_the_revision_that_it_is_read_by():
    conversation = recording(
        *handshake("2025-06-18"), (">", call(1, "ping")), (">", modern(2, "tools/list")), ("<", call(1, "ping"))
    )
    assert [each.revision for each in conversation.calls] == ["2025-06-18", "2025-06-18", "2026-07-28", "2025-06-18"]


def test_a_server_that_is_started_again_is_another_connection():
    conversation = recording(
        (">", call(1, "a")),
        Event(at=1.0, name="exit", code=1),
        Event(at=2.0, name="spawn", pid=9),
        (">", call(1, "a")),
        ("<", {"id": 1, "result": {}}),
    )
    first, second = conversation.connections
    assert (first.pid, second.pid) == (4242, 9)
    assert first.exit.code == 1
    assert [each.state for each in conversation.calls] == ["lost", "answered"]


def test_items_are_in_order():
    damage = Damage(7, "torn", b"{")
    exit_event = Event(at=3.0, name="exit", code=0)
    conversation = recording((">", call(1, "a")), ("!", "warning"), ("<", "Hello"), damage, exit_event)
    spawn, request, stderr, noise, torn, last = conversation.items
    assert spawn.name == "spawn"
    assert isinstance(request, Message)
    assert stderr == Line(0.2, "!", b"warning")
    assert (noise.shape, noise.text) == ("noise", "Hello")
    assert (torn, last) == (damage, exit_event)
    assert conversation.last_at == 3.0


def test_the_pieces_of_a_line_are_put_together():
    conversation = Conversation()
    whole = b'{"jsonrpc":"2.0","method":"a"}'
    assert conversation.feed(Line(0.1, "<", whole[:10], is_whole=False)) is None
    stderr = conversation.feed(Line(0.2, "!", b"between"))
    message = conversation.feed(Line(0.3, "<", whole[10:]))
    assert (message.method, message.at, message.is_whole) == ("a", 0.3, True)
    assert conversation.items == [stderr, message]


@pytest.mark.parametrize("end", ["finish", "eof", "exit"])
def test_an_unfinished_line_is_an_item_at_the_end(end):
    conversation = Conversation()
    conversation.feed(Line(0.1, "<", b"wait", is_whole=False))
    if end == "finish":
        conversation.finish()
    else:
        conversation.feed(Event(at=1.0, name=end, stream="<" if end == "eof" else None))
    noise = conversation.items[0]
    assert (noise.data, noise.is_whole) == (b"wait", False)
    conversation.finish()
    assert len([item for item in conversation.items if isinstance(item, Message)]) == 1


def test_the_start_of_a_line_whose_end_is_lost_is_not_joined_to_another():
    conversation = Conversation()
    conversation.feed(Line(0.1, "<", b"wait", is_whole=False))
    conversation.feed(Event(at=0.2, name="lost", lines=1))
    assert conversation.feed(Line(0.3, "<", b'{"jsonrpc":"2.0","method":"a"}')).method == "a"
    assert not conversation.connections[0].is_complete


def test_a_batch_is_one_item_and_several_messages():
    conversation = recording(
        (">", [call(1, "a"), note("b"), call(2, "c")]), ("<", [{"id": 2, "result": {}}, {"id": 1, "result": {"x": 1}}])
    )
    _, asked, answered = conversation.items
    assert (asked.shape, len(asked.members), asked.fault) == ("batch", 3, None)
    assert [message.method for message in conversation.messages][:3] == ["a", "b", "c"]
    assert all(member.batch is asked for member in asked.members)
    assert [each.answer.result for each in conversation.calls] == [{"x": 1}, {}]
    assert answered.members[0].call is conversation.calls[1]


@pytest.mark.parametrize(
    ("line", "shape", "request_id", "method"),
    [
        ('{"id":1,"method":"a"}', "request", 1, "a"),
        ('{"jsonrpc":"2.0","id":null,"method":"a"}', "request", None, "a"),
        ('{"jsonrpc":"2.0","id":1.5,"method":"a"}', "request", 1.5, "a"),
        ('{"jsonrpc":"2.0","method":"a","params":[1]}', "notification", UNSET, "a"),
        ('{"jsonrpc":"2.0","id":1,"result":5}', "result", 1, None),
        ('{"jsonrpc":"2.0","id":1,"error":"no"}', "error", 1, None),
        ('{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', "error", 1, None),
        ('{"jsonrpc":"2.0","id":1}', "noise", 1, None),
        ('{"jsonrpc":"2.0","id":1,"method":5}', "noise", 1, None),
        ("5", "noise", UNSET, None),
        ("Hello", "noise", UNSET, None),
        ("[1,", "noise", UNSET, None),
    ],
)
def test_what_breaks_a_rule_is_read_as_far_as_it_can_be(line, shape, request_id, method):
    (message,) = recording(("<", line)).messages
    assert (message.shape, message.id, message.method) == (shape, request_id, method)
    assert message.fault is not None


def test_blank_lines_carriage_returns_and_byte_order_marks():
    """FR-15."""
    good = '{"jsonrpc":"2.0","method":"a"}'
    assert shapes("", "\r", good + "\r", "\ufeff" + good) == ["blank", "blank", "notification", "notification"]


def test_what_is_decoded_is_what_the_line_says():
    conversation = recording(
        (">", call(1, "a", x=[1])),
        ("<", {"id": 1, "error": {"code": 5, "message": "no", "data": {"y": 2}}}),
        ("<", '{"jsonrpc":"2.0","method":"\\ud800"}'),
    )
    request, answer, surrogate = conversation.messages
    assert request.params == {"x": [1]}
    assert request.result is UNSET
    assert answer.error == {"code": 5, "message": "no", "data": {"y": 2}}
    assert request.value["params"] == {"x": [1]}
    assert surrogate.method == "\ufffd"


def test_invalid_ids_and_tokens_do_no_harm():
    conversation = recording(
        (">", call([1], "a", _meta={"progressToken": {}})),
        ("<", {"id": [1], "result": {}}),
        (">", note("notifications/cancelled", requestId=[1])),
        ("<", note("notifications/progress", progressToken={}, progress=1)),
        ("<", note("a/b", _meta=5)),
        (">", modern(1, "b", _meta=meta(**{TAG: 1}), requestState=5, inputResponses=[])),
    )
    assert [each.state for each in conversation.calls] == ["open", "open"]


@pytest.mark.parametrize(("path", "revision"), transcripts()[::5], ids=lambda value: getattr(value, "stem", value))
def test_transcripts_leave_nothing_open_but_what_was_cancelled(path, revision):
    conversation = read_conversation(played(path, revision))
    assert [each for each in conversation.calls if each.state not in {"answered", "error", "cancelled", "listening"}] == []
    assert {message.shape for message in conversation.messages} <= {"request", "notification", "result", "error"}
    assert conversation.connections[0].revision == revision


def test_long_lines_stay_bytes():
    text = "x" * 5_000_000
    (message,) = recording((">", call(1, "tools/call", name="a", arguments={"text": text}))).messages
    assert message.size > 5_000_000
    assert bytes(message.raw_params) in message.data
    assert message.params["arguments"]["text"] == text
