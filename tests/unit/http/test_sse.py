"""Server-sent events: encoding and the incremental parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoder_invariants import cut
from twopipes._http.sse import COMMENT, MAX_EVENT_ID, SseEvent, SseParser, encode_event
from twopipes._wire import LineRejected
from twopipes.errors import LocalProtocolError

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def events_of(pieces, *, max_event=None, max_excerpt=8):
    parser = SseParser(max_event, max_excerpt=max_excerpt)
    return [event for piece in pieces for event in parser.feed(piece)]


# Encoding


def test_a_message_is_one_event():
    assert encode_event(PING) == b"data: " + PING + b"\n\n"
    assert encode_event(PING + b"\n") == b"data: " + PING + b"\n\n"


def test_an_event_carries_its_id_and_the_pause_before_a_reconnection():
    assert encode_event(b"{}", id="7-3") == b"id: 7-3\ndata: {}\n\n"
    assert encode_event(b"", id="7-0", retry=500) == b"id: 7-0\nretry: 500\ndata: \n\n"


@pytest.mark.parametrize("line_break", [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r"])
def test_a_line_break_in_the_data_cannot_inject_a_field_or_an_event(line_break):
    # HT-19
    data = b"{}" + line_break + b"id: 99" + line_break + b'data: {"evil":1}'
    (event,) = events_of([encode_event(data, id="1")])
    assert event.id == "1"
    assert event.data == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@pytest.mark.parametrize("event_id", ["", "a\nb", "a\rb", "a\0b", "a b", "é"])
def test_an_unsafe_event_id_is_refused(event_id):
    with pytest.raises(LocalProtocolError, match="visible ASCII"):
        encode_event(b"{}", id=event_id)


@given(st.binary())
def test_whatever_is_encoded_is_one_event_with_the_same_lines(data):
    (event,) = events_of([encode_event(data)])
    lines = event.data.split(b"\n")
    assert lines == data.removesuffix(b"\n").replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")


# Parsing


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_of_the_format_is_read(end):
    # HT-19
    stream = end.join([b": hello", b"id: 5", b"event: message", b"data: {", b"data:}", b"", b"data", b"", b""])
    assert events_of([stream]) == [SseEvent(b"{\n}", "message", "5"), SseEvent(b"", "message", "5")]


def test_comments_unknown_fields_and_blank_lines_give_no_events():
    # HT-18
    assert events_of([COMMENT, b"\n\n", b": x\nfoo: bar\nfoo\n\n", b"event: ping\n\n"]) == []


def test_the_type_of_an_event_does_not_outlive_it():
    first, second = events_of([b"event: endpoint\ndata: /x\n\ndata: {}\n\n"])
    assert (first.type, second.type) == ("endpoint", "message")


def test_one_space_after_the_colon_is_dropped():
    assert [event.data for event in events_of([b"data:a\n\ndata: a\n\ndata:  a\n\n"])] == [b"a", b"a", b" a"]


def test_a_byte_order_mark_is_dropped_at_the_start_only():
    stream = b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n"
    assert [event.data for event in events_of([stream])] == [b"1", b"3"]


def test_an_incomplete_event_is_not_delivered():
    assert events_of([b"data: {}\n"]) == []


def test_the_id_and_the_pause_are_kept_for_the_next_connection():
    parser = SseParser()
    assert parser.feed(b"id: a-1\nretry: 1500\n\n") == []
    assert (parser.last_id, parser.retry) == ("a-1", 1500)
    parser.feed(b"id\nretry: soon\nretry: 99999999999\n\n")
    assert (parser.last_id, parser.retry) == ("", 1500)


@pytest.mark.parametrize("event_id", [b"x" * (MAX_EVENT_ID + 1), "é".encode(), b"\xff", b"a\tb"])
def test_an_id_that_no_header_can_carry_is_not_resumed_after(event_id):
    parser = SseParser()
    parser.feed(b"id: good\ndata: 1\n\nid: " + event_id + b"\ndata: 2\n\n")
    assert parser.last_id == ""


def test_an_id_with_a_nul_is_ignored():
    parser = SseParser()
    parser.feed(b"id: good\ndata: 1\n\nid: a\0b\ndata: 2\n\n")
    assert parser.last_id == "good"


@pytest.mark.parametrize("lines", [[b"x" * 101], [b"x" * 60, b"x" * 60], [b"x" * 10_000, b"y" * 10_000]])
def test_an_event_over_the_limit_is_rejected_and_the_next_one_is_read(lines):
    stream = b"".join(b"data: " + line + b"\n" for line in lines) + b"id: 9\n\ndata: {}\n\n"
    rejected, event = events_of([stream], max_event=100)
    size = len(b"\n".join(lines))
    assert rejected == LineRejected(
        reason="too long",
        detail=f"an event of {size:,} bytes; the limit is 100",
        excerpt=b"x" * 8,
        tail=lines[-1][-256:],
        size=size,
    )
    assert event == SseEvent(b"{}", "message", "9")


def test_data_of_exactly_the_limit_is_accepted():
    (event,) = events_of([b"\xef\xbb\xbfdata: ", b"x" * 100, b"\n\n"], max_event=100)
    assert len(event.data) == 100


@pytest.mark.parametrize("part", [b"x" * 1000, b"data: x\n", b"data\n", b": comment ", b"id: 7\n"])
def test_an_endless_event_is_bounded(part):
    parser = SseParser(1000, max_excerpt=100)
    parser.feed(b"data: ")
    for _ in range(2000):
        parser.feed(part)
        assert parser.held < 3000


FIELDS = st.sampled_from([b"data", b"id", b"event", b"retry", b"", b"other", b"\xef\xbb\xbfdata"])
PARTS = st.one_of(FIELDS, st.sampled_from([b":", b": ", b"\n", b"\r", b"\r\n", b"\n\n", b"x" * 30]), st.binary(max_size=6))


@given(st.lists(PARTS, max_size=40).map(b"".join), st.lists(st.integers(0, 300), max_size=12), st.sampled_from([None, 0, 7, 40]))
def test_it_does_not_matter_where_a_stream_is_cut(stream, positions, max_event):
    whole = events_of([stream], max_event=max_event)
    assert events_of(cut(stream, positions), max_event=max_event) == whole
    assert events_of([stream[i : i + 1] for i in range(len(stream))], max_event=max_event) == whole
    # No earlier bytes can damage the event after the next blank line.
    assert events_of([stream, b"\n\n\n", b"event: message\nid: 1\ndata: good\n\n"])[-1] == SseEvent(b"good", "message", "1")
