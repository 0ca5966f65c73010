"""Bytes into lines, and long lines into pieces."""

from hypothesis import given
from hypothesis import strategies as st

from twopipes._trace.split_lines import Cut, Cutter

pieces_of_streams = st.lists(st.binary(max_size=12) | st.sampled_from([b"\n", b"\r\n", "é€😀".encode(), b"abc\ndef"]), max_size=12)


def cut(cutter, *chunks):
    return [each for chunk in chunks for each in cutter.feed(chunk)]


@given(pieces_of_streams, st.integers(4, 20))
def test_lines_do_not_depend_on_the_chunks(chunks, limit):
    """FR-13: chunks mean nothing; and nothing that is held is longer than the limit."""
    cutter = Cutter(limit)
    found = cut(cutter, *chunks) + list(cutter.rest())
    lines = [b""]
    for each in found:
        assert len(each.data) <= limit
        assert each.why is None
        lines[-1] += each.data
        if each.is_whole:
            lines.append(b"")
    assert b"\n".join(lines) == b"".join(chunks)
    assert list(cutter.rest()) == []


@given(pieces_of_streams, st.integers(4, 20))
def test_a_line_that_may_not_be_cut_is_given_whole_or_by_its_size(chunks, limit):
    cutter = Cutter(limit, in_pieces=False)
    found = cut(cutter, *chunks) + list(cutter.rest())
    *lines, last = b"".join(chunks).split(b"\n")
    wanted = [
        Cut(line, is_whole=True) if len(line) <= limit else Cut(b"", is_whole=True, left_out=len(line), why="long")
        for line in lines
    ]
    if last:
        wanted.append(Cut(last, is_whole=False) if len(last) <= limit else Cut(b"", is_whole=False, left_out=len(last), why="long"))
    assert found == wanted


@given(st.text(st.sampled_from("aé€😀"), min_size=1), st.integers(1, 9))
def test_no_character_is_split_if_the_text_is_one_chunk(text, extra):
    """A torn one would make both pieces base64."""
    data = text.encode()
    found = cut(Cutter(3 + extra), data + b"\n")
    assert b"".join(each.data for each in found) == data
    for each in found:
        each.data.decode()


def test_bytes_that_are_not_utf_8_are_split():
    found = cut(Cutter(4), b"\x80" * 10 + b"\n")
    assert b"".join(each.data for each in found) == b"\x80" * 10


def test_a_line_that_lost_something_is_counted_to_its_end():
    cutter = Cutter()
    assert cut(cutter, b"begun") == []
    assert cutter.has_unfinished_line
    cutter.leave_out()
    assert not cutter.has_unfinished_line
    assert cut(cutter, b"12", b"345\nnext\n") == [Cut(b"", is_whole=True, left_out=10, why="lost"), Cut(b"next", is_whole=True)]


def test_a_direction_can_be_reset():
    cutter = Cutter(4, in_pieces=False)
    assert cut(cutter, b"far too long") == []
    cutter.reset()
    assert cut(cutter, b"good\n") == [Cut(b"good", is_whole=True)]
