"""The two ledgers."""

import math

import pytest

from sessions import call
from twopipes._session.ledger import Incoming, Outgoing, progress_token
from twopipes.errors import ConnectionLost, InvalidRequest


def test_a_request_is_open_until_it_is_settled_and_settled_once():
    """JR-19, CA-06."""
    ledger = Outgoing()
    asked = ledger.open("tools/list", now=0.0)
    assert ledger.get(asked.id) is asked
    assert list(ledger.values()) == [asked]
    assert ledger.settle(asked.id) is asked
    assert ledger.settle(asked.id) is None
    assert ledger.get(asked.id) is None
    assert len(ledger) == 0
    assert ledger.next_deadline() is None


def test_ids_are_never_used_again():
    """JR-04, JR-05."""
    ledger = Outgoing()
    first = ledger.open("ping", now=0.0)
    ledger.settle(first.id)
    assert ledger.open("ping", now=0.0).id != first.id


def test_an_answer_settles_by_value_and_type():
    """JR-06, FR-14."""
    ledger = Outgoing()
    asked = ledger.open("ping", now=0.0)
    assert ledger.settle(str(asked.id)) is None
    assert ledger.get(str(asked.id)) is None
    assert ledger.settle(asked.id) is asked


def test_progress_starts_the_idle_limit_again_and_not_the_total_one():
    """TO-03."""
    ledger = Outgoing()
    asked = ledger.open("tools/call", now=0.0, idle=10.0, total=25.0)
    assert ledger.next_deadline() == 10.0
    assert ledger.record_progress(asked.id, now=8.0) is asked
    assert ledger.next_deadline() == 18.0
    assert ledger.expire(now=10.0) == []
    ledger.record_progress(asked.id, now=16.0)
    assert ledger.next_deadline() == 25.0
    assert ledger.expire(now=25.0) == [(asked, "total")]
    assert len(ledger) == 0


def test_progress_of_an_unknown_request_is_ignored():
    assert Outgoing().record_progress(7, now=0.0) is None


def test_a_request_past_both_limits_leaves_once_for_the_one_that_came_first():
    ledger = Outgoing()
    late = ledger.open("a", now=0.0, idle=9.0, total=7.0)
    later = ledger.open("b", now=0.0, idle=8.0, total=20.0)
    assert ledger.expire(now=100.0) == [(late, "total"), (later, "idle")]
    assert ledger.next_deadline() is None


def test_the_most_recently_active_request_expires_last():
    ledger = Outgoing()
    first, second = (ledger.open("a", now=0.0, idle=5.0) for _ in range(2))
    ledger.record_progress(first.id, now=1.0)
    assert ledger.expire(now=6.0) == [(second, "idle"), (first, "idle")]


def test_lifted_limits_never_expire():
    """TO-04."""
    ledger = Outgoing()
    asked = ledger.open("subscriptions/listen", now=0.0, idle=5.0, total=6.0)
    ledger.remove_limits(asked)
    assert ledger.next_deadline() is None
    assert ledger.expire(now=math.inf) == []
    assert ledger.record_progress(asked.id, now=1.0) is asked
    assert ledger.settle(asked.id) is asked


def test_the_end_takes_everything_out_in_the_order_it_was_asked():
    ledger = Outgoing()
    asked = [ledger.open("a", now=0.0, idle=limit) for limit in (3.0, 1.0, None)]
    assert ledger.close() == asked
    assert ledger.close() == []
    assert ledger.next_deadline() is None
    with pytest.raises(ConnectionLost):
        ledger.open("a", now=1.0)


def test_what_is_in_a_ledger_shows_itself():
    ledger = Outgoing()
    assert repr(ledger.open("ping", now=0.0)) == "<SentRequest ping id=1>"
    assert repr(call("x")) == "<Call tools/call id='x' 2026-07-28>"


def test_a_call_is_finished_once():
    """CA-07."""
    ledger = Incoming()
    asked = call(1)
    ledger.begin(asked)
    assert 1 in ledger
    assert len(ledger) == 1
    assert ledger.is_open(asked)
    assert ledger.finish(asked)
    assert not ledger.finish(asked)
    assert 1 not in ledger


def test_a_cancel_names_a_call_by_value_and_type():
    """CA-05, CA-13."""
    ledger = Incoming()
    asked = call(5)
    ledger.begin(asked)
    assert ledger.pop("5", None) is None
    assert ledger.pop(6, None) is None
    assert ledger.pop(5, None) is asked
    assert ledger.pop(5, None) is None
    assert not ledger.finish(asked)


def test_a_stale_handler_does_not_answer_for_the_call_that_took_its_id():
    """CA-04, JR-05."""
    ledger = Incoming()
    old, new = call(1), call(1)
    ledger.begin(old)
    ledger.pop(1, None)
    ledger.begin(new)
    assert not ledger.is_open(old)
    assert not ledger.finish(old)
    assert ledger.finish(new)


def test_too_many_open_calls_are_refused_and_not_queued():
    ledger = Incoming(max_open=2)
    ledger.begin(call(1))
    ledger.begin(call(2))
    with pytest.raises(InvalidRequest):
        ledger.begin(call(3))
    ledger.pop(1, None)
    ledger.begin(call(3))
    assert list(ledger) == [2, 3]


@pytest.mark.parametrize(
    ("meta", "token"),
    [
        ({}, None),
        ({"progressToken": 0}, 0),
        ({"progressToken": -7}, -7),
        ({"progressToken": ""}, ""),
        ({"progressToken": "p"}, "p"),
        ({"progressToken": True}, None),
        ({"progressToken": False}, None),
        ({"progressToken": None}, None),
        ({"progressToken": 1.5}, None),
        ({"progressToken": []}, None),
    ],
)
def test_zero_and_strings_are_tokens_and_nonsense_costs_only_the_progress(meta, token):
    """PR-01, MT-06."""
    assert progress_token(meta) == token
    assert type(progress_token(meta)) is type(token)


def test_progress_must_rise_and_be_a_number_to_json():
    """PR-03."""
    asked = call()
    reported = [
        value
        for value in (-math.inf, math.nan, -2, -2, -2.5, -1, math.nan, 0, 0.0, 0.5, math.inf, 10**400, 1, 10**400 + 1)
        if asked.advances_to(value)
    ]
    assert reported == [-2, -1, 0, 0.5, 10**400, 10**400 + 1]


def test_a_resumed_call_takes_over_what_its_retry_says_and_counts_progress_anew():
    """MR-08, ST-01."""
    old, retry = call(1, token="a"), call(2, token="b")
    assert old.advances_to(5)
    retry.answers = {"k": object()}
    retry.log_level = "error"
    old.continue_as(retry)
    assert (old.id, old.progress_token, old.log_level, old.answers) == (2, "b", "error", retry.answers)
    assert old.advances_to(1)
