"""The tail of a child's stderr: the last lines, bounded."""

import asyncio
import os
import sys
import threading

import pytest

from twopipes._process.stderr import CUT_MARK, Listeners, StderrLine, StderrReader, StderrTail
from unit.channels.joined import nothing_left_behind, run, spin


def test_lines_are_put_together_however_they_are_cut():
    for size in range(1, 12):
        tail = StderrTail()
        data = "eins\nzwölf\r\n\nende".encode()
        for start in range(0, len(data), size):
            tail.feed(data[start : start + size], 1.0)
        assert tail.lines() == ["eins", "zwölf", "", "ende"]


def test_the_unfinished_line_is_included():
    tail = StderrTail()
    tail.feed(b"a\nb", 1.0)
    assert tail.lines() == ["a", "b"]
    assert tail.lines(1) == ["b"]
    assert tail.lines(0) == []
    tail.feed(b"c\n", 2.0)
    assert tail.lines() == ["a", "bc"]
    assert (tail.first_at, tail.last_at, tail.received, tail.dropped) == (1.0, 2.0, 5, 0)


def test_bytes_that_are_not_utf8_are_replaced():
    tail = StderrTail()
    tail.feed(b"caf\xe9\n", 1.0)
    assert tail.lines() == ["caf\ufffd"]


def test_only_the_last_lines_are_kept():
    tail = StderrTail(max_lines=3)
    tail.feed(b"1\n2\n", 1.0)
    tail.feed(b"".join(b"%d\n" % number for number in range(3, 11)), 1.0)
    assert tail.lines() == ["8", "9", "10"]
    assert tail.dropped == 7


def test_the_tail_is_bounded_in_bytes_as_well():
    tail = StderrTail(max_bytes=10)
    for number in range(5):
        tail.feed(b"%d234\n" % number, 1.0)
    assert tail.lines() == ["3234", "4234"]
    assert tail.dropped == 3


def test_a_long_line_is_cut_and_says_so():
    tail = StderrTail(max_line=4)
    tail.feed(b"1234\n12345\n", 1.0)
    assert tail.lines() == ["1234", "1234" + CUT_MARK]


def test_an_endless_line_is_bounded_in_memory():
    tail = StderrTail(max_line=4)
    for _ in range(1000):
        tail.feed(b"x" * 1000, 1.0)
    assert len(tail._open) == 5
    assert tail.lines() == ["xxxx" + CUT_MARK]
    tail.feed(b"\nnext\n", 1.0)
    assert tail.lines() == ["xxxx" + CUT_MARK, "next"]


def test_every_line_is_reported_even_those_that_are_not_kept():
    lines = []
    tail = StderrTail(max_lines=1, on_line=lines.append)
    tail.feed(b"1\n2\n3", 1.0)
    tail.finish(2.0)
    tail.finish(3.0)
    assert lines == [StderrLine(1.0, "1"), StderrLine(1.0, "2"), StderrLine(2.0, "3")]
    assert tail.lines() == ["3"]


def test_a_failing_listener_is_reported_once_and_the_others_get_every_line():
    async def body():
        reports, received, tried = [], [], []

        def fail(line):
            tried.append(line)
            raise RuntimeError("no")

        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(context))
        listeners = Listeners([fail, received.append], loop)
        for number in range(3):
            listeners(StderrLine(0.0, str(number)))
        assert [line.text for line in received] == ["0", "1", "2"]
        assert len(tried) == 3
        assert len(reports) == 1
        assert "a listener for the stderr of a child failed" in reports[0]["message"]

    run(body())


# The reader

by_thread = pytest.mark.parametrize("by_thread", [False, True] if sys.platform != "win32" else [True])


@pytest.mark.slow
@by_thread
def test_the_pipe_is_drained_to_its_end(by_thread):
    async def body():
        with nothing_left_behind():
            read_end, write_end = os.pipe()
            tail, first = StderrTail(), asyncio.Event()
            reader = StderrReader(
                read_end, tail, loop=asyncio.get_running_loop(), on_data=lambda _: first.set(), by_thread=by_thread
            )
            writing = threading.Thread(target=write_plenty, args=(write_end,))
            writing.start()
            await first.wait()
            while reader.is_open:
                await asyncio.sleep(0)
            assert tail.received == 10_000_000
            writing.join()

    run(body())


def write_plenty(fd):
    with os.fdopen(fd, "wb", buffering=0) as file:
        for _ in range(100):
            file.write(b"123456789\n" * 10_000)


@by_thread
def test_what_a_dead_child_wrote_is_read_before_its_exit_is_reported(by_thread):
    """With the event loop standing still, as in the callback that reports the exit."""

    async def body():
        with nothing_left_behind():
            read_end, write_end = os.pipe()
            tail = StderrTail()
            reader = StderrReader(read_end, tail, loop=asyncio.get_running_loop(), by_thread=by_thread)
            os.write(write_end, b"x" * 20_000 + b"\nlast words\n")
            os.close(write_end)
            reader.read_available()
            assert tail.lines(1) == ["last words"]
            assert not reader.is_open
            await spin()

    run(body())


@by_thread
def test_a_grandchild_that_holds_stderr_delays_the_report_only_a_moment(by_thread):
    async def body():
        with nothing_left_behind():
            read_end, write_end = os.pipe()
            tail = StderrTail()
            reader = StderrReader(read_end, tail, loop=asyncio.get_running_loop(), by_thread=by_thread)
            os.write(write_end, b"last words\n")
            reader.read_available()
            assert tail.lines() == ["last words"]
            assert reader.is_open
            reader.close()
            os.close(write_end)
            await spin()

    run(body())


@by_thread
def test_closing_does_not_wait_for_the_end(by_thread):
    async def body():
        with nothing_left_behind():
            read_end, write_end = os.pipe()
            tail = StderrTail()
            reader = StderrReader(read_end, tail, loop=asyncio.get_running_loop(), by_thread=by_thread)
            os.write(write_end, b"last words")
            while not tail.received:
                await asyncio.sleep(0)
            reader.close()
            reader.close()
            assert not reader.is_open
            assert tail.lines() == ["last words"]
            os.close(write_end)
            await spin()

    run(body())
