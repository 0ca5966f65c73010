"""Questions to the client, in both eras, through the server's session."""

import pytest
from msgspec import Raw

from sessions import (
    ABLE,
    ANNA,
    DONE,
    FORM,
    KEY,
    ROOTS,
    SAMPLE,
    URL,
    answer,
    asks,
    call,
    cancelled,
    code,
    error,
    feed,
    modern,
    note,
    opened_server,
    request,
    said,
    server_session,
)
from twopipes._protocol import types
from twopipes._session.events import (
    CallAbandoned,
    CallCancelled,
    CallReceived,
    InputsAnswered,
    PeerClosed,
    ProgressReceived,
    RequestEnded,
)
from twopipes._session.input_rounds import Given, ModernInputRounds, _digest, method_of, needed_capability
from twopipes._session.state_token import StateSealer
from twopipes.errors import (
    CapabilityMissing,
    ConnectionLost,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimedOut,
    UserRefused,
)
from twopipes.settings import InputPolicy

SAID_ANNA = types.ElicitResult("accept", {"name": "Anna"})
OTHER_FORM = types.ElicitRequest(
    types.ElicitParams("Your age?", requested_schema={"type": "object", "properties": {"age": {"type": "integer"}}})
)
MULTI = types.ElicitRequest(
    types.ElicitParams(
        "Which?",
        requested_schema={
            "type": "object",
            "properties": {"which": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}},
        },
    )
)
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"}


def sampling(**params):
    return types.CreateMessageRequest(types.CreateMessageParams([], max_tokens=1, **params))


@pytest.mark.parametrize(
    ("question", "method", "needed"),
    [
        (FORM, "elicitation/create", {"elicitation": {}}),
        (URL, "elicitation/create", {"elicitation": {"url": {}}}),
        (SAMPLE, "sampling/createMessage", {"sampling": {}}),
        (sampling(include_context="none"), "sampling/createMessage", {"sampling": {}}),
        (sampling(tools=[]), "sampling/createMessage", {"sampling": {"tools": {}}}),
        (sampling(tool_choice=types.ToolChoice("auto")), "sampling/createMessage", {"sampling": {"tools": {}}}),
        (sampling(include_context="allServers"), "sampling/createMessage", {"sampling": {"context": {}}}),
        (ROOTS, "roots/list", {"roots": {}}),
    ],
)
def test_a_question_has_a_method_and_a_capability(question, method, needed):
    """ER-10, MR-03, CP-04, SA-04, SA-08."""
    assert method_of(question) == method
    assert needed_capability(question) == needed


@pytest.mark.parametrize(
    ("question", "declared", "may"),
    [
        (FORM, {"elicitation": {}}, True),
        (FORM, {"elicitation": {"form": {}}}, True),
        (FORM, {"elicitation": {"url": {}}}, False),
        (FORM, {}, False),
        (URL, {"elicitation": {}}, False),
        (URL, {"elicitation": {"url": {}}}, True),
        (SAMPLE, {"sampling": {}}, True),
        (SAMPLE, {"roots": {}}, False),
        (sampling(tools=[]), {"sampling": {}}, False),
        (sampling(tools=[]), {"sampling": {"tools": {}}}, True),
        (sampling(tools=[], include_context="allServers"), {"sampling": {"tools": {}}}, False),
        (ROOTS, {"roots": {}}, True),
    ],
)
def test_nothing_is_asked_that_the_client_did_not_declare(question, declared, may):
    """MR-04, CP-02, CP-06, CP-04, EL-08."""
    legacy, stateless = opened_server(client=declared), server_session()
    calls = [
        (legacy, asks(legacy, request(1, "tools/call", name="ask"))),
        (stateless, asks(stateless, modern(1, "tools/call", name="ask", can=declared))),
    ]
    for session, asking in calls:
        if may:
            assert session.ask(asking, {"q": question}, now=0.0) is None
            assert len(said(session)) == 1
        else:
            with pytest.raises(CapabilityMissing) as refusal:
                session.ask(asking, {"r": ROOTS, "q": question} if "roots" in declared else {"q": question}, now=0.0)
            assert said(session) == []
            assert refusal.value.required == needed_capability(question)
            assert session.fail(asking, refusal.value)


def test_a_call_that_needs_what_is_missing_ends_by_an_object_that_names_it():
    """ER-10, ST-01."""
    session = server_session()
    call = asks(session, modern(1, "tools/call", name="ask"))
    with pytest.raises(CapabilityMissing) as refusal:
        session.ask(call, {"q": FORM}, now=0.0)
    session.fail(call, refusal.value)
    (line,) = said(session)
    assert code(line) == -32021
    assert line["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


def test_no_questions_give_no_answers():
    session = server_session()
    assert session.ask(asks(session, modern(1, "tools/call", name="ask")), {}, now=0.0) == {}


# ------------------------------------------------------------------------------------------------ legacy: a request each


class Legacy:
    """A legacy session with a call that asks."""

    def __init__(self, revision="2025-11-25", *, client=ABLE, **options):
        self.session = opened_server(revision, client=client, **options)
        self.call = asks(self.session, request("c", "tools/call", name="ask"))

    def ask(self, *, now=0.0, **questions):
        assert self.session.ask(self.call, questions, now=now) is None
        return said(self.session)

    def answered(self, *messages, now=0.0):
        (event,) = feed(self.session, *messages, now=now)
        assert isinstance(event, InputsAnswered)
        assert event.call is self.call
        return event.answers


def test_a_legacy_question_is_a_request():
    """CP-02."""
    legacy = Legacy()
    (line,) = legacy.ask(q=FORM)
    assert line["method"] == "elicitation/create"
    assert line["params"]["message"] == "Your name?"
    assert legacy.answered(answer(line["id"], **ANNA)) == {"q": SAID_ANNA}
    assert legacy.session.respond(legacy.call, DONE)
    assert [each["id"] for each in said(legacy.session)] == ["c"]


def test_several_questions_are_answered_together_in_any_order():
    """FR-14."""
    legacy = Legacy()
    form, sample, roots = legacy.ask(f=FORM, s=SAMPLE, r=ROOTS)
    assert "params" not in roots
    assert feed(legacy.session, answer(roots["id"], roots=[]), answer(form["id"], action="decline")) == []
    answers = legacy.answered(answer(sample["id"], **SAMPLED))
    assert answers["f"] == types.ElicitResult("decline")
    assert answers["r"] == types.ListRootsResult([])
    assert answers["s"].text == "Hi"


def test_a_handler_may_ask_side_by_side():
    legacy = Legacy()
    (one,), (two,) = legacy.ask(a=FORM), legacy.ask(b=ROOTS)
    assert legacy.answered(answer(one["id"], **ANNA)) == {"a": SAID_ANNA}
    assert legacy.answered(answer(two["id"], roots=[])) == {"b": types.ListRootsResult([])}
    assert len(legacy.session.outgoing) == 0


def test_error_answers_and_refusals_come_as_errors():
    """EL-15, ER-15."""
    legacy = Legacy()
    form, sample, broken = legacy.ask(f=FORM, s=SAMPLE, b=FORM)
    answers = legacy.answered(
        error(form["id"], -32603), error(sample["id"], -1, "User said no"), answer(broken["id"], action="maybe")
    )
    assert type(answers["f"]) is InternalError
    assert isinstance(answers["s"], UserRefused)
    assert isinstance(answers["b"], RemoteProtocolError)


def test_a_response_that_is_not_a_message_becomes_an_error():
    legacy = Legacy()
    (line,) = legacy.ask(q=FORM)
    _, event = legacy.session.receive(b'{"jsonrpc":"2.0","id":%d,"result":[]}\n' % line["id"], now=0.0)
    assert isinstance(event.answers["q"], RemoteProtocolError)


def test_an_unanswered_question_is_given_up():
    """TO-01, TO-02, CA-02."""
    legacy = Legacy(questions=InputPolicy(wait=10.0))
    slow, quick = legacy.ask(slow=FORM, quick=ROOTS)
    feed(legacy.session, answer(quick["id"], roots=[]))
    (progress,) = feed(legacy.session, note("notifications/progress", progressToken=slow["id"], progress=1), now=5.0)
    assert isinstance(progress, ProgressReceived)
    assert legacy.session.tick(now=14.0) == []
    (event,) = legacy.session.tick(now=15.0)
    assert isinstance(event.answers["slow"], RequestTimedOut)
    (line,) = said(legacy.session)
    assert line["params"]["requestId"] == slow["id"]
    assert feed(legacy.session, answer(slow["id"], **ANNA)) == []


@pytest.mark.parametrize("how", ["cancel", "respond", "fail"])
def test_when_the_call_is_over_its_questions_are_withdrawn(how):
    """CA-02, CA-03."""
    legacy = Legacy()
    lines = legacy.ask(f=FORM, s=SAMPLE) + legacy.ask(r=ROOTS)
    feed(legacy.session, answer(lines[0]["id"], **ANNA))
    if how == "cancel":
        assert [type(event) for event in feed(legacy.session, cancelled("c"))] == [CallCancelled]
    elif how == "respond":
        assert legacy.session.respond(legacy.call, DONE)
    else:
        assert legacy.session.fail(legacy.call, InternalError("no"))
    cancelled_ids = [
        line["params"]["requestId"] for line in said(legacy.session) if line.get("method") == "notifications/cancelled"
    ]
    assert cancelled_ids == [line["id"] for line in lines[1:]]
    assert len(legacy.session.outgoing) == 0
    assert feed(legacy.session, *(answer(line["id"]) for line in lines)) == []
    assert legacy.session.next_deadline() is None


def test_the_questions_of_two_calls_are_separate():
    """ST-02."""
    legacy = Legacy()
    (mine,) = legacy.ask(q=FORM)
    other = asks(legacy.session, request("d", "tools/call", name="ask"))
    legacy.session.ask(other, {"q": FORM}, now=0.0)
    (theirs,) = said(legacy.session)
    feed(legacy.session, cancelled("c"))
    said(legacy.session)
    assert feed(legacy.session, answer(mine["id"], **ANNA)) == []
    (event,) = feed(legacy.session, answer(theirs["id"], **ANNA))
    assert event == InputsAnswered(other, {"q": SAID_ANNA})


def test_questions_before_initialized_are_held_back():
    """LC-06."""
    legacy = Legacy(initialized=False)
    assert legacy.ask(q=FORM) == []
    feed(legacy.session, note("notifications/initialized"))
    (line,) = said(legacy.session)
    assert line["method"] == "elicitation/create"
    assert legacy.answered(answer(line["id"], **ANNA)) == {"q": SAID_ANNA}


def test_a_question_that_was_held_back_and_given_up_was_never_asked():
    """CA-02, LC-06."""
    legacy = Legacy(initialized=False, questions=InputPolicy(wait=10.0))
    legacy.ask(late=FORM)
    (event,) = legacy.session.tick(now=10.0)
    assert isinstance(event.answers["late"], RequestTimedOut)
    legacy.ask(withdrawn=FORM, now=10.0)
    feed(legacy.session, cancelled("c"))
    feed(legacy.session, note("notifications/initialized"))
    assert said(legacy.session) == []


def test_what_cannot_be_asked_leaves_nothing_behind():
    legacy = Legacy()
    nested = {"type": "object", "properties": {"a": {"type": "object"}}}
    bad = types.ElicitRequest(types.ElicitParams("?", requested_schema=nested))
    with pytest.raises(LocalProtocolError):
        legacy.session.ask(legacy.call, {"good": FORM, "bad": bad}, now=0.0)
    assert said(legacy.session) == []
    assert len(legacy.session.outgoing) == 0
    assert legacy.session.next_deadline() is None
    (line,) = legacy.ask(q=FORM)
    assert legacy.answered(answer(line["id"], **ANNA)) == {"q": SAID_ANNA}


def test_a_multiple_choice_comes_back_as_one_answer_from_an_old_client():
    """EL-03."""
    legacy = Legacy("2025-06-18", client={"elicitation": {}})
    (line,) = legacy.ask(q=MULTI)
    properties = line["params"]["requestedSchema"]["properties"]
    assert {each["type"] for each in properties.values()} == {"boolean"}
    names = list(properties)
    content = {names[0]: True, names[1]: False, names[2]: True}
    assert legacy.answered(answer(line["id"], action="accept", content=content)) == {
        "q": types.ElicitResult("accept", {"which": ["a", "c"]})
    }


def test_a_url_gets_the_id_that_one_revision_wants():
    """EL-10."""
    legacy = Legacy()
    first, second, own = legacy.ask(
        a=URL, b=URL, c=types.ElicitRequest(types.ElicitParams("?", mode="url", url="https://example.com/", elicitation_id="mine"))
    )
    ids = [line["params"]["elicitationId"] for line in (first, second, own)]
    assert len(set(ids)) == 3
    assert ids[2] == "mine"


@pytest.mark.parametrize(("revision", "question"), [("2024-11-05", FORM), ("2025-03-26", FORM)])
def test_a_revision_without_elicitation_is_not_asked(revision, question):
    """LC-11."""
    legacy = Legacy(revision)
    with pytest.raises(CapabilityMissing) as refusal:
        legacy.session.ask(legacy.call, {"q": question}, now=0.0)
    legacy.session.fail(legacy.call, refusal.value)
    assert code(said(legacy.session)[0]) not in {-32021, -32022}  # which old revisions do not have


def test_a_lost_connection_answers_every_question():
    """ER-16."""
    legacy = Legacy()
    legacy.ask(f=FORM, r=ROOTS)
    event, left = legacy.session.receive_eof(now=1.0)
    assert isinstance(event.answers["f"], ConnectionLost)
    assert isinstance(event.answers["r"], ConnectionLost)
    assert left == PeerClosed()
    with pytest.raises(ConnectionLost):
        legacy.session.ask(legacy.call, {"q": FORM}, now=1.0)


def test_what_a_call_knows_already_is_not_asked_again():
    legacy = Legacy()
    digest = _digest(FORM)
    legacy.call.answers = {"known": Given("elicitation/create", digest, Raw(b'{"action":"decline"}'))}
    (line,) = legacy.ask(known=FORM, new=ROOTS)
    assert line["method"] == "roots/list"
    answers = legacy.answered(answer(line["id"], roots=[]))
    assert answers == {"known": types.ElicitResult("decline"), "new": types.ListRootsResult([])}


def test_the_questions_of_a_legacy_call_are_bounded():
    legacy = Legacy(questions=InputPolicy(max_rounds=2))
    for _ in range(2):
        (line,) = legacy.ask(q=FORM)
        legacy.answered(answer(line["id"], **ANNA))
    with pytest.raises(LocalProtocolError, match="limit is 2"):
        legacy.session.ask(legacy.call, {"q": FORM}, now=0.0)


# --------------------------------------------------------------------------------------- stateless: a round of the request


class Stateless:
    """A handler in the modern era, and the client that answers it."""

    def __init__(self, *, can=ABLE, session=None, method="tools/call", token=None, **options):
        self.session = session or server_session(**options)
        self.can = can
        self.method = method
        self.params = {"resources/read": {"uri": "x:"}}.get(method, {"name": "ask"})
        meta = {} if token is None else {"progressToken": token}
        self.call = asks(self.session, modern("r0", method, can=can, meta=meta, **self.params))
        self.count = 0

    def ask(self, *, now=0.0, **questions):
        assert self.session.ask(self.call, questions, now=now) is None
        return self.asked()

    def asked(self):
        """Return the questions that the client gets, and the state."""
        (line,) = said(self.session)
        result = line["result"]
        assert result["resultType"] == "input_required"
        self.state = result["requestState"]
        return result["inputRequests"]

    def retry(self, answers=None, *, session=None, now=0.0, **changes):
        self.count += 1
        members = {"requestState": self.state, **self.params, **changes}
        can = members.pop("can", self.can)
        if answers is not None:
            members["inputResponses"] = answers
        return feed(session or self.session, modern(f"r{self.count}", self.method, can=can, **members), now=now)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_a_modern_question_ends_the_request_and_goes_on_with_its_retry(method):
    """MR-01, MR-02, MR-03, FR-09, DE-16."""
    flow = Stateless(method=method)
    assert flow.ask(q=FORM)["q"]["method"] == "elicitation/create"
    assert len(flow.session.incoming) == 0
    (event,) = flow.retry({"q": ANNA})
    assert event == InputsAnswered(flow.call, {"q": SAID_ANNA})
    assert flow.call.id == "r1"
    assert flow.session.fail(flow.call, InternalError("x"))
    assert said(flow.session)[0]["id"] == "r1"
    assert len(flow.session._rounds.waiting) == 0


def test_a_method_that_may_not_ask_does_not():
    """MR-01, CON-14."""
    session = server_session()
    call = asks(session, modern(1, "tools/list", can=ABLE, requestState="x", inputResponses={}))
    with pytest.raises(LocalProtocolError, match="tools/list must not ask"):
        session.ask(call, {"q": FORM}, now=0.0)
    assert session.respond(call, types.ListToolsResult([]))


def test_several_rounds_each_bring_the_latest_answers():
    """MR-11."""
    flow = Stateless()
    flow.ask(a=FORM)
    (event,) = flow.retry({"a": ANNA})
    flow.ask(b=ROOTS, s=SAMPLE)
    (event,) = flow.retry({"b": {"roots": []}, "s": SAMPLED})
    assert event.answers["b"] == types.ListRootsResult([])
    assert flow.session.ask(flow.call, {"a": FORM}, now=0.0) == {"a": SAID_ANNA}  # known already
    assert flow.session.respond(flow.call, DONE)


def test_missing_answers_are_asked_again_and_given_ones_kept():
    """MR-12."""
    flow = Stateless()
    assert set(flow.ask(a=FORM, b=ROOTS)) == {"a", "b"}
    assert flow.retry({}) == []
    assert set(flow.asked()) == {"a", "b"}
    assert flow.retry() == []
    assert set(flow.asked()) == {"a", "b"}
    assert flow.retry({"a": ANNA}) == []
    assert set(flow.asked()) == {"b"}
    (event,) = flow.retry({"b": {"roots": []}})
    assert event.answers == {"a": SAID_ANNA, "b": types.ListRootsResult([])}


def test_answers_to_nothing_are_ignored():
    """MR-13."""
    flow = Stateless()
    flow.ask(q=FORM)
    (event,) = flow.retry({"q": ANNA, "zz": 5})
    assert event.answers == {"q": SAID_ANNA}


def test_a_first_request_may_answer_questions_in_advance():
    """MR-12, MR-13."""
    session = server_session()
    call = asks(session, modern(1, "tools/call", can=ABLE, name="ask", inputResponses={"q": ANNA, "zz": ANNA}))
    assert session.ask(call, {"q": FORM}, now=0.0) == {"q": SAID_ANNA}
    assert session.ask(call, {"q": OTHER_FORM, "r": ROOTS}, now=0.0) is None  # the answer was to another question
    (line,) = said(session)
    assert set(line["result"]["inputRequests"]) == {"q", "r"}


@pytest.mark.parametrize("given", [5, None, {"roots": []}, {"action": "maybe"}])
def test_a_malformed_answer_in_advance_is_refused(given):
    """MR-14."""
    session = server_session()
    call = asks(session, modern(1, "tools/call", can=ABLE, name="ask", inputResponses={"q": given}))
    with pytest.raises(InvalidParams, match="does not match elicitation/create"):
        session.ask(call, {"q": FORM}, now=0.0)


@pytest.mark.parametrize("answers", [5, [], {"q": {"action": "maybe"}}, {"q": 5}, {"q": None}, {"q": {"roots": []}}])
def test_malformed_answers_are_refused_and_the_handler_goes_on_waiting(answers):
    """MR-14."""
    flow = Stateless()
    flow.ask(q=FORM)
    assert flow.retry(answers) == []
    (line,) = said(flow.session)
    assert (line["id"], code(line)) == ("r1", -32602)
    assert flow.session.respond(flow.call, DONE) is False
    (event,) = flow.retry({"q": ANNA})
    assert event.call is flow.call


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refusal_is_an_answer(action):
    """EL-15, MR-19."""
    flow = Stateless()
    flow.ask(q=FORM)
    (event,) = flow.retry({"q": {"action": action}})
    assert event.answers == {"q": types.ElicitResult(action)}


def refused(flow, **changes):
    assert flow.retry({"q": ANNA}, **changes) == []
    (line,) = said(changes.get("session") or flow.session)
    return code(line)


def test_a_state_that_was_changed_is_refused():
    """MR-15."""
    flow = Stateless()
    flow.ask(q=FORM)
    state = flow.state
    for bad in (state[:-1], state[1:], "", "junk", state.swapcase(), state + "=", ".".join(reversed(state.split(".")))):
        assert refused(flow, requestState=bad) == -32602
    (event,) = flow.retry({"q": ANNA})
    assert event.call is flow.call


def test_a_state_is_good_for_its_request_alone():
    """MR-16."""
    flow = Stateless(method="prompts/get")
    flow.ask(q=FORM)
    assert refused(flow, name="other") == -32602
    assert refused(flow, arguments={"a": "b"}) == -32602
    flow.method = "tools/call"
    assert refused(flow) == -32602
    assert refused(flow, session=server_session(principal="somebody else")) == -32602
    assert refused(flow, session=server_session(key=None)) == -32602


def test_a_state_expires_by_the_clock_of_the_world():
    """MR-16."""
    policy = InputPolicy(state_lifetime=100.0)
    flow = Stateless(questions=policy, unix_offset=1_000_000.0)
    flow.ask(q=FORM, now=5.0)
    assert refused(flow, now=105.0) == -32602
    later = server_session(questions=policy, unix_offset=1_000_090.0)
    assert refused(flow, session=later, now=15.0) == -32602
    (event,) = flow.retry({"q": ANNA}, session=later, now=14.0)
    assert isinstance(event, CallReceived)


def test_another_process_starts_from_the_top_with_the_answers_it_was_given():
    """ST-03, MR-18."""
    flow = Stateless()
    flow.ask(a=FORM)
    flow.retry({"a": ANNA})
    flow.ask(b=ROOTS)
    fresh = server_session()
    (event,) = flow.retry({"b": {"roots": []}}, session=fresh)
    assert isinstance(event, CallReceived)
    assert fresh.ask(event.call, {"a": FORM}, now=0.0) == {"a": SAID_ANNA}
    assert fresh.ask(event.call, {"b": ROOTS}, now=0.0) == {"b": types.ListRootsResult([])}
    assert fresh.ask(event.call, {"a": FORM, "b": ROOTS}, now=0.0) is not None
    assert fresh.respond(event.call, DONE)
    assert said(fresh)[0]["id"] == "r2"


def test_a_question_that_changed_meanwhile_is_asked_anew():
    flow = Stateless()
    flow.ask(q=FORM)
    fresh = server_session()
    (event,) = flow.retry({"q": ANNA}, session=fresh)
    assert fresh.ask(event.call, {"q": OTHER_FORM}, now=0.0) is None
    (line,) = said(fresh)
    assert line["result"]["inputRequests"]["q"]["params"]["message"] == "Your age?"


def test_a_state_of_an_earlier_round_gets_a_run_of_its_own():
    flow = Stateless()
    flow.ask(a=FORM)
    early = flow.state
    flow.retry({"a": ANNA})
    flow.ask(b=ROOTS)
    late = flow.state
    (event,) = flow.retry({"a": {"action": "decline"}}, requestState=early)
    assert isinstance(event, CallReceived)
    assert event.call is not flow.call
    assert flow.session.ask(event.call, {"a": FORM}, now=0.0) == {"a": types.ElicitResult("decline")}
    assert flow.session.ask(event.call, {"b": ROOTS}, now=0.0) is None
    said(flow.session)
    (event,) = flow.retry({"b": {"roots": []}}, requestState=late)
    assert event.call is flow.call


def test_the_same_retry_twice_wakes_one_handler_and_starts_another():
    """MR-17: the handler decides whether that matters."""
    flow = Stateless()
    flow.ask(q=FORM)
    (first,) = flow.retry({"q": ANNA})
    (second,) = flow.retry({"q": ANNA})
    assert isinstance(first, InputsAnswered)
    assert isinstance(second, CallReceived)
    assert flow.session.respond(first.call, DONE)
    assert flow.session.respond(second.call, DONE)
    assert [line["id"] for line in said(flow.session)] == ["r1", "r2"]


def test_two_dialogues_do_not_mix():
    """ST-02."""
    one = Stateless()
    one.ask(q=FORM)
    two = Stateless(session=one.session)
    two.count = 10
    two.ask(q=OTHER_FORM)
    (event,) = two.retry({"q": {"action": "accept", "content": {"age": 5}}})
    assert event.call is two.call
    (event,) = one.retry({"q": ANNA})
    assert event == InputsAnswered(one.call, {"q": SAID_ANNA})


def test_a_state_of_another_connection_resumes_no_handler():
    """ST-02."""
    here, there = Stateless(), Stateless()
    here.ask(q=FORM)
    there.ask(q=FORM)
    (event,) = there.retry({"q": ANNA}, session=here.session)
    assert isinstance(event, CallReceived)
    assert len(here.session._rounds.waiting) == 1


def test_a_retry_that_declares_less_is_judged_by_what_it_declares():
    """ST-01, MR-04."""
    flow = Stateless()
    flow.ask(q=FORM)
    assert flow.retry({"q": ANNA}, can={}) == [CallAbandoned(flow.call)]
    (line,) = said(flow.session)
    assert (line["id"], code(line)) == ("r1", -32021)
    (event,) = flow.retry({"q": ANNA})
    assert isinstance(event, CallReceived)


def test_the_token_and_level_of_the_retry_count():
    """MR-08, PR-02, PR-03."""
    flow = Stateless(token="old")
    flow.session.report_progress(flow.call, 9)
    said(flow.session)
    flow.ask(q=FORM)
    assert not flow.session.report_progress(flow.call, 10)
    flow.count += 1
    meta = {"progressToken": "new"}
    message = modern("again", "tools/call", can=ABLE, meta=meta, name="ask", requestState=flow.state, inputResponses={"q": ANNA})
    feed(flow.session, message)
    assert flow.session.report_progress(flow.call, 1)
    assert said(flow.session)[0]["params"]["progressToken"] == "new"


def test_a_cancel_between_two_rounds_is_for_a_request_that_is_over():
    """CA-05, CA-07."""
    flow = Stateless()
    flow.ask(q=FORM)
    assert feed(flow.session, cancelled("r0")) == []
    (event,) = flow.retry({"q": ANNA})
    assert event.call is flow.call
    assert feed(flow.session, cancelled("r1")) == [CallCancelled(flow.call)]
    assert not flow.session.respond(flow.call, DONE)


def test_nothing_is_asked_twice_at_once():
    flow = Stateless()
    flow.ask(q=FORM)
    with pytest.raises(LocalProtocolError, match="has ended"):
        flow.session.ask(flow.call, {"r": ROOTS}, now=0.0)


def test_waiting_handlers_are_abandoned_in_time():
    """MR-18."""
    flow = Stateless(questions=InputPolicy(wait=10.0))
    flow.ask(q=FORM, now=5.0)
    assert flow.session.next_deadline() == 15.0
    assert flow.session.tick(now=14.0) == []
    assert flow.session.tick(now=15.0) == [CallAbandoned(flow.call)]
    assert flow.session.next_deadline() is None
    (event,) = flow.retry({"q": ANNA}, now=16.0)
    assert isinstance(event, CallReceived)


def test_handlers_may_wait_forever_if_configured():
    flow = Stateless(questions=InputPolicy(wait=None))
    flow.ask(q=FORM)
    assert flow.session.next_deadline() is None
    assert flow.session.tick(now=1e9) == []
    assert flow.session.receive_eof(now=1e9) == [CallAbandoned(flow.call), PeerClosed()]


def test_the_number_of_waiting_handlers_is_bounded():
    """MR-18."""
    session = server_session(questions=InputPolicy(max_waiting=2))
    flows = []
    for _ in range(3):
        flow = Stateless(session=session)
        flow.ask(q=FORM)
        flows.append(flow)
    assert len(session._rounds.waiting) == 2
    assert session.next_deadline() == 0.0
    assert session.tick(now=0.0) == [CallAbandoned(flows[0].call)]
    (event,) = flows[0].retry({"q": ANNA})
    assert isinstance(event, CallReceived)
    flows[2].count = 10
    (event,) = flows[2].retry({"q": ANNA})
    assert event.call is flows[2].call


@pytest.mark.slow
def test_ten_thousand_abandoned_questions_cost_no_more_than_a_few():
    """MR-18."""
    session = server_session()
    abandoned = 0
    for number in range(10_000):
        call = asks(session, modern(number, "tools/call", can=ABLE, name="ask"))
        session.ask(call, {"q": FORM}, now=0.0)
        session.data_to_send()
        abandoned += len(session.tick(now=0.0))
        assert len(session._rounds.waiting) <= 256
    assert abandoned == 10_000 - 256
    assert len(session.incoming) == 0
    assert len(session.receive_eof(now=0.0)) == 257


def test_eof_abandons_waiting_handlers():
    """MR-18."""
    session = server_session(questions=InputPolicy(max_waiting=1))
    one, two = Stateless(session=session), None
    one.ask(q=FORM)
    two = Stateless(session=session)
    two.ask(q=FORM)
    assert session.receive_eof(now=0.0) == [CallAbandoned(one.call), CallAbandoned(two.call), PeerClosed()]
    assert session.tick(now=1e9) == []


def test_after_eof_questions_are_still_sent_but_no_handler_waits():
    """SD-07, MR-18: an input_required result can still be sent, and the retry may come over another connection."""
    flow = Stateless()
    flow.session.receive_eof(now=0.0)
    assert flow.session.ask(flow.call, {"q": FORM}, now=0.0) is None
    (line,) = said(flow.session)
    assert line["result"]["resultType"] == "input_required"
    assert len(flow.session._rounds.waiting) == 0
    assert flow.session.tick(now=0.0) == [CallAbandoned(flow.call)]


def test_a_call_that_cannot_be_answered_does_not_wait():
    driver = ModernInputRounds(InputPolicy(), StateSealer(KEY), lambda _call, _result: False, lambda _call: None, unix_offset=0.0)
    asking = call()
    asking.capabilities = types.ClientCapabilities(roots={})
    assert driver.ask(asking, {"q": ROOTS}, now=0.0) is None
    assert len(driver.waiting) == 0
    assert driver.next_deadline() is None


def test_the_rounds_of_a_modern_call_are_bounded():
    flow = Stateless(questions=InputPolicy(max_rounds=3))
    for number in range(3):
        flow.ask(**{f"q{number}": FORM})
        flow.retry({f"q{number}": ANNA})
    with pytest.raises(LocalProtocolError, match="limit is 3"):
        flow.session.ask(flow.call, {"more": FORM}, now=0.0)
    assert flow.session.respond(flow.call, DONE)


def test_rounds_are_counted_across_processes():
    policy = InputPolicy(max_rounds=1)
    flow = Stateless(questions=policy)
    flow.ask(a=FORM)
    fresh = server_session(questions=policy)
    (event,) = flow.retry({}, session=fresh)
    with pytest.raises(LocalProtocolError):
        fresh.ask(event.call, {"a": FORM}, now=0.0)


def test_retries_that_leave_out_answers_are_bounded():
    flow = Stateless(questions=InputPolicy(max_rounds=2))
    flow.ask(q=FORM)
    flow.retry({})
    flow.asked()
    assert flow.retry({}) == [CallAbandoned(flow.call)]
    (line,) = said(flow.session)
    assert (line["id"], code(line)) == ("r2", -32603)


def test_a_question_that_cannot_be_written_ends_the_request():
    flow = Stateless()
    bad = types.CreateMessageRequest(types.CreateMessageParams([], max_tokens=1, metadata={"a": object()}))
    with pytest.raises((LocalProtocolError, TypeError)):
        flow.session.ask(flow.call, {"q": bad}, now=0.0)
    assert len(flow.session._rounds.waiting) == 0
    flow.session.fail(flow.call, InternalError("no"))
    assert [code(line) for line in said(flow.session)] == [-32603]


def test_both_drivers_work_side_by_side():
    """DE-16."""
    session = opened_server(client=ABLE)
    old = asks(session, request("o", "tools/call", name="ask"))
    new = asks(session, modern("n", "tools/call", name="ask", can=ABLE))
    session.ask(old, {"q": SAMPLE}, now=0.0)
    session.ask(new, {"q": SAMPLE}, now=0.0)
    as_request, as_result = said(session)
    assert as_request["method"] == "sampling/createMessage"
    assert (as_result["id"], as_result["result"]["resultType"]) == ("n", "input_required")


def test_what_the_state_holds_is_the_clients_own():
    flow = Stateless(session=server_session(key=KEY))
    flow.ask(q=FORM)
    assert flow.state.count(".") == 2
    with pytest.raises(McpError):
        StateSealer(KEY).open(flow.state, list, binding=b"", now=0.0)


# Questions that belong to no call, and questions that are withdrawn


def test_a_question_outside_of_a_call_ends_with_an_event():
    session = opened_server()
    asked = session.ask_session(ROOTS, now=1.0)
    (line,) = said(session)
    assert (line["id"], line["method"]) == (asked.id, "roots/list")
    (event,) = feed(session, answer(asked.id, roots=[]))
    assert event == RequestEnded(asked, types.ListRootsResult([]))


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
def test_a_question_outside_of_a_call_needs_a_capability(revision):
    """CP-06."""
    session = opened_server(revision, client={"roots": {}})
    with pytest.raises(CapabilityMissing):
        session.ask_session(FORM, now=1.0)
    assert said(session) == []
    assert not session.outgoing


def test_a_question_outside_of_a_call_needs_a_session():
    """FR-09: a modern server sends no requests."""
    with pytest.raises(LocalProtocolError, match="no legacy session"):
        server_session().ask_session(ROOTS, now=1.0)
    session = opened_server()
    session.receive_eof(now=1.0)
    with pytest.raises(ConnectionLost):
        session.ask_session(ROOTS, now=1.0)


def test_a_withdrawn_question_is_cancelled_once_and_the_others_are_answered():
    """CA-01: the answers that came are delivered when none is missing any more."""
    session = opened_server()
    asking = asks(session, request(5, "tools/call", name="ask"))
    session.ask(asking, {"who": FORM, "where": ROOTS}, now=1.0)
    who, where = said(session)
    assert feed(session, answer(where["id"], roots=[])) == []
    (ended,) = session.withdraw((asking, "who"), "not needed")
    assert ended.answers["where"] == types.ListRootsResult([])
    assert isinstance(ended.answers["who"], RequestCancelled)
    assert said(session) == [note("notifications/cancelled", requestId=who["id"], reason="not needed")]
    assert session.withdraw((asking, "who"), "not needed") == []
    assert said(session) == []
