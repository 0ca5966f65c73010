"""Invariants of the decoder for any bytes. Shared by the fuzzer, the property tests and the replay of the seeds."""

import random
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from twopipes._jsonrpc import Batch, ErrorResponse, Message, Notification, Request, Response, decode, encode, salvage_id
from twopipes._wire import LineDecoder, LineRejected
from twopipes.errors import LocalProtocolError

GOOD_LINE = b'{"jsonrpc":"2.0","id":"good","method":"ping"}'
MAX_EXCERPT = 32
MAX_TAIL = 256
LINE_LIMITS = (None, len(GOOD_LINE), 1000)
BATCH_LIMITS = (0, 3, None)

MESSAGES = (Request, Notification, Response, ErrorResponse)


def lines_of(pieces: Iterable[bytes], *, max_line: int | None = None, max_excerpt: int = MAX_EXCERPT) -> list[bytes | LineRejected]:
    """Return all results of a decoder for a stream that arrives in these pieces and then ends."""
    decoder = LineDecoder(max_line=max_line, max_excerpt=max_excerpt)
    events: list[bytes | LineRejected] = []
    for piece in pieces:
        events += decoder.feed(piece)
    return events + decoder.finish()


def cut(data: bytes, positions: Iterable[int]) -> Iterator[bytes]:
    """Yield the data in pieces, cut at these positions; some pieces may be empty."""
    start = 0
    for position in sorted(positions):
        yield data[start:position]
        start = position
    yield data[start:]


def check_stream(data: bytes, positions: Iterable[int], *, max_line: int | None, max_batch: int | None) -> None:
    """Check every invariant of the decoder on one stream, cut at these positions."""
    whole = lines_of([data], max_line=max_line)
    assert lines_of(cut(data, positions), max_line=max_line) == whole, "chunking mattered"
    for event in whole:
        if isinstance(event, LineRejected):
            check_rejected(salvage_id(event))
        else:
            check_line(event, max_line=max_line, max_batch=max_batch)
    # FR-01, JR-20: no earlier bytes can damage the line after the next newline.
    assert lines_of([data, b"\n", GOOD_LINE, b"\n"], max_line=max_line) == [*whole, GOOD_LINE], "a good line was lost"


def check_line(line: bytes, *, max_line: int | None, max_batch: int | None) -> None:
    """Check a line of the decoder, and its decoded message."""
    assert b"\n" not in line
    assert line.strip(), "a blank line was not dropped"
    assert max_line is None or len(line) <= max_line
    line.decode("utf-8", "strict")
    check_decoded(decode(line, max_batch=max_batch, max_excerpt=MAX_EXCERPT), max_batch=max_batch)


def check_decoded(found: Message | Batch | LineRejected, *, max_batch: int | None) -> None:
    """Check a message, each member of a batch, or a refusal."""
    if isinstance(found, LineRejected):
        check_rejected(found)
    elif isinstance(found, Batch):
        assert max_batch is None or len(found.members) <= max_batch, "JR-15: a batch that is not allowed"
        for member in found.members:
            assert not isinstance(member, Batch)
            check_decoded(member, max_batch=0)
    else:
        check_message(found)


def check_message(message: Message) -> None:
    """Check that a message has the shape of its type, and that it survives encoding and decoding."""
    assert isinstance(message, MESSAGES)
    if isinstance(message, Request | Response):
        assert type(message.id) in {int, str}, "JR-02, JR-03"
    if isinstance(message, Request | Notification) and message.params is not msgspec.UNSET:
        assert bytes(message.params).startswith(b"{"), "JR-11"
    if isinstance(message, Response):
        assert bytes(message.result).startswith(b"{"), "JR-07"
    try:
        line = encode(message)
    except LocalProtocolError as error:
        if isinstance(error.__cause__, RecursionError):  # decoded just below the limit of the stack, encoded just above it
            return
        raise
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1, "FR-02"
    line.decode("utf-8", "strict")
    assert decode(line[:-1]) == message, "decode(encode(m)) is not m"


def check_rejected(rejected: LineRejected) -> None:
    """Check that a refusal is bounded and has a valid request id."""
    assert len(rejected.excerpt) <= MAX_EXCERPT
    assert len(rejected.tail) <= MAX_TAIL
    assert len(rejected.detail) <= 300
    assert str(rejected)
    assert rejected.code in {-32700, -32600}
    assert rejected.request_id is None or type(rejected.request_id) in {int, str}
    assert not (rejected.is_response and rejected.is_notification)


def check_bytes(data: bytes) -> None:
    """Check a stream with cuts and limits taken from the bytes themselves, so that the same bytes give the same result."""
    chance = random.Random(zlib.crc32(data))
    positions = [chance.randrange(len(data) + 1) for _ in range(chance.randrange(1, 8))]
    check_stream(data, positions, max_line=chance.choice(LINE_LIMITS), max_batch=chance.choice(BATCH_LIMITS))
    # Callers should not do this, but it must not raise either: bytes that no LineDecoder has checked.
    found = decode(data, max_batch=chance.choice(BATCH_LIMITS), max_excerpt=MAX_EXCERPT)
    if isinstance(found, LineRejected):
        check_rejected(found)
