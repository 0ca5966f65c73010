"""Properties of the framing for any bytes and any chunks."""

import json
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from decoder_invariants import (
    BATCH_LIMITS,
    GOOD_LINE,
    LINE_LIMITS,
    MAX_EXCERPT,
    check_bytes,
    check_decoded,
    check_rejected,
    check_stream,
    cut,
    lines_of,
)
from strategies import json_objects, json_values, messages, request_ids, streams, texts_with_surrogates
from twopipes._jsonrpc import Request, Response, decode, encode, salvage_id
from twopipes._wire import LineRejected, encode_line, nests_too_deeply

line_limits = st.sampled_from(LINE_LIMITS)
batch_limits = st.sampled_from(BATCH_LIMITS)


@given(data=streams, cuts=st.lists(st.integers(0, 600)), max_line=st.none() | st.integers(0, 100))
def test_chunking_never_matters(data, cuts, max_line):
    """FR-13."""
    assert lines_of(cut(data, cuts), max_line=max_line) == lines_of([data], max_line=max_line)


@given(lines=st.lists(messages), cuts=st.lists(st.integers(0, 600)), ending=st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_what_was_written_is_read_line_by_line(lines, cuts, ending):
    """FR-01, FR-13, FR-15."""
    written = [encode(message) for message in lines]
    stream = b"".join(line[:-1] + ending for line in written)
    assert lines_of(cut(stream, cuts)) == [line[:-1] for line in written]


@given(message=messages)
def test_a_message_is_read_as_it_was_written(message):
    """JR-06, FR-02, FR-03."""
    line = encode(message)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    found = decode(line[:-1])
    assert type(found) is type(message)
    assert parsed(found) == parsed(message)
    assert getattr(found, "id", None) == getattr(message, "id", None)
    assert type(getattr(found, "id", None)) is type(getattr(message, "id", None))
    # Once more, now compared as bytes: raw values are written as they were read.
    assert encode(found) == line
    assert decode(encode(found)[:-1]) == found


@given(answers=st.lists(messages, max_size=5))
def test_a_batch_is_read_as_it_was_written(answers):
    """JR-12, JR-13."""
    found = decode(encode(answers)[:-1], max_batch=5)
    assert [parsed(each) for each in found.members] == [parsed(each) for each in answers]


@given(request_id=request_ids, other=request_ids)
def test_ids_are_equal_when_value_and_type_are(request_id, other):
    """JR-06."""
    one, two = (decode(encode(Request(each, "x"))[:-1]) for each in (request_id, other))
    assert (one == two) is (request_id == other and type(request_id) is type(other))
    assert decode(encode(Response(one.id, {}))[:-1]).id == request_id


@given(text=texts_with_surrogates, params=json_objects)
def test_any_python_string_can_be_written(text, params):
    """FR-02, FR-03. Characters that UTF-8 cannot represent are replaced; all others arrive unchanged."""
    line = encode_line({"text": text, "list": [text, {text: params}]})
    assert line.count(b"\n") == 1
    arrived = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(line.decode("utf-8", "strict")) == {"text": arrived, "list": [arrived, {arrived: params}]}


@given(text=texts_with_surrogates)
def test_what_another_json_library_escapes_is_read_the_same(text):
    r"""FR-03. Python's json writes every lone surrogate as an escape, ``\ud800``."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"text": text}}).encode()
    arrived = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert msgspec.json.decode(decode(line).params) == {"text": arrived}


@given(garbage=streams, cuts=st.lists(st.integers(0, 600)), max_line=st.none() | st.integers(len(GOOD_LINE), 100))
def test_a_valid_line_after_any_garbage_is_returned(garbage, cuts, max_line):
    """JR-20."""
    events = lines_of(cut(garbage + b"\n" + GOOD_LINE + b"\n", cuts), max_line=max_line)
    assert events[-1] == GOOD_LINE
    assert decode(events[-1]) == Request("good", "ping")


@given(data=streams, cuts=st.lists(st.integers(0, 600)), max_line=line_limits, max_batch=batch_limits)
def test_a_stream_holds_every_invariant(data, cuts, max_line, max_batch):
    """FR-13, JR-20."""
    check_stream(data, cuts, max_line=max_line, max_batch=max_batch)


@given(data=streams | st.binary())
def test_any_bytes_hold_what_the_fuzzer_checks(data):
    check_bytes(data)


@given(line=st.binary() | streams, max_batch=batch_limits)
def test_decode_never_raises(line, max_batch):
    """JR-20. Also for bytes that no line decoder has checked."""
    found = decode(line, max_batch=max_batch, max_excerpt=MAX_EXCERPT)
    if isinstance(found, LineRejected):
        check_decoded(found, max_batch=max_batch)


brackets = st.text(st.sampled_from('[]{}"\\n'))
nested = st.recursive(
    json_values | brackets, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(brackets, inner, max_size=2)
)


@given(value=nested, limit=st.integers(0, 8), indent=st.none() | st.just(1))
def test_the_depth_of_any_json_is_limited(value, limit, indent):
    with patch("twopipes._wire.MAX_DEPTH", limit), patch("twopipes._wire._BLOCK", 4):
        assert nests_too_deeply(json.dumps(value, indent=indent).encode()) is (depth(value) > limit)


def depth(value):
    match value:
        case list():
            return 1 + max(map(depth, value), default=0)
        case dict():
            return 1 + max(map(depth, value.values()), default=0)
    return 0


@given(
    head=st.binary() | streams,
    tail=st.binary(max_size=256),
    reason=st.sampled_from(["too long", "too deep", "not JSON", "not UTF-8"]),
)
def test_looking_for_an_id_never_raises(head, tail, reason):
    """JR-17."""
    check_rejected(salvage_id(LineRejected(reason=reason, detail="", excerpt=head[:MAX_EXCERPT], tail=tail, size=len(head))))


@given(line=streams, max_excerpt=st.integers(0, 50), max_line=line_limits, max_batch=batch_limits)
def test_the_excerpt_is_bounded_and_is_the_start_of_the_line(line, max_excerpt, max_line, max_batch):
    line = line.replace(b"\n", b" ").removeprefix(b"\xef\xbb\xbf").removesuffix(b"\r")
    for event in lines_of([line], max_line=max_line, max_excerpt=max_excerpt):
        found = event if isinstance(event, LineRejected) else decode(event, max_batch=max_batch, max_excerpt=max_excerpt)
        if isinstance(found, LineRejected):
            assert found.excerpt == line[:max_excerpt]
            assert found.size == len(line)


def parsed(message):
    """Return a message with its raw parts parsed by another library."""
    fields = msgspec.structs.asdict(message)
    for name in ("params", "result"):
        if isinstance(fields.get(name), msgspec.Raw):
            fields[name] = json.loads(bytes(fields[name]))
    return type(message), fields
