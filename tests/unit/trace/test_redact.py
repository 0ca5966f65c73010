"""What must not be recorded is not in the file, however it is written, cut or broken."""

import errno
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import json_values, texts
from twopipes._trace import redact as redact_module
from twopipes._trace.format import Event, Header, decode_entry
from twopipes._trace.redact import REDACTED, Redactor, redacted_argv
from twopipes._trace.writer import Writer
from twopipes.trace import Recorder, header_for, read

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
    """On the stateless wire the same response is in params; the result of a server is not searched."""
    assert json.loads(redacted({"jsonrpc": "2.0", "id": 1, "result": {"content": {"password": "p"}}}, kind))["result"] == result


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        b' { "jsonrpc" : "2.0", "params": {"text": "my password is out of reach"} } \r',
        b'{"jsonrpc":"2.0","id":1,"result":{"tools":[{"inputSchema":{"properties":{"password":{"type":"string"}}}}]}}',
        b'{"jsonrpc":"2.0","id":"password=1","method":"password: ping"}',
        b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"password=s"}],"structuredContent":{"requestState":1}}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"text":"50% of C:\\\\new"}}',
        b"a log line without a secret",
        b"C:\\Users\\anna \\u00e9",
        b"",
        b"\xff\xfe",
    ],
)
def test_a_line_without_the_names_is_unchanged(line):
    assert redacted(line, "<") == line


def test_everything_else_stays_to_the_last_digit_and_space():
    value = b'{"a":"}]\\"","b":[1,{}]}'
    line = b'{"jsonrpc":"2.0", "id":12345678901234567890123, "params":{"x":1.10e400,"password" : %b ,"y":"\\u00e9\\/"}}'
    assert redacted(line % value) == line % b'"[redacted]"'


def test_duplicate_members_are_both_blanked():
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


@pytest.mark.parametrize("kind", [">", "<"])
def test_errors_and_members_that_the_protocol_does_not_know_are_searched(kind):
    error = {"code": -32602, "message": "no such user; password=hunter2", "data": {"asked": [{"password": "s"}], "kept": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "error": error, "password": "s", "extra": {"apikey": "s", "kept": 2}}
    assert json.loads(redacted(message, kind)) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {
            "code": -32602,
            "message": "no such user; password=[redacted]",
            "data": {"asked": [{"password": BLANK}], "kept": 1},
        },
        "password": BLANK,
        "extra": {"apikey": BLANK, "kept": 2},
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('{"password":"s","user":"u"}', '{"password":"[redacted]","user":"u"}'),
        (' [ {"a":{"Password":["s"]}} ]', ' [ {"a":{"Password":"[redacted]"}} ]'),
        ('{"body":"{\\"password\\":\\"s\\",\\"n\\":1}"}', '{"body":"{\\"password\\":\\"[redacted]\\",\\"n\\":1}"}'),
        ('{"p\\u0061ssword":"s"}', '{"p\\u0061ssword":"[redacted]"}'),
        ("{'password': 's'} and more", "{'password': [redacted]"),
        ("https://h/p?password=s&page=2#top", "https://h/p?password=[redacted]&page=2#top"),
        ("https://h/p?page=2&PASSWORD=s", "https://h/p?page=2&PASSWORD=[redacted]"),
        ("https://h/p?p%61ssword=s", BLANK),
        ("export PASSWORD=s t", "export PASSWORD=[redacted]"),
        ("Password: s\nt", "Password: [redacted]"),
        ("%25252525252525252570assword=s", BLANK),
        ("my password is out of reach: always", "my password is out of reach: always"),
    ],
)
def test_strings_are_searched_as_json_and_as_text(text, wanted):
    assert json.loads(redacted(request(arguments={"text": text, "n": 1}))) == request(arguments={"text": wanted, "n": 1})


# MR-05, MR-07: the state of a call that asks back is opaque; what the user has answered may be in it.
SECRET_STATE = "eyJwYXNzd29yZCI6Imh1bnRlcjIifQ=="


def asking_back(state, **more):
    result = {"resultType": "input_required", "requestState": state, **more}
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def test_the_state_of_a_question_is_replaced_by_a_stand_in_that_its_retry_has_as_well():
    redactor = Redactor(["password"])
    state = SECRET_STATE + "/\u00e9"
    asked = redactor.line("<", json.dumps(asking_back(state)).encode())
    other = redactor.line("<", json.dumps(asking_back("other")).encode())
    again = redactor.line(">", json.dumps(request(requestState=state), ensure_ascii=False).replace("/", "\\/").encode())

    stand_in = json.loads(asked)["result"]["requestState"]
    assert re.fullmatch(r"\[redacted [0-9a-f]{16}\]", stand_in)
    assert json.loads(again)["params"]["requestState"] == stand_in
    assert json.loads(other)["result"]["requestState"] != stand_in


def test_a_stand_in_cannot_be_guessed_from_another_recording():
    line = json.dumps(asking_back("1234")).encode()
    assert Redactor(["password"]).line("<", line) != Redactor(["password"]).line("<", line)


@pytest.mark.parametrize("state", [{"a": [1]}, 7, None])
def test_a_state_of_another_type_is_replaced_too(state):
    found = json.loads(redacted(asking_back(state, more=1), "<"))["result"]
    assert found["requestState"].startswith("[redacted ")
    assert found["more"] == 1


def test_a_state_in_a_log_line_is_not_kept():
    assert redacted(f"sent requestState {SECRET_STATE}".encode(), "!") == REDACTED


def test_questions_in_a_result_are_searched_as_requests_are():
    question = {"method": "elicitation/create", "params": {"message": "sure?", "password": "s"}}
    found = json.loads(redacted(asking_back("s", inputRequests={"q": question}), "<"))
    assert found["result"]["inputRequests"] == {
        "q": {"method": "elicitation/create", "params": {"message": "sure?", "password": BLANK}}
    }


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
    ],
)
def test_a_line_that_is_not_a_message_is_blanked_by_member_or_as_a_whole(kind, line, wanted):
    found = redacted(line, kind)
    assert b"sesame" not in found
    assert found == wanted


def test_a_line_that_is_nested_too_deeply_is_blanked_by_member_or_as_a_whole():
    """It depends on Python, and since 3.14 on the size of the stack, whether such a line can be decoded."""
    line = b'{"jsonrpc":"2.0","params":' + b"[" * 200_000 + b'{"password":"sesame"}' + b"]" * 200_000 + b"}"
    assert redacted(line, "<") in {REDACTED, line.replace(b"sesame", REDACTED)}


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["--env=TOKEN=s"], ["--env=TOKEN=[redacted]"]),
        (["-eTOKEN=s"], ["-eTOKEN=[redacted]"]),
        (["-e", "TOKEN=s t"], ["-e", "TOKEN=[redacted]"]),
        (["-H", "token: s t"], ["-H", "token: [redacted]"]),
        (["-Htoken:s"], ["-Htoken:[redacted]"]),
        (["-H", "token:", "s", "more"], ["-H", "token:[redacted]", BLANK, "more"]),
        (["--header=X-Token: s"], ["--header=X-Token: [redacted]"]),
        (["--api-token", "s", "more"], ["--api-token", BLANK, "more"]),
        (["-token", "s"], ["-token", BLANK]),
        (["https://h/?a=1&token=s&b=2"], ["https://h/?a=1&token=[redacted]&b=2"]),
        (["https://h/?t%6Fken=s"], [BLANK]),
        (['--config={"token": "s", "b": 1}'], ['--config={"token": [redacted]']),
        (["--config", '{"t\\u006fken": "s"}'], ["--config", BLANK]),
        (["TOKEN=", "python", "tokens=3", "--max-tokens", "5"], ["TOKEN=[redacted]", "python", "tokens=3", "--max-tokens", "5"]),
    ],
)
def test_values_are_blanked_however_a_command_is_spelt(argv, wanted):
    assert redacted_argv(["server", *argv], ["Token"]) == ["server", *wanted]


def test_the_address_in_a_header_is_blanked_as_a_command_is():
    assert header_for("client", target="tcp://h/?token=s", redact=["token"])().target == "tcp://h/?token=[redacted]"


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
        # Broken JSON, with text before the name or after the value.
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
    writer.add_unfinished_lines(0.2)
    writer.write(disk)
    writer.write(disk)
    assert b"#secret" not in disk.data
    for line in disk.data.splitlines()[1:]:
        entry = decode_entry(line)
        if not isinstance(entry, Event):
            assert b"#secret" not in entry.data


def test_a_message_stays_a_message(tmp_path):
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
    monkeypatch.setattr("twopipes._trace.writer.LONGEST", 1000)
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
    """The name could be in one piece and the value in the next."""
    writer = Writer(Header(version=1), ["password"], lambda *_: None)
    writer.take((0.1, ">", b'{"password":', False, 0))
    assert not writer.has_unfinished_line
    disk = Disk([])
    writer.write(disk)
    assert disk.data.count(b"\n") == 1
