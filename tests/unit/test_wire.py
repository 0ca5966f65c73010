"""Framing: bytes to lines and back (section FR of the rules)."""

import json
import tracemalloc

import msgspec
import pytest

from decoder_invariants import cut, lines_of
from twopipes._wire import MAX_DEPTH, LineDecoder, LineRejected, encode_line, nests_too_deeply
from twopipes.errors import LocalProtocolError
from twopipes.settings import Limits

KIB = 1024
MIB = 1024 * KIB
BOM = b"\xef\xbb\xbf"

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def every_cut(data: bytes):
    """Yield the stream in two chunks for every position, and byte by byte."""
    for position in range(len(data) + 1):
        yield [data[:position], data[position:]]
    yield [data[i : i + 1] for i in range(len(data))]


# Chunks


def test_a_line_ends_at_its_newline_and_nowhere_else():
    """FR-01."""
    assert lines_of([PING + b"\n" + PONG + b"\n"]) == [PING, PONG]


def test_a_line_is_returned_as_soon_as_its_newline_arrives():
    """FR-01."""
    decoder = LineDecoder()
    assert decoder.feed(PING) == []
    assert decoder.feed(b"\n" + PONG) == [PING]
    assert decoder.feed(b"\n") == [PONG]
    assert decoder.finish() == []


def test_no_bytes_give_no_lines():
    decoder = LineDecoder()
    assert decoder.feed(b"") == []
    assert decoder.finish() == []


@pytest.mark.parametrize(
    "stream",
    [
        PING + b"\n" + PONG + b"\n",
        PING + b"\r\n\r\n\n" + PONG + b"\r\n",
        BOM + PING + b"\n" + PONG,
        '{"text":"é\u2028😀"}\n'.encode(),
        b'{"text":"\xff"}\n' + PING + b"\n",
    ],
)
def test_the_size_of_chunks_does_not_matter(stream):
    """FR-13."""
    whole = lines_of([stream])
    for pieces in every_cut(stream):
        assert lines_of(pieces) == whole


def test_a_five_mebibyte_line_survives_chunks_of_any_size():
    """FR-13."""
    line = b'{"text":"' + b"x" * (5 * MIB) + b'"}'
    for size in (7 * KIB + 1, 64 * KIB, len(line) + 1):
        assert lines_of(cut(line + b"\n", range(size, len(line) + 1, size))) == [line]


def test_held_is_the_size_of_the_incomplete_line():
    decoder = LineDecoder(max_line=100, max_excerpt=10)
    decoder.feed(b"x" * 50)
    assert decoder.held == 50
    decoder.feed(b"x" * 50_000)
    assert decoder.held < 1000
    decoder.feed(b"\n")
    assert decoder.held == 0


# Accepted on input (FR-15)


def test_a_carriage_return_before_the_newline_is_tolerated():
    """FR-15."""
    assert lines_of([PING + b"\r\n" + PONG + b"\r\n"]) == [PING, PONG]


def test_only_one_carriage_return_belongs_to_the_line_ending():
    """FR-15. A second one is white space to JSON."""
    assert lines_of([PING + b"\r\r\n"]) == [PING + b"\r"]


@pytest.mark.parametrize("blank", [b"", b"\r", b" ", b"\t \t", b" \r", BOM, BOM + b"\r"])
def test_blank_lines_are_skipped(blank):
    """FR-15."""
    assert lines_of([blank + b"\n" + PING + b"\n"]) == [PING]


def test_a_last_line_without_a_newline_counts():
    """FR-15."""
    assert lines_of([PING + b"\n", PONG]) == [PING, PONG]
    assert lines_of([PING + b"\r"]) == [PING]
    assert lines_of([PING + b"\n", b"  "]) == [PING]


def test_the_last_line_is_returned_only_once():
    decoder = LineDecoder()
    decoder.feed(PING)
    assert decoder.finish() == [PING]
    assert decoder.finish() == []


def test_a_byte_order_mark_is_accepted_only_at_the_start_of_the_stream():
    """FR-03, FR-15."""
    first, second = lines_of([BOM + PING + b"\n" + BOM + PING + b"\n"])
    assert first == PING
    assert second == BOM + PING


def test_spaces_around_a_message_are_left_to_json():
    assert lines_of([b"  " + PING + b" \n"]) == [b"  " + PING + b" "]


def test_nul_bytes_are_bytes_like_any_other():
    assert lines_of([b"\0\0\n" + PING + b"\n"]) == [b"\0\0", PING]


# Rejected lines


@pytest.mark.parametrize(
    ("line", "bad"),
    [
        (b'{"a":"\xff"}', 6),
        (b'{"a":"\xc3"}', 6),
        (b'{"a":"\xed\xa0\x80"}', 6),  # a surrogate is not valid in UTF-8
        (b'{"a":"\xc0\xaf"}', 6),  # an overlong slash
        (b'{"a":"\xf5\x80\x80\x80"}', 6),  # beyond U+10FFFF
        ("é".encode() + b"\xc3", 2),
    ],
)
def test_a_line_that_is_not_utf8_is_rejected_and_the_next_one_is_returned(line, bad):
    """FR-03, JR-20."""
    refused, next_line = lines_of([line + b"\n" + PING + b"\n"])
    assert isinstance(refused, LineRejected)
    assert refused.reason == "not UTF-8"
    assert refused.detail.startswith(f"byte {bad} of the line (0x{line[bad]:02x})")
    assert refused.excerpt == refused.tail == line
    assert refused.size == len(line)
    assert refused.code == -32700
    assert str(refused) == f"not UTF-8: {refused.detail}"
    assert next_line == PING


@pytest.mark.parametrize("before", [0, 1, 2, 64 * KIB - 3, 64 * KIB - 2, 64 * KIB - 1, 64 * KIB, 200 * KIB])
def test_a_character_between_two_chunks_of_the_utf8_check_is_valid(before):
    """FR-03. The check runs in chunks of 64 KiB, so characters are put across the boundary."""
    good = b"x" * before + "😀é\u2028".encode() * 3
    assert lines_of([good + b"\n"]) == [good]
    (refused,) = lines_of([good + b"\xff" + good + b"\n"])
    assert refused.detail.startswith(f"byte {len(good)} of the line (0xff)")
    (cut_off,) = lines_of([good[:-1] + b"\n"])
    assert cut_off.detail.startswith(f"byte {len(good) - 3} of the line (0xe2)")


def test_only_the_start_of_a_rejected_line_is_kept():
    (refused,) = lines_of([b"\xff" * 10_000 + b"\n"], max_excerpt=20)
    assert refused.excerpt == b"\xff" * 20
    assert refused.tail == b"\xff" * 256
    assert refused.size == 10_000


# The limit


def test_a_line_of_exactly_the_limit_is_returned_for_any_chunks():
    line = b"x" * 20
    for ending in (b"\n", b"\r\n", b""):
        for start in (b"", BOM):
            for pieces in every_cut(start + line + ending):
                assert lines_of(pieces, max_line=20) == [line]


@pytest.mark.parametrize("excess", [1, 2, 3, 4, 5, 6, 100, 1000])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", BOM])
def test_a_line_over_the_limit_is_one_event_and_the_next_line_is_returned(start, excess, ending):
    """JR-20. The same event with the same message for any chunks."""
    line = b"<" + b"x" * (18 + excess) + b">"
    for pieces in every_cut(start + line + ending + PONG[:20] + b"\n"):
        assert lines_of(pieces, max_line=20) == [
            LineRejected(
                reason="too long",
                detail=f"a line of {20 + excess:,} bytes; the limit is 20",
                excerpt=line[:32],
                tail=line[-256:],
                size=20 + excess,
            ),
            PONG[:20],
        ]


def test_a_line_over_the_limit_at_the_end_of_the_stream_is_reported():
    (refused,) = lines_of([b"x" * 10, b"x" * 20], max_line=20)
    assert refused.reason == "too long"
    assert refused.size == 30
    assert refused.code == -32600


def test_a_blank_line_over_the_limit_is_too_long():
    """Otherwise an endless line of spaces could not be checked without holding it."""
    for pieces in every_cut(b" " * 30 + b"\n"):
        (refused,) = lines_of(pieces, max_line=20)
        assert refused.reason == "too long"


def test_the_limit_can_be_switched_off():
    line = b"x" * (200 * KIB)
    assert lines_of([line + b"\n"], max_line=None) == [line]


def test_the_default_limit_is_64_mebibytes():
    assert LineDecoder()._max_line == Limits().max_line == 64 * MIB


def test_a_decoder_continues_after_any_number_of_long_lines():
    """JR-20."""
    stream = b"".join(b"x" * 1000 + b"\n" + PING + b"\n" for _ in range(50))
    for size in (1, 13, 4096):
        events = lines_of(cut(stream, range(size, len(stream), size)), max_line=len(PING))
        assert [event for event in events if isinstance(event, bytes)] == [PING] * 50
        assert sum(isinstance(event, LineRejected) for event in events) == 50


# Nesting

DEEPEST = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH


@pytest.mark.parametrize(
    "line",
    [
        DEEPEST,
        b"{" + b'"a":[],' * MAX_DEPTH + b'"b":{}}',
        b'["' + DEEPEST + b'",' + DEEPEST[1:-1] + b"]",
        rb'["\\\",' + DEEPEST[1:-1] + b"]",
        rb'["\"' + b"[" * MAX_DEPTH + b'"]',
        rb'["\\\"' + b"[" * MAX_DEPTH + b'"]',
    ],
    ids=["the limit", "wide", "brackets in a string", "a backslash", "a quote", "both"],
)
def test_brackets_in_strings_and_side_by_side_are_not_depth(line):
    assert not nests_too_deeply(line)


@pytest.mark.parametrize(
    "line",
    [
        b"[" + DEEPEST + b"]",
        b"[" * (MAX_DEPTH + 1),
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b'[{"a": ' * (MAX_DEPTH // 2 + 1) + b"1" + b"}]" * (MAX_DEPTH // 2 + 1),
        b'["' + b"]" * MAX_DEPTH + b'",' + DEEPEST + b"]",
        rb'["]\"]' + b"]" * MAX_DEPTH + rb'\\",' + DEEPEST + b"]",
    ],
    ids=["one more", "unfinished", "objects", "both", "brackets in a string", "an escaped quote"],
)
def test_one_level_more_than_the_limit_is_too_deep(line):
    """JR-20."""
    assert nests_too_deeply(line)


# Memory


def peak_of(decoder: LineDecoder, pieces) -> tuple[int, list]:
    """Return the peak memory of the decoder in bytes, including its result."""
    events = []
    tracemalloc.start()
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        return tracemalloc.get_traced_memory()[1], events
    finally:
        tracemalloc.stop()


def repeated(piece: bytes, length: int):
    """Yield a long line without a copy of it outside the decoder."""
    for _ in range(length // len(piece)):
        yield piece
    yield b"\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "length"),
    [
        (b"x" * 64 * KIB, 16 * MIB),
        ("é".encode() * 32 * KIB, 16 * MIB),
        (b"x" * 16 * MIB, 16 * MIB),
        (b"x" * 16, MIB),
    ],
    ids=["64 KiB", "64 KiB not ASCII", "whole", "16 bytes"],
)
def test_a_line_costs_less_than_three_times_its_length(piece, length):
    """FR-13."""
    peak, events = peak_of(LineDecoder(), repeated(piece, length))
    assert [len(event) for event in events] == [length]
    assert peak < 3 * length


def test_a_byte_order_mark_and_a_carriage_return_cost_one_copy_together():
    length = 4 * MIB
    pieces = [BOM, *[b"x" * KIB] * (length // KIB), b"\r\n"]
    peak, events = peak_of(LineDecoder(), pieces)
    assert [len(event) for event in events] == [length]
    assert peak < 3 * length


@pytest.mark.slow
def test_an_endless_line_is_dropped_in_constant_memory():
    limit = 64 * KIB
    peak, events = peak_of(LineDecoder(max_line=limit), repeated(b"x" * KIB, 64 * MIB))
    assert [event.reason for event in events] == ["too long"]
    assert events[0].size == 64 * MIB
    assert peak < 3 * limit


# Writing


def test_a_message_is_written_as_one_line():
    """FR-01."""
    assert encode_line({"a": [1, "b"]}) == b'{"a":[1,"b"]}\n'


def test_newlines_in_strings_are_escaped():
    """FR-02."""
    line = encode_line({"text\n": "a\nb\r\nc"})
    assert line.count(b"\n") == 1
    assert b"\r" not in line
    assert json.loads(line) == {"text\n": "a\nb\r\nc"}


@pytest.mark.parametrize("text", ["😀", "漢字", "a\u2028b\u2029c\u0085d", "\0\x01\x7f", "\ufeff", "\ufffe\uffff", "</script>"])
def test_every_character_comes_back_as_it_was(text):
    """FR-03."""
    line = encode_line([text])
    assert json.loads(line.decode("utf-8", "strict")) == [text]
    assert not line.startswith(BOM)


def test_unicode_line_separators_are_written_unchanged():
    """FR-03."""
    assert encode_line("\u2028\u2029\u0085") == '"\u2028\u2029\u0085"\n'.encode()


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ("\ud800", "\ufffd"),
        ("a\udfffb", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),  # a surrogate pair, as JavaScript stores it
        (
            {"\ud800": ["\udc00", {"k": ("\ud800",)}], "n": 1, "x": None},
            {"\ufffd": ["\ufffd", {"k": ["\ufffd"]}], "n": 1, "x": None},
        ),
    ],
)
def test_lone_surrogates_are_written_as_replacement_characters(message, read):
    """FR-03."""
    line = encode_line(message)
    assert json.loads(line.decode("utf-8", "strict")) == read


def test_a_lone_surrogate_does_not_change_a_raw_value():
    """FR-03."""
    assert encode_line({"text": "\ud800", "raw": msgspec.Raw(b'{"n":1.50}')}) == '{"text":"\ufffd","raw":{"n":1.50}}\n'.encode()


def test_nan_and_infinity_are_written_as_null():
    assert encode_line([float("nan"), float("inf"), -float("inf")]) == b"[null,null,null]\n"


def test_a_raw_value_of_several_lines_is_written_as_one():
    """FR-02."""
    pretty = json.dumps({"a": [1, 2.50, "x\n  y"]}, indent=2).encode()
    assert encode_line({"result": msgspec.Raw(pretty)}) == b'{"result":{"a":[1,2.5,"x\\n  y"]}}\n'


def itself():
    inner: list = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    "message",
    [
        object(),
        {"a": object()},
        {"a": "\ud800", "b": object()},
        10**5000,
        ["\ud800", 10**5000],
        itself(),
        ["\ud800", itself()],
        msgspec.Raw(b"{\n oops"),
        {(1, 2): "a key that is not a string"},
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_that_json_cannot_represent_is_a_local_error(message):
    with pytest.raises(LocalProtocolError, match="cannot be written as JSON") as caught:
        encode_line(message)
    assert caught.value.__cause__ is not None


def test_large_integers_keep_all_digits():
    """JR-06."""
    assert encode_line([2**63, -(2**64), 10**30]) == f"[{2**63},{-(2**64)},{10**30}]\n".encode()
