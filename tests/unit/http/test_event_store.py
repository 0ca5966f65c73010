import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopipes._http.event_store import EventBudget, EventStore


def a_store(**given):
    return EventStore(**{"max_events": 100, "max_bytes": 1_000_000} | given)


def lines(events):
    return None if events is None else [event.line for event in events]


def test_the_events_after_an_id_are_those_of_its_stream_in_order():
    # HT-30, HT-31
    store = a_store()
    one, two = store.open(), store.open()
    ids = [store.add(stream, line) for stream, line in [(one, b"a"), (two, b"x"), (one, b"b"), (two, b"y"), (one, b"c")]]
    assert len(set(ids)) == 5
    assert lines(store.after(ids[0])) == [b"b", b"c"]
    assert [event.id for event in store.after(ids[0])] == [ids[2], ids[4]]
    assert lines(store.after(ids[1])) == [b"y"]
    assert lines(store.after(ids[4])) == []
    assert lines(store.after(store.start_of(one))) == [b"a", b"b", b"c"]
    assert store.stream_of(ids[1]) == two


@pytest.mark.parametrize(
    "event_id",
    ["", "1", "-", "1-", "-1", "9-1", "1-99", "1--1", "x-1", "1-x", " 1-1", "1-1 ", "1-1\n", "\u0661-1", "1-" + "1" * 5000],
)
def test_an_id_that_was_never_issued_is_unknown(event_id):
    store = a_store()
    store.add(store.open(), b"a")
    assert store.after(event_id) is None


def test_a_stream_keeps_its_newest_events_and_reports_a_gap():
    store = a_store(max_events=2)
    stream = store.open()
    ids = [store.add(stream, line) for line in (b"a", b"b", b"c", b"d")]
    assert store.after(store.start_of(stream)) is None
    assert store.after(ids[0]) is None
    assert lines(store.after(ids[1])) == [b"c", b"d"]
    assert lines(store.after(ids[2])) == [b"d"]
    assert lines(store.after(ids[0], has_gap=True)) == [b"c", b"d"]


def test_over_its_bytes_a_store_drops_its_oldest_events_of_any_stream():
    store = a_store(max_bytes=3_000)
    one, two = store.open(), store.open()
    first = store.add(one, b"a" * 800)
    second = store.add(two, b"b" * 800)
    third = store.add(one, b"c" * 800)
    assert store.used == 3_000
    store.add(two, b"d" * 800)
    assert store.used == 3_000
    assert store.after(store.start_of(one)) is None
    assert lines(store.after(first)) == [b"c" * 800]
    assert lines(store.after(second)) == [b"d" * 800]
    assert lines(store.after(third)) == []


def test_an_event_larger_than_the_store_is_not_kept_but_has_an_id():
    store = a_store(max_bytes=1_000)
    stream = store.open()
    event_id = store.add(stream, b"a" * 10_000)
    assert store.used == 0
    assert store.after(store.start_of(stream)) is None
    assert store.after(event_id) == []


def test_stores_share_a_budget_and_one_cannot_evict_the_events_of_another():
    budget = EventBudget(2_000)
    one, two = a_store(budget=budget), a_store(budget=budget)
    kept = one.open()
    one.add(kept, b"a" * 1_500)
    stream = two.open()
    two.add(stream, b"b" * 1_500)
    assert (one.used, two.used, budget.used) == (1_700, 0, 1_700)
    assert lines(one.after(one.start_of(kept))) == [b"a" * 1_500]
    one.close()
    assert budget.used == 0
    two.add(stream, b"c" * 1_500)
    assert budget.used == 1_700


def test_a_dropped_stream_is_unknown():
    store = a_store()
    stream = store.open()
    event_id = store.add(stream, b"a")
    store.drop(stream)
    store.drop(stream)
    assert store.after(event_id) is None
    assert store.stream_of(event_id) is None
    assert store.used == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 900)), max_size=60),
    st.integers(1, 10),
    st.integers(500, 5_000),
)
def test_what_is_returned_is_complete_or_refused(adds, max_events, max_bytes):
    store = a_store(max_events=max_events, max_bytes=max_bytes)
    streams = [store.open() for _ in range(4)]
    sent = {stream: [] for stream in streams}
    for index, (number, size) in enumerate(adds):
        line = b"%d" % index + b" " * size
        sent[streams[number]].append((store.add(streams[number], line), line))
        assert store.used <= max_bytes
    for events in sent.values():
        for position, (event_id, _) in enumerate(events):
            found = store.after(event_id)
            assert found is None or found == events[position + 1 :]
            assert found is None or len(found) <= max_events
        if events:
            assert store.after(events[-1][0]) == []
