"""The lines of a trace, one by one."""

import json

import pytest

from twopipes._trace.format import VERSION, Event, Header, Line, decode_entry, decode_header, encode

HEADER = Header(version=VERSION, started="2026-07-28T10:00:00.000Z", recorder="tap", argv=("python", "server.py"))


@pytest.mark.parametrize(
    "entry",
    [
        Line(0.0, ">", b'{"jsonrpc":"2.0","id":1,"method":"ping"}'),
        Line(0.25, "<", b'{"text":"\xc3\xa9 \xe2\x80\xa8 \xf0\x9f\x98\x80"}\r'),
        Line(1.5, "!", b"Traceback (most recent call last):\x1b[0m\x00"),
        Line(2.0, "<", b"\xff\xfe not UTF-8"),
        Line(2.0, "<", b"\xed\xa0\x80 a lone surrogate"),
        Line(3.0, "<", b"", is_whole=True),
        Line(3.0, ">", b"begun", is_whole=False, connection=2),
        Event(at=0.001, name="spawn", pid=4711),
        Event(at=1.0, name="eof", stream=">"),
        Event(at=1.0, name="signal", signal="SIGTERM", connection=1),
        Event(at=1.0, name="exit", code=0),
        Event(at=1.0, name="exit", signal="SIGKILL"),
        Event(at=1.0, name="lost", lines=3, size=100, reason="No space left on device", stream="<"),
        Event(at=1.0, name="note", reason="why"),
    ],
)
def test_an_entry_comes_back_as_it_was_written(entry):
    written = encode(entry)
    assert written.endswith(b"\n")
    assert written.count(b"\n") == 1
    assert decode_entry(written) == entry


def test_a_header_comes_back_as_it_was_written():
    assert decode_header(encode(HEADER)) == HEADER


def test_a_line_is_written_as_text_or_as_base64():
    assert json.loads(encode(Line(0.5, ">", b"hello"))) == {"at": 0.5, "kind": ">", "line": "hello"}
    assert json.loads(encode(Line(0.5, "<", b"\xff", is_whole=False))) == {"at": 0.5, "kind": "<", "base64": "/w==", "open": True}


def test_a_reader_passes_over_members_that_it_does_not_know():
    assert decode_entry(b'{"at":1,"kind":">","line":"x","mood":"good"}') == Line(1.0, ">", b"x")
    assert decode_entry(b'{"kind":"=","at":1,"event":"exit","code":3,"cpu":0.5}') == Event(at=1.0, name="exit", code=3)
    assert decode_header(b'{"twopipes_trace":1,"weather":"fine"}').version == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b'{"at":1,"kind":"?","line":"x"}',
        b'{"at":1,"kind":">"}',
        b'{"at":1,"kind":">","line":"x","base64":"/w=="}',
        b'{"at":1,"kind":">","base64":"not base64"}',
        b'{"at":"soon","kind":">","line":"x"}',
        b'{"kind":">","line":"x"}',
        b'{"kind":"=","at":1,"event":"party"}',
        b'{"at":1,"kind":">","line":"torn',
    ],
)
def test_a_line_that_is_not_an_entry_is_rejected(line):
    with pytest.raises(ValueError, match=r"."):
        decode_entry(line)


@pytest.mark.parametrize("line", [b"", b"{}", b"[TRACE] > {}", b'{"jsonrpc":"2.0"}', b'{"twopipes_trace":0}'])
def test_a_line_that_is_not_a_header_is_rejected(line):
    with pytest.raises(ValueError, match=r"."):
        decode_header(line)


def test_a_newer_version_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=rf"version {VERSION + 1} .* supports up to {VERSION}"):
        decode_header(json.dumps({"twopipes_trace": VERSION + 1}).encode())


def test_a_line_has_text_for_people():
    assert Line(0.0, "<", b"\xff caf\xc3\xa9").text == "\\xff café"
