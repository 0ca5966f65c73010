"""The invariants of the ledgers and of sealed states, under any interleaving that Hypothesis generates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from sessions import KEY, call
from strategies import json_objects, json_values, request_ids, texts
from twopipes._session.ledger import Incoming, Outgoing
from twopipes._session.state_token import StateSealer, binding_of
from twopipes.errors import ConnectionLost, InvalidParams, InvalidRequest

limits = st.none() | st.sampled_from([1.0, 2.0, 2.5, 7.0])
SHORT = settings(max_examples=6 * settings.default.max_examples // 5, stateful_step_count=40)


class OutgoingAgainstAModel(RuleBasedStateMachine):
    """The model is simple and slow: a dictionary that is searched completely."""

    asked = Bundle("asked")

    def __init__(self):
        super().__init__()
        self.ledger = Outgoing()
        self.now = 0.0
        self.open = {}  # by id: the request, and its deadlines by limit
        self.used = set()
        self.left = set()

    def leaves(self, request):
        """A request leaves the ledger exactly once."""
        assert request.id not in self.left
        self.left.add(request.id)
        del self.open[request.id]

    @rule(target=asked, idle=limits, total=limits)
    def ask(self, idle, total):
        request = self.ledger.open("x", now=self.now, idle=idle, total=total)
        assert request.id not in self.used  # JR-04
        self.used.add(request.id)
        deadlines = {name: self.now + seconds for name, seconds in (("idle", idle), ("total", total)) if seconds is not None}
        self.open[request.id] = request, deadlines
        return request

    @rule(request=asked)
    def settle(self, request):
        """A response or a cancellation, in time or late (JR-19, CA-06, CA-07)."""
        found = self.ledger.settle(request.id)
        assert found is (request if request.id in self.open else None)
        if found is not None:
            self.leaves(request)

    @rule(stranger=st.integers(max_value=0) | texts)
    def settle_a_stranger(self, stranger):
        assert self.ledger.settle(stranger) is None
        assert self.ledger.record_progress(stranger, now=self.now) is None

    @rule(request=asked)
    def progress(self, request):
        """TO-03."""
        found = self.ledger.record_progress(request.id, now=self.now)
        assert found is (request if request.id in self.open else None)
        if found is not None and "idle" in self.open[request.id][1]:
            self.open[request.id][1]["idle"] = self.now + request.idle

    @rule(request=asked)
    def lift(self, request):
        """TO-04."""
        if request.id in self.open:
            self.ledger.remove_limits(request)
            self.open[request.id][1].clear()

    @rule(jump=st.sampled_from([0.0, 0.5, 1.0, 3.0, 100.0]))
    def tick(self, jump):
        self.now += jump
        overdue = {}
        for request_id, (_, deadlines) in self.open.items():
            if deadlines and min(deadlines.values()) <= self.now:
                overdue[request_id] = dict(deadlines)
        expired = self.ledger.expire(now=self.now)
        assert {request.id for request, _ in expired} == overdue.keys()
        for request, limit in expired:
            assert overdue[request.id][limit] == min(overdue[request.id].values())
            self.leaves(request)
        whens = [min(overdue[request.id].values()) for request, _ in expired]
        assert whens == sorted(whens)  # the longest overdue first
        assert self.ledger.expire(now=self.now) == []

    @precondition(lambda self: self.open)
    @rule()
    def end_of_file(self):
        lost = self.ledger.close()
        with pytest.raises(ConnectionLost):
            self.ledger.open("x", now=self.now)
        self.ledger = Outgoing()  # of the next connection, which continues the ids
        self.ledger.last_id = max(self.used, default=0)
        assert [request.id for request in lost] == list(self.open)
        for request in lost:
            self.leaves(request)

    @invariant()
    def the_ledger_holds_what_the_model_holds(self):
        assert list(self.ledger) == list(self.open)
        assert len(self.ledger) == len(self.open)
        assert all(self.ledger.get(request_id) is request for request_id, (request, _) in self.open.items())

    @invariant()
    def the_next_deadline_is_the_least(self):
        assert self.ledger.next_deadline() == min((when for _, each in self.open.values() for when in each.values()), default=None)

    @invariant()
    def no_queue_holds_what_is_over_and_none_is_empty(self):
        queued = sorted((limit, request_id) for (limit, _), queue in self.ledger._queues.items() for request_id in queue)
        assert queued == sorted((limit, request_id) for request_id, (_, each) in self.open.items() for limit in each)
        assert all(self.ledger._queues.values())

    def teardown(self):
        for request in self.ledger.close():
            self.leaves(request)
        assert self.left == self.used  # every request left exactly once


class IncomingAgainstAModel(RuleBasedStateMachine):
    """Requests of the peer, with reused ids and handlers that respond too late."""

    calls = Bundle("calls")
    most = 4

    def __init__(self):
        super().__init__()
        self.ledger = Incoming(max_open=self.most)
        self.open = {}
        self.answered = set()

    @rule(target=calls, request_id=st.sampled_from([0, 1, 2, 3, 4, 5, "0", "1", ""]))
    def begin(self, request_id):
        assert (request_id in self.ledger) is (request_id in self.open)
        if request_id in self.ledger:
            return multiple()  # JR-05: the gate refuses it
        asked = call(request_id)
        if len(self.open) >= self.most:
            with pytest.raises(InvalidRequest):
                self.ledger.begin(asked)
        else:
            self.ledger.begin(asked)
            self.open[request_id] = asked
        return asked

    @rule(asked=calls)
    def finish(self, asked):
        """CA-04, CA-07: by the call itself, so that a stale handler cannot respond to another request."""
        wanted = self.open.get(asked.id) is asked
        assert self.ledger.is_open(asked) is wanted
        assert self.ledger.finish(asked) is wanted
        if wanted:
            assert id(asked) not in self.answered
            self.answered.add(id(asked))
            del self.open[asked.id]

    @rule(asked=consumes(calls))
    def finish_for_the_last_time(self, asked):
        self.finish(asked)

    @rule(request_id=st.sampled_from([0, 1, 2, 3, "0", "1", "", 99]))
    def cancel(self, request_id):
        """CA-05, CA-13."""
        assert self.ledger.pop(request_id, None) is self.open.pop(request_id, None)

    @rule()
    def end_of_file(self):
        assert list(self.ledger.values()) == list(self.open.values())
        self.ledger.clear()
        self.open.clear()

    @invariant()
    def the_ledger_holds_what_the_model_holds(self):
        assert len(self.ledger) == len(self.open) <= self.most
        assert all(self.ledger.is_open(asked) for asked in self.open.values())


TestOutgoing = OutgoingAgainstAModel.TestCase
TestOutgoing.settings = SHORT
TestIncoming = IncomingAgainstAModel.TestCase
TestIncoming.settings = SHORT


# Sealed states

times = st.integers(0, 10**10)


@given(payload=json_values, bound=st.tuples(texts, json_objects, texts), expires=times, key=st.binary(min_size=16))
def test_a_sealed_state_is_restored_until_it_expires(payload, bound, expires, key):
    """MR-15, MR-16, ST-03."""
    method, params, principal = bound
    binding = binding_of(method, params, principal=principal)
    state = StateSealer(key).seal(payload, binding=binding, expires=expires)
    assert StateSealer(key).open(state, object, binding=binding, now=expires - 1) == payload
    with pytest.raises(InvalidParams):
        StateSealer(key).open(state, object, binding=binding, now=expires)
    with pytest.raises(InvalidParams):
        StateSealer(key + b"x").open(state, object, binding=binding, now=0)
    with pytest.raises(InvalidParams):
        StateSealer(key).open(state, object, binding=binding_of(method + "x", params, principal=principal), now=0)
    with pytest.raises(InvalidParams):
        StateSealer(key).open(state, object, binding=binding_of(method, params, principal=principal + "x"), now=0)


@given(payload=json_objects, data=st.data())
def test_any_change_of_a_sealed_state_is_detected(payload, data):
    """MR-15: only one spelling is valid."""
    sealer = StateSealer(KEY)
    state = sealer.seal(payload, binding=b"b", expires=100)
    other = sealer.seal({"other": payload}, binding=b"b", expires=200)
    index = data.draw(st.integers(0, len(state) - 1))
    letter = data.draw(st.characters(exclude_characters=state[index], exclude_categories=["Cs"]))
    parts, theirs = state.split("."), other.split(".")
    swapped = data.draw(st.integers(0, 2))
    changed = [
        state[:index] + letter + state[index + 1 :],
        state[:index],
        state[index + 1 :],
        state[:index] + letter + state[index:],
        ".".join([*parts[:swapped], theirs[swapped], *parts[swapped + 1 :]]),
        state + "=",
        state + other,
    ]
    for each in changed:
        with pytest.raises(InvalidParams):
            sealer.open(each, object, binding=b"b", now=0)
    assert sealer.open(state, object, binding=b"b", now=0) == payload


@given(text=texts)
def test_any_invalid_state_is_rejected_with_a_message(text):
    """MR-15, JR-20."""
    with pytest.raises(InvalidParams):
        StateSealer(KEY).open(text, object, binding=b"b", now=0)


@given(members=st.dictionaries(texts, json_values, min_size=2, max_size=5), changing=json_values)
def test_a_binding_does_not_see_the_order_of_members_or_what_a_retry_changes(members, changing):
    """MR-16."""
    for name in ("_meta", "inputResponses", "requestState"):
        members.pop(name, None)
    turned = dict(reversed(members.items()))
    again = {"_meta": changing, **turned, "inputResponses": changing, "requestState": changing}
    assert binding_of("m", members) == binding_of("m", turned) == binding_of("m", again)
    assert binding_of("m", members) != binding_of("m", {**members, "one more": changing}) or "one more" in members


@given(ids=st.lists(request_ids, unique_by=lambda each: (type(each), each), max_size=8))
def test_ids_of_different_types_are_distinguished(ids):
    """JR-06, CA-13."""
    ledger = Incoming()
    calls = [call(each) for each in ids]
    for each in calls:
        assert each.id not in ledger
        ledger.begin(each)
    for each in reversed(calls):
        assert ledger.pop(each.id, None) is each
