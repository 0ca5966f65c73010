"""Measure the cost of a line, as ratios within one run, so that the machine does not matter.

Each comparison is interleaved: one turn of everybody, then the next turn, and the median of each. A target that is missed
makes the exit code 1. A bare copy of the same bytes is measured beside the lines, to tell our growth from the machine's.
"""

import ctypes
import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median
from time import perf_counter, process_time
from typing import Any

import msgspec

from twopipes._jsonrpc import Request, Response, decode, encode
from twopipes._wire import LineDecoder

KIB = 1024
MIB = 1024 * KIB
PIECE = 64 * KIB
SIZES = (1, 4, 16, 64)
TURNS = 7
SMALL_CALLS = 2000

# A line four times as long may cost this much more: linear, and a little for the caches that it no longer fits.
MOST_FOR_FOUR_TIMES_THE_LENGTH = 4.5
# Peak memory over the length of the line.
MOST_MEMORY = 3.0

# From glibc's malloc.h.
M_MMAP_THRESHOLD = -3

Work = Callable[[], object]


def main(*, as_json: bool = False) -> int:
    """Measure, print the table, and return the exit code."""
    treat_all_sizes_alike()
    rows = [*first_lines(), *growth(), *small_messages(), *memory()]
    if as_json:
        print(msgspec.json.encode(rows).decode())
    else:
        width = max(len(name) for name, _, _ in rows)
        for name, ratio, most in rows:
            target = "" if most is None else f"   target {most:.1f} at most"
            print(f"{name:<{width}}  {ratio:7.2f}{target}")
    missed = [name for name, ratio, most in rows if most is not None and ratio > most]
    for name in missed:
        print(f"missed: {name}", file=sys.stderr)
    return 1 if missed else 0


def treat_all_sizes_alike() -> None:
    """Make the allocator take every large block from the system, as for the first long line of a process.

    Left to itself, glibc keeps freed blocks of up to 32 MiB for the next turn and gives larger ones back, so from the second
    turn on a line of 16 MiB would be measured with warm pages and one of 64 MiB with cold ones: a bare copy of the larger then
    costs up to forty times that of the smaller.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return  # not glibc
    mallopt(M_MMAP_THRESHOLD, 128 * KIB)


def first_lines() -> Iterator[tuple[str, float, float | None]]:
    """Return the cost of the first long line of a process, in wall-clock time and with the default allocator."""
    took: dict[int, list[float]] = {16: [], 64: []}
    for _ in range(TURNS):
        for size, each in took.items():
            done = subprocess.run([sys.executable, __file__, str(size)], capture_output=True, check=True, timeout=60)
            each.append(float(done.stdout))
    ratio = median(took[64]) / median(took[16])
    yield "first line of a process: 64 MiB over 16 MiB, wall clock", ratio, MOST_FOR_FOUR_TIMES_THE_LENGTH


def read_one(size: int) -> None:
    """Read one line of so many MiB and print the seconds; run in the child of :func:`first_lines`."""
    work = in_pieces(encode(long_message(size)))
    start = perf_counter()
    work()
    print(perf_counter() - start)


def growth() -> Iterator[tuple[str, float, float | None]]:
    """Return the cost of a line divided by that of a line a quarter as long."""
    copying: dict[int, Work] = {}
    reading: dict[int, Work] = {}
    writing: dict[int, Work] = {}
    for size in SIZES:
        message = long_message(size)
        line = encode(message)
        copying[size] = lambda line=line: bytearray(line)
        reading[size] = in_pieces(line)
        writing[size] = lambda message=message: encode(message)
    for name, works in (("bare copy", copying), ("read", reading), ("write", writing)):
        took = interleaved(works)
        for shorter, longer in pairwise(SIZES):
            # The target is for the long lines; a short one is over before the clock has seen much of it.
            most = MOST_FOR_FOUR_TIMES_THE_LENGTH if longer == SIZES[-1] and works is not copying else None
            yield f"{name}: {longer} MiB over {shorter} MiB", took[longer] / took[shorter], most


def long_message(size: int) -> Response:
    """Return a response whose line has so many MiB and is within the limit."""
    return Response(1, {"content": [{"type": "text", "text": "x" * (size * MIB - KIB)}]})


def in_pieces(line: bytes) -> Work:
    """Read this line in pieces, as they come from a pipe."""
    pieces = [line[start : start + PIECE] for start in range(0, len(line), PIECE)]

    def read() -> None:
        decoder = LineDecoder()
        for piece in pieces:
            for each in decoder.feed(piece):
                if not isinstance(decode(each), Response):
                    raise TypeError("the line did not come back")

    return read


def small_messages() -> Iterator[tuple[str, float, float | None]]:
    """Return the cost of a message of the usual size divided by that of the bare parser and the bare encoder."""
    request = Request(7, "tools/call", {"name": "echo", "arguments": {"text": "hello"}, "_meta": {"progressToken": 7}})
    response = Response(7, {"content": [{"type": "text", "text": "hello"}]})
    line = encode(request)
    bare_line = line[:-1]
    decoder = LineDecoder()
    bare_encode = msgspec.json.Encoder().encode
    bare_decode = msgspec.json.Decoder().decode
    took = interleaved(
        {
            "bare decode": many(lambda: bare_decode(bare_line)),
            "feed": many(lambda: decoder.feed(line)),
            "decode": many(lambda: decode(bare_line)),
            "feed and decode": many(lambda: [decode(each) for each in decoder.feed(line)]),
            "bare encode": many(lambda: bare_encode(response)),
            "encode": many(lambda: encode(response)),
        },
        turns=31,
    )
    for name in ("feed", "decode", "feed and decode"):
        yield f"{len(line)} bytes: {name} over bare msgspec decode", took[name] / took["bare decode"], None
    yield "small answer: encode over bare msgspec encode", took["encode"] / took["bare encode"], None


def memory() -> Iterator[tuple[str, float, float | None]]:
    """Return the peak memory while a line is read or written, the line included, divided by its length."""
    length = 64 * MIB - KIB
    piece = b"x" * PIECE

    def read_a_line() -> None:
        decoder = LineDecoder()
        decoder.feed(b'{"jsonrpc":"2.0","id":1,"result":{"text":"')
        for _ in range(length // PIECE):
            decoder.feed(piece)
        for each in decoder.feed(b'"}}\n'):
            decode(each)

    def drop_a_line() -> None:
        decoder = LineDecoder(max_line=MIB)
        for _ in range(length // PIECE):
            decoder.feed(piece)
        decoder.feed(b"\n")

    message = Response(1, {"text": "x" * length})
    yield "peak memory: read a line, over its length", peak(read_a_line) / length, MOST_MEMORY
    yield "peak memory: drop a line 64 times the limit, over the limit", peak(drop_a_line) / MIB, MOST_MEMORY
    yield "peak memory: write a line, over its length", peak(lambda: encode(message)) / length, MOST_MEMORY


def many(work: Work) -> Work:
    """Repeat short work often enough to be measured."""

    def repeat() -> None:
        for _ in range(SMALL_CALLS):
            work()

    return repeat


def interleaved(works: dict[Any, Work], turns: int = TURNS) -> dict[Any, float]:
    """Return the median seconds of each piece of work; they take turns."""
    took: dict[Any, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    gc.collect()
    gc.disable()
    try:
        for _ in range(turns):
            for name, work in works.items():
                start = process_time()
                work()
                took[name].append(process_time() - start)
    finally:
        gc.enable()
    return {name: median(each) for name, each in took.items()}


def peak(work: Work) -> int:
    """Return the peak memory of this work in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        sys.exit(main(as_json=True))
    elif len(sys.argv) > 1:
        read_one(int(sys.argv[1]))
    else:
        sys.exit(main())
