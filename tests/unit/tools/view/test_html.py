"""The HTML page of a recording: that it is whole, that it is always the same, and that nothing of the wire can become markup."""

import hashlib
import json
import os
import re
import stat
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path

import pytest

from twopipes import trace
from twopipes._tools.view.html import write_page
from twopipes._trace.format import Event, Header, Line, encode
from unit.trace.recordings import DISCOVERY, call, done, entries, handshake, meta, modern, note

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!-- <script> -->",
    "<img src=x onerror=alert(1)>",
    "]]>",
    "&lt;b&gt; &amp;",
    "javascript:alert(1)",
    "\u2028 and \u2029",
    "\u202eright to left\u202c, \u2066isolated\u2069",
    "\x00\x1b[31m\x7f\x85",
    "\N{SPARKLES} \U000e0041 \ufeff",
    "@@DATA@@ @@SCRIPT@@ @@POLICY@@",
]


class Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.elements = []
        self.contents = {}
        self._inside = None
        self.feed(self.source)
        self.close()
        self.data = json.loads(self.contents["application/json"])

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag in {"script", "style", "title"}:
            self._inside = attributes.get("type", tag)
            assert self._inside not in self.contents, f"a second {self._inside}"
            self.contents[self._inside] = ""

    def handle_endtag(self, tag):
        if tag in {"script", "style", "title"}:
            self._inside = None

    def handle_data(self, data):
        if self._inside is not None:
            self.contents[self._inside] += data

    @property
    def policy(self):
        (found,) = [each["content"] for _, each in self.elements if each.get("http-equiv") == "Content-Security-Policy"]
        return found


def write(path: Path, written, header=None):
    header = header or Header(version=1, started="2026-11-16T12:00:00Z", recorder="tap", argv=("python", "server.py"))
    path.write_bytes(b"".join(encode(each) for each in [header, *written]))
    return path


@pytest.fixture
def page(tmp_path):
    def make(written, header=None, name="a.trace.jsonl"):
        recording = write(tmp_path / name, written, header)
        write_page(trace.read(recording), tmp_path / "page.html")
        return Page(tmp_path / "page.html")

    return make


ROUNDS = [
    *DISCOVERY,
    (">", modern(1, "tools/call", name="ask", _meta=meta(progressToken="p"))),
    ("<", note("notifications/progress", progressToken="p", progress=1, total=2, message="half")),
    ("<", {"id": 1, "result": {"resultType": "input_required", "requestState": "s", "inputRequests": {"q": {}}}}),
    (">", modern(2, "tools/call", name="ask", requestState="s", inputResponses={"q": {"action": "accept"}})),
    ("<", done(2, content=[{"type": "text", "text": "Ada"}])),
    (">", modern("3", "tools/call", name="hang")),
    ("!", "a log line"),
    Event(at=2.0, name="exit", signal="SIGKILL"),
]


# What is in it


def test_the_page_has_calls_responses_rounds_and_missing_responses(page):
    data = page(entries(*ROUNDS)).data
    rows, calls = data["rows"], data["calls"]
    assert [row["kind"] for row in rows[:4]] == ["event", "request", "response", "request"]
    first, second, hanging = calls[1:]
    assert rows[first["request"]]["method"] == rows[first["answer"]]["method"] == "tools/call"
    assert first["rounds"] == second["rounds"] == [1, 2]
    assert [rows[index]["summary"] for index in first["others"]] == ["1 of 2 half"]
    assert first["took"] == pytest.approx(0.2)
    assert (hanging["state"], hanging["answer"], rows[hanging["until"]]["summary"]) == (
        "lost",
        None,
        "the server exited (signal SIGKILL)",
    )
    assert rows[hanging["request"]]["id"] == '"3"', "ids keep their type"
    assert data["facts"][0] == "2026-07-28, stateless"


def test_a_finding_points_at_its_row(page):
    data = page(entries(*handshake(), ("<", "Loading..."))).data
    (finding,) = [each for each in data["findings"] if each["rule"] == "FR-04"]
    assert data["rows"][finding["row"]]["text"] == "Loading..."
    assert data["rows"][finding["row"]]["kind"] == "noise"


def test_a_result_with_is_error_is_marked(page):
    failed = {"id": 1, "result": {"content": [{"type": "text", "text": "no"}], "isError": True}}
    rows = page(entries(*handshake(), (">", call(1, "tools/call", name="x")), ("<", failed))).data["rows"]
    assert rows[-1]["failed"]
    assert rows[-1]["summary"] == "no"


def test_each_line_is_in_the_page_once(page):
    payload = "x" * 100_000
    made = page(entries(*handshake(), (">", call(1, "tools/call", name="echo", arguments={"text": payload}))))
    assert made.source.count(payload) == 1


def test_the_members_of_a_batch_share_the_text_of_their_line(page):
    batch = [{"id": 1, "method": "ping"}, {"id": 2, "method": "tools/list", "params": {"cursor": "\N{SPARKLES}é"}}]
    data = page(entries(*handshake("2025-03-26"), (">", batch))).data
    (text,) = data["batches"]
    members = [row for row in data["rows"] if "part" in row]
    # The page counts in units of 16 bits.
    units = text.encode("utf-16-le")
    found = [json.loads(units[2 * start : 2 * end].decode("utf-16-le")) for _, start, end in (row["part"] for row in members)]
    assert found == [{"jsonrpc": "2.0", **each} for each in batch]


def test_a_line_that_is_not_utf_8_is_kept_exactly(page):
    rows = page([*entries(*handshake()), Line(1.0, "<", b"caf\xe9 \xff")]).data["rows"]
    assert rows[-1]["base64"] == b64encode(b"caf\xe9 \xff").decode()
    assert "text" not in rows[-1]


def test_each_event_has_a_text(page):
    events = [
        Event(at=1.0, name="eof", stream=">"),
        Event(at=1.1, name="eof", stream="<", reason="it is not read"),
        Event(at=1.2, name="signal", signal="SIGTERM"),
        Event(at=1.3, name="lost", lines=3, size=40, reason="the disk is full"),
        Event(at=1.4, name="note", reason="a note"),
        Event(at=1.5, name="exit", code=3),
    ]
    rows = page([*entries(), *events]).data["rows"]
    assert [row["summary"] for row in rows] == [
        "the server was started, pid 4242",
        "the client closed its output",
        "the server closed its output: it is not read",
        "SIGTERM was sent to the server",
        "the recording is missing 3 lines, 40 bytes from here: the disk is full",
        "a note",
        "the server exited (exit code 3)",
    ]


def test_several_connections_are_distinguished(page):
    written = [Line(0.1, ">", b'{"jsonrpc":"2.0","id":1,"method":"ping"}', connection=1), Line(0.2, "!", b"x", connection=2)]
    data = page(written).data
    assert [each["name"] for each in data["connections"]] == ["connection 1", "connection 2"]
    assert [row["connection"] for row in data["rows"]] == [0, 1]


# Torn and damaged recordings


def test_a_torn_recording_has_a_page(tmp_path):
    recording = write(tmp_path / "torn.jsonl", entries(*ROUNDS))
    recording.write_bytes(recording.read_bytes()[:-30] + b"\n{oops\n" + encode(Line(3.0, "<", b'{"jsonrpc', is_whole=False)))
    write_page(trace.read(recording), tmp_path / "page.html")
    rows = Page(tmp_path / "page.html").data["rows"]
    assert [row.get("damage", False) for row in rows[-3:]] == [True, True, False]
    assert rows[-1]["open"]


def test_a_recording_of_nothing_has_a_page(page):
    data = page([]).data
    assert (data["rows"], data["calls"], data["end"]) == ([], [], 0.0)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    recording = write(tmp_path / "a.jsonl", entries())
    with pytest.raises(OSError, match="nowhere"):
        write_page(trace.read(recording), tmp_path / "nowhere" / "page.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_page(trace.read(recording), tmp_path / "folder")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.jsonl", "folder"]


def test_a_page_does_not_take_the_place_of_its_recording(tmp_path):
    recording = write(tmp_path / "a.jsonl", entries())
    (tmp_path / "link.html").symlink_to(recording)
    before = recording.read_bytes()
    for path in (recording, tmp_path / "link.html"):
        with pytest.raises(FileExistsError, match="the recording itself"):
            write_page(trace.read(recording), path)
    assert recording.read_bytes() == before


def test_a_page_goes_through_a_link_and_replaces_a_page(tmp_path):
    recording = write(tmp_path / "a.jsonl", entries())
    (tmp_path / "link.html").symlink_to("real.html")
    for _ in range(2):
        write_page(trace.read(recording), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert Page(tmp_path / "real.html").data["name"] == "a.jsonl"


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_page_is_as_private_as_a_recording(tmp_path):
    write_page(trace.read(write(tmp_path / "a.jsonl", entries())), tmp_path / "page.html")
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o600


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_a_page_behind_a_link_is_as_private_as_a_recording(tmp_path):
    (tmp_path / "real.html").touch(mode=0o644)
    (tmp_path / "link.html").symlink_to("real.html")
    write_page(trace.read(write(tmp_path / "a.jsonl", entries())), tmp_path / "link.html")
    assert stat.S_IMODE((tmp_path / "real.html").stat().st_mode) == 0o600


# Always the same, and whole


def test_the_same_recording_gives_the_same_page(tmp_path):
    recording = write(tmp_path / "a.jsonl", entries(*ROUNDS))
    write_page(trace.read(recording), tmp_path / "one.html")
    write_page(trace.read(recording), tmp_path / "two.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_the_page_is_small_and_grows_with_the_recording_alone(tmp_path):
    recording = write(tmp_path / "a.jsonl", entries())
    write_page(trace.read(recording), tmp_path / "empty.html")
    empty = (tmp_path / "empty.html").stat().st_size
    lines = [(">", call(number, "ping")) for number in range(1000)]
    write(recording, entries(*lines))
    write_page(trace.read(recording), tmp_path / "full.html")
    assert empty < 100_000
    assert (tmp_path / "full.html").stat().st_size - empty < 3 * recording.stat().st_size


def test_the_page_refers_to_nothing_outside_itself(page):
    made = page(entries(*ROUNDS))
    references = {"src", "srcset", "action", "formaction", "data", "poster", "background", "style", "ping", "manifest"}
    for tag, attributes in made.elements:
        assert tag not in {"link", "iframe", "img", "object", "embed", "base", "frame", "audio", "video"}
        assert not references & set(attributes), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert attributes.get("href", "#").startswith("#")
    for part in ("script", "style"):
        assert not re.search(r"https?:|//[a-z]|@import|url\(|\bimport\(", re.sub(r"//[^\n]*", "", made.contents[part]))
    parsers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser"
    assert not re.search(parsers, made.contents["script"])


def test_the_policy_lets_the_page_run_its_own_script_and_nothing_else(page):
    made = page(entries(*ROUNDS))

    def known(text):
        return "'sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    policy = dict(part.strip().split(" ", 1) for part in made.policy.split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": known(made.contents["script"]),
        "style-src": known(made.contents["style"]),
        "base-uri": "'none'",
        "form-action": "'none'",
        "object-src": "'none'",
    }
    names = [attributes.get("http-equiv") for tag, attributes in made.elements if tag == "meta"]
    assert names.index("Content-Security-Policy") == 1, "before anything that could be loaded, right after the charset"


# Untrusted content


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_of_the_wire_becomes_markup(page, text):
    written = [
        *DISCOVERY,
        (">", modern(text, text, **{text: text})),
        ("<", {"id": text, "error": {"code": 1, "message": text}}),
        ("<", note(text)),
        ("<", text.replace("\n", "")),
        ("!", text),
        Event(at=1.0, name="note", reason=text),
    ]
    header = Header(version=1, argv=(text,), cwd=text, target=text, environment=(text,), platform=text, recorder=text)
    calm = page(entries(*DISCOVERY))
    made = page(entries(*written), header)
    assert [tag for tag, _ in made.elements] == [tag for tag, _ in calm.elements]
    assert (made.contents["script"], made.policy) == (calm.contents["script"], calm.policy)
    assert made.data["rows"][3]["method"] == text, "and it is all there"
    block = made.source.partition('id="data">')[2].partition("</script>")[0]
    assert not re.search("[<>&\u2028\u2029\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f\x7f-\x9f\ufeff]", block)


def test_the_name_of_the_file_does_not_become_markup(page):
    made = page(entries(), name="<b>&\u202e.jsonl")
    assert made.contents["title"] == "<b>&\\u202e.jsonl · twopipes"
    assert [tag for tag, _ in made.elements] == [tag for tag, _ in page(entries()).elements]
