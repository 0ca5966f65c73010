"""Saying a recording again, without a process: what is sent when, what is put in its place, what is found."""

import json

import pytest

from twopipes._tools.replay.compare import compare
from twopipes._tools.replay.script import Replay
from twopipes._trace.conversation import read_conversation
from twopipes._trace.format import Event, Line

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def request(id_, method, **params):
    return {"jsonrpc": "2.0", "id": id_, "method": method, **({"params": params} if params else {})}


def call(id_, tool, **more):
    return request(id_, "tools/call", name=tool, **more)


def result(id_, **members):
    return {"jsonrpc": "2.0", "id": id_, "result": members}


def text(id_, said):
    return result(id_, content=[{"type": "text", "text": said}])


def notification(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def recorded(*lines, **options):
    """Return a replay of a recording: pairs of a side and a message; strings are written as they are."""
    entries = []
    for number, (side, message) in enumerate(lines):
        if side == "=":
            entries.append(Event(at=float(number), name="eof", stream=message))
        else:
            data = message.encode() if isinstance(message, str) else json.dumps(message).encode()
            entries.append(Line(float(number), side, data))
    conversation = read_conversation(entries)
    return Replay(conversation, conversation.connections[0], **options)


def due(replay):
    return [json.loads(line) for line in replay.due()]


def receive(replay, *messages):
    for message in messages:
        replay.receive(message.encode() if isinstance(message, str) else json.dumps(message).encode())


def findings(replay):
    return [(finding.kind, finding.subject) for finding in compare(replay).findings]


# When


def test_a_message_waits_for_what_the_recorded_client_had_received_before_it():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")), (">", call(2, "b")), ("<", text(2, "y")))
    assert due(replay) == [call(1, "a")]
    assert due(replay) == []
    assert [expected.describe() for expected in replay.waiting_for] == ["the response to tools/call a (id 1)"]
    receive(replay, text(1, "x"))
    assert due(replay) == [call(2, "b")]
    assert not replay.is_done
    receive(replay, text(2, "y"))
    assert replay.is_done
    assert compare(replay).is_same


def test_what_was_sent_together_is_sent_together_and_answered_in_any_order():
    replay = recorded((">", call(1, "a")), (">", call(2, "b")), ("<", text(2, "y")), ("<", text(1, "x")))
    assert due(replay) == [call(1, "a"), call(2, "b")]
    receive(replay, text(1, "x"), text(2, "y"))
    assert replay.is_done
    assert compare(replay).is_same


def test_lines_go_out_as_they_were_written():
    odd = '{"id":1 , "method":"ping","jsonrpc":"2.0","x":1e400}'
    replay = recorded((">", odd), (">", "no JSON at all"))
    assert replay.due() == [odd.encode() + b"\n", b"no JSON at all\n"]


def test_a_response_that_was_never_recorded_is_not_awaited():
    replay = recorded((">", call(1, "a")), (">", call(2, "b")), ("<", text(2, "y")))
    assert len(due(replay)) == 2
    receive(replay, text(2, "y"))
    assert replay.is_done
    assert compare(replay).is_same


def test_what_came_after_the_clients_eof_is_not_awaited():
    replay = recorded((">", call(1, "a")), ("=", ">"), ("<", text(1, "x")))
    due(replay)
    assert replay.is_done
    assert findings(replay) == [("no answer", "tools/call a (id 1)")]
    receive(replay, text(1, "x"))  # it came when the input ended
    assert compare(replay).is_same


def test_giving_up_goes_on_with_the_rest():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")), (">", call(2, "b")), ("<", text(2, "y")))
    due(replay)
    replay.give_up()
    assert due(replay) == [call(2, "b")]
    receive(replay, text(2, "y"))
    report = compare(replay)
    assert [(finding.kind, finding.id) for finding in report.findings] == [("no answer", 1)]
    assert (report.requests, report.sent, report.answers, report.same) == (2, 2, 2, 1)


def test_notifications_are_awaited_until_one_of_their_method_does_not_come():
    log = notification("message", level="info", data="hello")
    replay = recorded(
        (">", call(1, "a")),
        ("<", log),
        ("<", text(1, "x")),
        (">", call(2, "a")),
        ("<", log),
        ("<", text(2, "x")),
        (">", call(3, "a")),
    )
    due(replay)
    receive(replay, text(1, "x"))
    assert due(replay) == []
    assert [expected.describe() for expected in replay.waiting_for] == ["notifications/message"]
    replay.give_up()
    assert due(replay) == [call(2, "a")]
    receive(replay, text(2, "x"))
    assert due(replay) == [call(3, "a")]  # no second wait


def test_missing_progress_is_not_awaited_after_the_response():
    progress = notification("progress", progressToken="t", progress=1)
    replay = recorded((">", call(1, "a", _meta={"progressToken": "t"})), ("<", progress), ("<", text(1, "x")), (">", call(2, "b")))
    due(replay)
    receive(replay, text(1, "x"))
    assert due(replay) == [call(2, "b")]
    assert findings(replay) == [("notifications differ", "notifications/progress of tools/call a (id 1)")]


# What is compared


def test_a_difference_is_named():
    replay = recorded((">", call(1, "add")), ("<", text(1, "5")))
    due(replay)
    receive(replay, text(1, "6"))
    (finding,) = compare(replay).findings
    assert (finding.kind, finding.method, finding.id) == ("answer differs", "tools/call", 1)
    (difference,) = finding.differences
    assert (difference.path, difference.recorded, difference.live) == ("result.content.0.text", "5", "6")


def test_ids_keep_their_type():
    replay = recorded((">", call(7, "a")), (">", call("7", "b")), ("<", text("7", "y")), ("<", text(7, "x")))
    due(replay)
    receive(replay, text(7, "x"), text("7", "other"))
    assert findings(replay) == [("answer differs", 'tools/call b (id "7")')]


def test_what_is_ignored_makes_no_difference():
    replay = recorded((">", call(1, "a")), ("<", result(1, structuredContent={"time": 1, "a": 2})), ignore=["time"])
    due(replay)
    receive(replay, result(1, structuredContent={"time": 2, "a": 2}))
    assert compare(replay).is_same


def test_the_version_of_a_modern_server_is_a_difference_once():
    def told_by(version, id_):
        return result(id_, _meta={"io.modelcontextprotocol/serverInfo": {"name": "s", "version": version}})

    replay = recorded(
        (">", request(1, "server/discover", _meta=META)),
        ("<", told_by("1", 1)),
        (">", call(2, "a", _meta=META)),
        ("<", told_by("1", 2)),
    )
    due(replay)
    receive(replay, told_by("2", 1))
    due(replay)
    receive(replay, told_by("2", 2))
    assert findings(replay) == [("answer differs", "server/discover (id 1)")]


def test_the_response_to_a_cancelled_request_is_not_compared():
    replay = recorded(
        (">", call(1, "slow")), (">", notification("cancelled", requestId=1)), (">", call(2, "b")), ("<", text(2, "y"))
    )
    assert len(due(replay)) == 3
    receive(replay, text(1, "too fast"), text(2, "y"))
    assert compare(replay).is_same


def test_a_second_response_and_a_response_without_a_request_are_found():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")))
    due(replay)
    receive(replay, text(1, "x"), text(1, "x"), text(99, "z"))
    assert findings(replay) == [
        ("additional answer", "tools/call a (id 1)"),
        ("additional answer", "a response without a request"),
    ]


def test_a_response_that_the_recording_does_not_have_is_found():
    replay = recorded((">", call(1, "a")))
    due(replay)
    receive(replay, text(1, "x"))
    assert findings(replay) == [("additional answer", "tools/call a (id 1)")]


def test_errors_without_an_id_are_compared():
    error = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}}
    replay = recorded((">", "{oops"), ("<", error))
    replay.due()
    assert findings(replay) == [("no answer", "a response without a request")]
    assert [expected.describe() for expected in replay.waiting_for] == ["an error without an id"]
    receive(replay, error)
    assert replay.is_done
    assert compare(replay).is_same
    receive(replay, {"jsonrpc": "2.0", "error": {"code": -32600, "message": "what?"}})
    assert findings(replay) == [("additional answer", "a response without a request")]


def test_notifications_are_sets():
    logs = [notification("message", level="info", data=number) for number in range(3)]
    replay = recorded((">", call(1, "a")), *(("<", log) for log in logs), ("<", text(1, "x")))
    due(replay)
    receive(replay, logs[2], logs[0], logs[0], logs[1], text(1, "x"))
    assert compare(replay).is_same
    receive(replay, notification("message", level="info", data="more"))
    (finding,) = compare(replay).findings
    assert (finding.kind, finding.subject) == ("notifications differ", "notifications/message")
    assert [difference.live for difference in finding.differences] == [{"level": "info", "data": "more"}]


def test_noise_is_found_unless_the_recording_has_the_same():
    replay = recorded(("<", "Loading..."), (">", call(1, "a")), ("<", text(1, "x")))
    due(replay)
    receive(replay, "Loading...", text(1, "x"))
    assert compare(replay).is_same
    receive(replay, "Oops", "Oops")
    (finding,) = compare(replay).findings
    assert (finding.kind, finding.differences[0].live) == ("noise", "Oops")
    assert finding.reason == "2 that the recording does not have"


def test_a_flood_of_noise_costs_no_memory():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")))
    for number in range(1000):
        replay.receive_noise(b"%d" % number)
    assert len(replay.noise) == 100
    (noise,) = [finding for finding in compare(replay).findings if finding.kind == "noise"]
    assert noise.reason == "1000 of them; the recording has none"


def test_a_server_that_ends_in_the_middle():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")), (">", call(2, "b")), ("<", text(2, "y")))
    due(replay)
    replay.receive_end()
    assert replay.is_done
    assert due(replay) == []
    report = compare(replay)
    assert report.is_cut_short
    assert not report.is_same
    assert (report.requests, report.sent) == (2, 1)
    assert [(finding.kind, finding.id) for finding in report.findings] == [("no answer", 1)]


def test_a_server_that_exits_after_the_last_response_is_not_cut_short():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")))
    due(replay)
    receive(replay, text(1, "x"))
    replay.receive_end()
    assert compare(replay).is_same


# What the server makes up


def sampling(id_, prompt="Hi", **more):
    return request(id_, "sampling/createMessage", prompt=prompt, **more)


def test_the_response_gets_the_id_of_the_live_question():
    replay = recorded((">", call(1, "a")), ("<", sampling(5)), (">", result(5, role="assistant")), ("<", text(1, "x")))
    assert due(replay) == [call(1, "a")]
    receive(replay, sampling("live-1"))
    assert due(replay) == [result("live-1", role="assistant")]
    receive(replay, text(1, "x"))
    assert replay.is_done
    assert compare(replay).is_same


def test_questions_in_another_order_get_their_own_responses():
    replay = recorded(
        (">", call(1, "a")),
        ("<", sampling(1, "one")),
        ("<", sampling(2, "two")),
        (">", result(1, said=1)),
        (">", result(2, said=2)),
    )
    due(replay)
    receive(replay, sampling(10, "two"), sampling(11, "one"))
    assert due(replay) == [result(11, said=1), result(10, said=2)]


def test_a_changed_question_gets_its_response_and_is_reported():
    replay = recorded((">", call(1, "a")), ("<", sampling(1, "old")), (">", result(1, said=1)))
    due(replay)
    receive(replay, sampling(9, "new"))
    assert due(replay) == [result(9, said=1)]
    (finding,) = compare(replay).findings
    assert (finding.kind, finding.differences[0].path) == ("question differs", "params.prompt")


def test_a_question_that_was_not_recorded_gets_an_error():
    replay = recorded((">", call(1, "a")), ("<", text(1, "x")))
    due(replay)
    receive(replay, request(3, "roots/list"))
    (answer,) = due(replay)
    assert (answer["id"], answer["error"]["code"]) == (3, -32603)
    receive(replay, text(1, "x"))
    assert findings(replay) == [("additional question", "roots/list (id 3)")]


def test_a_missing_question_is_reported_and_its_response_not_sent():
    replay = recorded((">", call(1, "a")), ("<", sampling(1)), (">", result(1, said=1)), ("<", text(1, "x")))
    due(replay)
    receive(replay, text(1, "x"))
    replay.give_up()
    assert due(replay) == []
    assert replay.is_done
    assert findings(replay) == [("no question", "sampling/createMessage (id 1)")]


def test_a_ping_gets_a_response_and_is_never_expected():
    replay = recorded((">", call(1, "a")), ("<", request(1, "ping")), (">", result(1)), ("<", text(1, "x")))
    due(replay)
    receive(replay, request("p", "ping"), request("q", "ping"))
    assert due(replay) == [result("p"), result("q")]
    receive(replay, text(1, "x"))
    due(replay)
    assert replay.is_done
    assert compare(replay).is_same


def test_progress_of_the_client_gets_the_live_token():
    question = sampling(1, _meta={"progressToken": "old"})
    replay = recorded((">", call(1, "a")), ("<", question), (">", notification("progress", progressToken="old", progress=1)))
    due(replay)
    receive(replay, sampling(1, _meta={"progressToken": "new"}))
    assert due(replay) == [notification("progress", progressToken="new", progress=1)]


def asking(id_, state="s", **questions):
    asked = {key: {"method": "elicitation/create", "params": {"message": message}} for key, message in questions.items()}
    return result(id_, resultType="input_required", inputRequests=asked, **({"requestState": state} if state else {}))


def retry(id_, state, **answers):
    more = {"requestState": state} if state else {}
    return call(id_, "ask", _meta=META, inputResponses=answers, **more)


@pytest.mark.parametrize("state", ["recorded", None])
def test_a_round_goes_on_with_the_live_state_and_keys(state):
    replay = recorded(
        (">", call(1, "ask", _meta=META)),
        ("<", asking(1, state, name="Name?", age="Age?")),
        (">", retry(2, state, name={"action": "accept"}, age={"action": "decline"})),
        ("<", text(2, "x")),
    )
    due(replay)
    receive(replay, asking(1, "live", z="Age?", y="Name?"))
    assert due(replay) == [retry(2, "live", y={"action": "accept"}, z={"action": "decline"})]
    receive(replay, text(2, "x"))
    assert replay.is_done
    report = compare(replay)
    assert report.is_same or state is None  # where none was recorded, the new one is a difference


def test_a_round_without_a_question_is_not_sent():
    replay = recorded(
        (">", call(1, "ask", _meta=META)), ("<", asking(1, "s", a="?")), (">", retry(2, "s", a={})), ("<", text(2, "x"))
    )
    due(replay)
    receive(replay, text(1, "x"))
    assert due(replay) == []
    assert replay.is_done
    assert findings(replay) == [("answer differs", "tools/call ask (id 1)"), ("not sent", "tools/call ask (id 2)")]


def test_the_next_page_is_asked_for_with_the_live_cursor():
    def page(id_, cursor=None):
        return request(id_, "tools/list", cursor=cursor) if cursor else request(id_, "tools/list")

    replay = recorded(
        (">", page(1)), ("<", result(1, tools=[], nextCursor="abc")), (">", page(2, "abc")), ("<", result(2, tools=[]))
    )
    due(replay)
    receive(replay, result(1, tools=[], nextCursor="xyz"))
    assert due(replay) == [page(2, "xyz")]
    receive(replay, result(2, tools=[]))
    assert compare(replay).is_same


def test_a_page_that_does_not_exist_is_not_requested():
    replay = recorded(
        (">", request(1, "tools/list")),
        ("<", result(1, tools=[], nextCursor="abc")),
        (">", request(2, "tools/list", cursor="abc")),
        ("<", result(2, tools=[])),
    )
    due(replay)
    receive(replay, result(1, tools=[]))
    assert due(replay) == []
    assert replay.is_done
    assert findings(replay) == [("answer differs", "tools/list (id 1)"), ("not sent", "tools/list (id 2)")]


# Subscriptions and batches


def tagged(method, id_, **params):
    return notification(method, _meta={"io.modelcontextprotocol/subscriptionId": id_}, **params)


def test_notifications_of_a_subscription_come_before_its_end():
    listen = request(1, "subscriptions/listen", _meta=META, notifications={"toolsListChanged": True})
    acknowledged = tagged("subscriptions/acknowledged", 1, notifications={})
    changed = tagged("tools/list_changed", 1)
    replay = recorded(
        (">", listen),
        ("<", acknowledged),
        (">", call(2, "mutate", _meta=META)),
        ("<", text(2, "x")),
        ("<", changed),
        (">", notification("cancelled", requestId=1)),
    )
    assert due(replay) == [listen]
    receive(replay, acknowledged)
    assert due(replay) == [call(2, "mutate", _meta=META)]
    receive(replay, text(2, "x"))
    assert due(replay) == []
    receive(replay, changed)
    assert due(replay) == [notification("cancelled", requestId=1)]
    assert compare(replay).is_same


def test_batches_are_answered_one_by_one_or_together():
    replay = recorded((">", [call(1, "a"), call(2, "b")]), ("<", [text(2, "y"), text(1, "x")]))
    assert due(replay) == [[call(1, "a"), call(2, "b")]]
    receive(replay, text(1, "x"), text(2, "y"))
    assert replay.is_done
    assert compare(replay).is_same


def test_a_batch_of_responses_gets_live_ids():
    replay = recorded((">", call(9, "a")), ("<", [sampling(1, "one"), sampling(2, "two")]), (">", [result(1, n=1), result(2, n=2)]))
    due(replay)
    receive(replay, sampling(11, "one"), sampling(12, "two"))
    assert due(replay) == [[result(11, n=1), result(12, n=2)]]
