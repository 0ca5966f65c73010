"""Reading a trace: whole, torn, damaged, or still being written."""

import re
from pathlib import Path

import pytest

from twopipes import trace
from twopipes._trace.format import VERSION, Damage, Event, Header, Line, encode

HEADER = Header(version=VERSION, recorder="tap")
FIRST = Line(0.1, ">", b"one")
SECOND = Line(0.2, "<", b"two")


def file_of(tmp_path, *entries):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"".join(entry if isinstance(entry, bytes) else encode(entry) for entry in entries))
    return path


def test_a_trace_has_a_header_and_entries_and_can_be_read_again(tmp_path):
    found = trace.read(str(file_of(tmp_path, HEADER, FIRST, SECOND)))
    assert found.header == HEADER
    assert list(found) == [FIRST, SECOND]
    assert list(found) == [FIRST, SECOND]


def test_a_trace_may_end_anywhere(tmp_path):
    """Its writer was killed: every cut after the header gives the entries before it, and at most one damage."""
    whole = b"".join(map(encode, [HEADER, FIRST, SECOND]))
    path = tmp_path / "x.jsonl"
    ends = [len(encode(HEADER)), len(encode(HEADER) + encode(FIRST)), len(whole)]
    for size in range(len(encode(HEADER)) - 1, len(whole) + 1):
        path.write_bytes(whole[:size])
        entries = list(trace.read(path))
        # If only the newline is missing, the entry is complete.
        complete = sum(size >= end - 1 for end in ends[1:])
        assert entries[:complete] == [FIRST, SECOND][:complete]
        assert [type(entry) for entry in entries[complete:]] == ([] if size in {*ends, *(end - 1 for end in ends)} else [Damage])


def test_a_damaged_line_in_the_middle_costs_that_line(tmp_path):
    path = file_of(tmp_path, HEADER, FIRST, b"what an editor did\n", SECOND)
    first, damage, second = trace.read(path)
    assert (first, second) == (FIRST, SECOND)
    assert isinstance(damage, Damage)
    assert (damage.number, damage.data) == (3, b"what an editor did")
    assert damage.reason
    assert list(trace.read(path).whole_lines()) == [first, damage, second]


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"twopipes_trace":99}\n')
    with pytest.raises(ValueError, match="99"):
        trace.read(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"hello\n", b'{"jsonrpc":"2.0"}\n'])
def test_a_file_that_is_not_a_trace_is_rejected(tmp_path, content):
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        trace.read(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        trace.read(tmp_path / "nowhere")


def test_a_trace_that_is_still_being_written_is_followed(tmp_path):
    """Also where the writer is caught in the middle of a line, the header included."""
    pieces = [encode(HEADER)[:5], encode(HEADER)[5:] + encode(FIRST), encode(SECOND)[:10], b"", encode(SECOND)[10:]]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"")

    def follow():
        if not pieces:
            return False
        with path.open("ab") as file:
            file.write(pieces.pop(0))
        return True

    found = trace.read(path, follow=follow)
    assert len(pieces) == 3
    assert found.header == HEADER
    entries = iter(found)
    assert next(entries) == FIRST
    assert next(entries) == SECOND
    assert list(entries) == []


def test_pieces_are_put_together_by_direction_and_connection(tmp_path):
    entries = [
        Line(1.0, ">", b"a", is_whole=False),
        Line(1.1, "<", b"x", is_whole=False),
        Line(1.2, ">", b"A", is_whole=False, connection=1),
        Event(at=1.3, name="note"),
        Line(1.4, ">", b"b", is_whole=False),
        Line(1.5, ">", b"c"),
        Line(1.6, ">", b"B", connection=1),
    ]
    assert list(trace.read(file_of(tmp_path, HEADER, *entries)).whole_lines()) == [
        Event(at=1.3, name="note"),
        Line(1.5, ">", b"abc"),
        Line(1.6, ">", b"AB", connection=1),
        Line(1.1, "<", b"x", is_whole=False),
    ]


def test_a_line_that_lost_its_end_is_not_continued(tmp_path):
    lost = Event(at=1.2, name="lost", stream=">", lines=1, size=5)
    entries = [
        Line(1.0, ">", b"a", is_whole=False),
        Line(1.1, "<", b"x", is_whole=False),
        lost,
        Line(1.3, ">", b"b"),
        Line(1.4, "<", b"y"),
    ]
    assert list(trace.read(file_of(tmp_path, HEADER, *entries)).whole_lines()) == [
        Line(1.0, ">", b"a", is_whole=False),
        lost,
        Line(1.3, ">", b"b"),
        Line(1.4, "<", b"xy"),
    ]


def test_the_names_of_the_package_are_where_they_say_and_documented():
    reference = (Path(__file__).parents[3] / "docs" / "reference" / "trace-format.md").read_text()
    for name in trace.__all__:
        assert re.search(rf"\b{name}\b", reference)
        assert getattr(trace, name) is not None
        assert name in dir(trace)
    with pytest.raises(AttributeError, match="no attribute 'wread'"):
        _ = trace.wread
