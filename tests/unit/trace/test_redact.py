"""What must not be recorded is not in the file, however it is written, cut or broken."""

import errno
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values, texts
from twopipes.trace import Recorder, header_for, read
from twopipes.trace import redact as redact_module
from twopipes.trace.format import Event, Header, decode_entry
from twopipes.trace.redact import REDACTED, Redactor, redacted_argv
from twopipes.trace.writing import Writer

NET = 30
BLANK = "[redacted]"


def redacted(message, kind=">", names=("password", "apiKey")):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return Redactor(names).line(kind, data)


def request(**params):
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("kind", [">", "<"])
def test_values_in_params_are_blanked_at_any_depth(kind):
    found = json.loads(
        redacted(request(password="a", arguments={"list": [{"APIKEY": {"b": ["c"]}, "user": "u"}], "password": None}), kind)
    )
    assert found == request(password=BLANK, arguments={"list": [{"APIKEY": BLANK, "user": "u"}], "password": BLANK})


@pytest.mark.parametrize(("kind", "result"), [(">", {"content": {"password": BLANK}}), ("<", {"content": {"password": "p"}})])
def test_results_are_searched_where_the_user_answers(kind, result):
    """On the stateless wire the same answer stands in params; what a server makes of it is its own."""
    assert json.loads(redacted({"jsonrpc": "2.0", "id": 1, "result": {"content": {"password": "p"}}}, kind))["result"] == result


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b' { "jsonrpc" : "2.0", "params": {"text": "my password is out of reach"} } \r',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"inputSchema":{"properties":{"password":{"type":"string"}}}}]}}',
        b'{"jsonrpc":"2.0","password":1,"method":"password"}',
        b"a log line that says nothing",
        b"C:\\Users\\anna \\u00e9",
        b"",
        b"\xff\xfe",
    ],
)
def test_a_line_that_holds_none_of_it_stays_as_it_is(line):
    assert redacted(line, "<") == line


def test_everything_else_stays_to_the_last_digit_and_space():
    value = b'{"a":"}]\\"","b":[1,{}]}'
    line = b'{"jsonrpc":"2.0", "id":12345678901234567890123, "params":{"x":1.10e400,"password" : %b ,"y":"\\u00e9\\/"}}'
    assert redacted(line % value) == line % b'"[redacted]"'


def test_members_that_stand_twice_are_blanked_twice():
    line = b'{"jsonrpc":"2.0","params":{"password":"one","password":"two"},"params":{"password":"three"},"method":"x"}'
    found = redacted(line)
    assert json.loads(found)["method"] == "x"
    assert not re.search(rb"one|two|three", found)


def test_names_in_escapes_are_found():
    assert (
        redacted(b'{"jsonrpc":"2.0","params":{"p\\u0061ssword":"s"}}')
        == b'{"jsonrpc":"2.0","params":{"p\\u0061ssword":"[redacted]"}}'
    )
    assert redacted(b'{"jsonrpc":"2.0","p\\u0061rams":{"password":"s"}}').count(b"[redacted]") == 1
    assert redacted(b'{"jsonrpc":"2.0","params":{"a\\/b\\ud83d\\ude00":"s"}}', names=["a/b😀"]).count(b"[redacted]") == 1


def test_a_batch_is_searched_message_by_message():
    batch = [request(password="s"), {"jsonrpc": "2.0", "id": 1, "result": {"password": "kept"}}, 7, "password"]
    assert json.loads(redacted(batch, "<")) == [request(password=BLANK), *batch[1:]]
    untouched = b'[ {"jsonrpc":"2.0","id":1,"result":{"password":1}} ]'
    assert redacted(untouched, "<") == untouched


@pytest.mark.parametrize(
    ("kind", "line", "wanted"),
    [
        ("!", b"login with PASSWORD=sesame", REDACTED),
        ("!", b'{"level":"info","nested":[{"password":"sesame"}]}', b'{"level":"info","nested":[{"password":"[redacted]"}]}'),
        ("!", b'{"jsonrpc":"2.0","result":{"password":"sesame"}}', b'{"jsonrpc":"2.0","result":{"password":"[redacted]"}}'),
        ("<", b'{"password":"sesame"}', b'{"password":"[redacted]"}'),
        ("<", b'{"jsonrpc":"2.0","params":{"password":"sesame"', REDACTED),
        ("<", b'{"jsonrpc":"2.0","params":{"password" "sesame"}}', REDACTED),
        ("<", b'{"jsonrpc":"2.0","params":{"p\\u0061ssword":"sesame', REDACTED),
        ("<", b'{"jsonrpc":"2.0","params":{"password":"sesame"}} trailing', REDACTED),
        ("<", b'"password sesame"', REDACTED),
        ("<", b'{"jsonrpc":"2.0","params":{"\xff":1,"password":"sesame"}}', REDACTED),
        ("<", b'{"jsonrpc":"2.0","params":' + b"[" * 5000 + b'{"password":"sesame"}' + b"]" * 5000 + b"}", REDACTED),
    ],
)
def test_what_is_no_message_is_blanked_by_member_or_as_a_whole(kind, line, wanted):
    found = redacted(line, kind)
    assert b"sesame" not in found
    assert found == wanted


def test_options_of_a_command_are_blanked():
    argv = ["python", "server.py", "--api-key=s", "--api-key", "s", "-e", "API_KEY=s", "--api_key", "--other", "api-key", "x=1"]
    assert redacted_argv(argv, ["api_key"]) == [
        "python",
        "server.py",
        "--api-key=[redacted]",
        "--api-key",
        BLANK,
        "-e",
        "API_KEY=[redacted]",
        "--api_key",
        BLANK,
        "api-key",
        "x=1",
    ]
    assert redacted_argv(argv, []) == argv


# In the file


class Disk:
    """Fails now and then."""

    def __init__(self, full):
        self.full = full
        self.data = b""
        self.error = None

    def write(self, data):
        is_full = self.full.pop() if self.full else False
        self.error = OSError(errno.ENOSPC, "full") if is_full else None
        self.data += b"" if is_full else data
        return 0 if is_full else len(data)


# Nothing else that is drawn looks like one of these.
secrets = st.integers(0, 10**9).map(lambda number: f"#secret{number}#")
names = st.sampled_from(["password", "Password", "PASSWORD", "tökén"])


def escaped(text):
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


@st.composite
def lines(draw):
    """A line that has secrets under names that are to be blanked: a message, a log line, or broken."""
    name, secret = draw(names), draw(secrets)
    value = draw(st.just(secret) | st.just([secret]) | st.just({"deep": {"deeper": secret}, name: secret}))
    inner = {draw(texts): draw(json_values), name: value, "more": draw(json_values)}
    params = draw(st.sampled_from([inner, {"arguments": inner}, [1, [inner]]]))
    message = draw(
        st.sampled_from(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params},
                {"params": params, "method": "m", "jsonrpc": "2.0"},
                [{"jsonrpc": "2.0", "method": "m", "params": params}],
                {"level": "info", "context": params},
            ]
        )
    )
    text = json.dumps(message, ensure_ascii=draw(st.booleans()), indent=None)
    if draw(st.booleans()):
        text = text.replace(json.dumps(name), f'"{escaped(name)}"')
    data = text.encode(errors="surrogatepass")
    if draw(st.integers(0, 3)) == 0:
        # Broken where something stands before the name and the value, or behind it.
        data = draw(st.sampled_from([b"noise " + data, data + b"}", data.replace(b":", b"", 1), b"\xff" + data]))
    return data


@given(
    st.lists(lines(), min_size=1, max_size=4),
    st.sampled_from("><!"),
    st.lists(st.integers(1, 60), max_size=30),
    st.lists(st.booleans(), max_size=6),
    st.booleans(),
)
def test_no_value_that_is_to_be_blanked_is_in_the_file(sent, kind, cuts, full, last_newline):
    """However the lines are cut, where they break off, and whatever the disk does."""
    data = b"\n".join(sent) + (b"\n" if last_newline else b"")
    writer = Writer(Header(version=1), ["password", "TÖKÉN"], lambda *_: None)
    disk = Disk(full)
    while data:
        size = cuts.pop() if cuts else len(data)
        writer.take((0.1, kind, data[:size], False, 0))
        writer.write(disk)
        data = data[size:]
    writer.end(0.2)
    writer.write(disk)
    writer.write(disk)
    assert b"#secret" not in disk.data
    for line in disk.data.splitlines()[1:]:
        entry = decode_entry(line)
        if not isinstance(entry, Event):
            assert b"#secret" not in entry.data


def test_a_message_stays_one(tmp_path):
    path = tmp_path / "x.jsonl"
    recorder = Recorder(path, header_for("tap", redact=["password"]), ["password"])
    recorder.chunk(">", json.dumps(request(password="s", n=2**70)).encode()[:20])
    recorder.chunk(">", json.dumps(request(password="s", n=2**70)).encode()[20:] + b"\n")
    assert recorder.close(NET)
    (line,) = read(path)
    assert json.loads(line.data) == request(password=BLANK, n=2**70)
    assert read(path).header.redacted == ("password",)
    assert b'"s"' not in path.read_bytes()


def test_a_line_that_is_too_long_to_be_searched_is_left_out_with_a_note(tmp_path, monkeypatch):
    monkeypatch.setattr("twopipes.trace.writing.LONGEST", 1000)
    path = tmp_path / "x.jsonl"
    recorder = Recorder(path, header_for("tap"), ["password"])
    recorder.chunk("<", b"harmless " * 200 + b"\nnext\n")
    assert recorder.close(NET)
    note, line, following = read(path)
    assert (note.name, note.stream) == ("note", "<")
    assert "1800 bytes" in note.reason
    assert (line.data, line.is_whole, following.data) == (REDACTED, True, b"next")
    assert redact_module.LONGEST == 16 * 1024 * 1024


def test_half_a_line_waits_for_its_end_where_something_is_to_be_blanked():
    """Its name could stand in one piece and its value in the next."""
    writer = Writer(Header(version=1), ["password"], lambda *_: None)
    writer.take((0.1, ">", b'{"password":', False, 0))
    assert not writer.has_begun
    disk = Disk([])
    writer.write(disk)
    assert disk.data.count(b"\n") == 1
