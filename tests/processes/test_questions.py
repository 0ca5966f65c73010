"""`await ctx.elicit()` on the stateless wire, across real processes: the answer may reach another process than the question."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from processes.launching import ENVIRONMENT, EXAMPLES, NET, lines, modern, python, text_of
from systems import STATE_VARIABLE, WINDOWS

FORMS = {"elicitation": {}}
DESTINATION = {"action": "accept", "content": {"city": "Lisbon", "season": "spring"}}
CONFIRMATION = {"action": "accept", "content": {"confirmed": True}}
KEY = "a key that both processes know"


def book(id_, **retry):
    return modern(id_, "tools/call", FORMS, name="book_trip", arguments={}, **retry)


def answering(question, answer):
    """Return the members of a retry: the unchanged state, and an answer to the only question."""
    (key,) = question["result"]["inputRequests"]
    return {"requestState": question["result"]["requestState"], "inputResponses": {key: answer}}


def asked(question):
    (asked,) = question["result"]["inputRequests"].values()
    return asked["params"]["message"]


@pytest.fixture
def key_file(environment):
    return Path(environment[STATE_VARIABLE]) / "twopipes" / "state.key"


def test_a_dialogue_of_two_rounds_in_one_process(launch):
    """MR-02, MR-11, defect 9 of the peers: their `await ctx.elicit()` raises here."""
    child = launch(EXAMPLES / "ask.py")
    first = child.ask(book(1))
    assert first["result"]["resultType"] == "input_required"
    assert asked(first) == "Where shall we go?"
    second = child.ask(book(2, **answering(first, DESTINATION)))
    assert asked(second) == "Book Lisbon in spring?"
    assert text_of(child.ask(book(3, **answering(second, CONFIRMATION)))) == "Booked: Lisbon in spring."
    assert child.finish() == []
    assert child.complaints() == ""


@pytest.mark.parametrize("key", ["TWOPIPES_STATE_KEY", "the user's"])
def test_every_round_may_reach_another_process(key, launch, key_file):
    """ST-03, MR-11, MR-15: each retry reaches a process that does not know the call."""
    environment = {"TWOPIPES_STATE_KEY": KEY} if key == "TWOPIPES_STATE_KEY" else {}
    retry = {}
    said = []
    for answer in (DESTINATION, CONFIRMATION):
        child = launch(EXAMPLES / "ask.py", env=environment)
        question = child.ask(book(1, **retry))
        said.append(asked(question))
        retry = answering(question, answer)
        child.finish()
    child = launch(EXAMPLES / "ask.py", env=environment)
    assert text_of(child.ask(book(1, **retry))) == "Booked: Lisbon in spring."
    child.finish()
    assert said == ["Where shall we go?", "Book Lisbon in spring?"]
    assert key_file.exists() == (key == "the user's")


def test_processes_may_share_the_key_of_their_author(write, launch, key_file):
    """ST-03: `state_key=`, which comes before everything else."""
    program = (
        (EXAMPLES / "ask.py").read_text(encoding="utf-8").replace('version="1.0"', 'version="1.0", state_key=b"0123456789abcdef"')
    )
    server = write(program)
    one, other = launch(server), launch(server, env={"TWOPIPES_STATE_KEY": KEY})
    question = one.ask(book(1))
    assert asked(other.ask(book(1, **answering(question, DESTINATION)))) == "Book Lisbon in spring?"
    one.finish()
    other.finish()
    assert not key_file.exists()


def test_both_processes_alive_and_the_first_one_still_answers(launch):
    """ST-03, MR-18: the state is valid for every process with the key, also for the one that still waits."""
    one, other = (launch(EXAMPLES / "ask.py", env={"TWOPIPES_STATE_KEY": KEY}) for _ in range(2))
    question = one.ask(book(1))
    retry = answering(question, DESTINATION)
    assert asked(other.ask(book(1, **retry))) == "Book Lisbon in spring?"
    assert asked(one.ask(book(2, **retry))) == "Book Lisbon in spring?"
    one.finish()
    other.finish()


@pytest.mark.parametrize("change", ["one character", "cut", "another key", "another server", "other arguments"])
def test_a_state_that_is_not_for_this_request_is_refused(change, launch, write):
    """MR-15, MR-16: changed, shortened, sealed with another key, or made for another request."""
    keys = {"another key": [KEY, KEY + "!"], "another server": [None, None]}.get(change, [KEY, KEY])
    one, other = (
        launch(server, env={"TWOPIPES_STATE_KEY": key} if key else {})
        for server, key in zip([EXAMPLES / "ask.py", other_server(write, change)], keys, strict=True)
    )
    retry = answering(one.ask(book(1)), DESTINATION)
    state = retry["requestState"]
    if change == "one character":
        retry["requestState"] = ("A" if state[0] != "A" else "B") + state[1:]
    elif change == "cut":
        retry["requestState"] = state[:-1]
    again = book(2, **retry)
    if change == "other arguments":
        again["params"]["arguments"] = {"more": 1}
    answer = other.ask(again)
    assert answer["error"]["code"] == -32602
    assert "requestState" in answer["error"]["message"]
    one.finish()
    other.finish()


def other_server(write, change):
    if change != "another server":
        return EXAMPLES / "ask.py"
    return write((EXAMPLES / "ask.py").read_text(encoding="utf-8").replace("travel agent", "impostor"))


def test_a_user_who_declines_ends_the_dialogue(launch):
    child = launch(EXAMPLES / "ask.py")
    question = child.ask(book(1))
    answer = child.ask(book(2, **answering(question, {"action": "decline"})))
    assert answer["result"]["isError"] is True
    assert text_of(answer) == "No destination, no trip."
    child.finish()


def test_the_same_function_asks_a_legacy_client(launch):
    """Defect 9: one function, both eras. Here the questions are requests from the server."""
    child = launch(EXAMPLES / "ask.py")
    child.initialize(elicitation={})
    child.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "book_trip", "arguments": {}}})
    for answer in (DESTINATION, CONFIRMATION):
        question = child.receive()
        assert question["method"] == "elicitation/create"
        child.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
    assert text_of(child.receive_response(1)) == "Booked: Lisbon in spring."
    assert child.finish() == []


# The user's key


def test_no_key_file_is_created_without_a_question(launch, environment):
    child = launch(EXAMPLES / "ask.py")
    child.ask(modern(1, "tools/list"))
    child.finish()
    assert not Path(environment[STATE_VARIABLE]).exists()


def test_the_key_is_private_and_is_kept(launch, key_file):
    for _ in range(2):
        child = launch(EXAMPLES / "ask.py")
        child.ask(book(1))
        child.finish()
        assert child.complaints() == ""
        status = key_file.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_size) == (0o600, 32)
        assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700
        key = key_file.read_bytes()
    assert key_file.read_bytes() == key
    assert [path.name for path in key_file.parent.iterdir()] == ["state.key"]


RACER = """
    import sys
    from twopipes._server.state_key import default_sealer
    sealer = default_sealer("racer")
    sys.stdin.readline()
    state = sealer.seal([1], binding=b"b", expires=2**40)
    print(state.rpartition(".")[2])
"""


def test_processes_that_create_the_key_at_the_same_time_agree(write, environment, key_file):
    pipe = subprocess.PIPE
    command = python(write(RACER))
    racers = [subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) for _ in range(6)]
    for racer in racers:
        racer.stdin.write(b"go\n")
        racer.stdin.flush()
    seals = {racer.communicate(timeout=NET)[0] for racer in racers}
    assert len(seals) == 1
    assert [path.name for path in key_file.parent.iterdir()] == ["state.key"]


def make_a_file_of_the_folder(path):
    path.parent.parent.mkdir()
    path.parent.write_text("in the way")


def make_a_damaged_key(path):
    path.parent.mkdir(parents=True)
    path.touch(mode=0o600)


def make_a_public_key(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(32))
    path.chmod(0o644)


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (make_a_file_of_the_folder, "WinError 183" if WINDOWS else "Not a directory"),
        (make_a_damaged_key, "is damaged; remove it"),
        (make_a_public_key, "belongs to another user or can be read by others; remove it"),
    ],
)
def test_a_random_key_is_used_with_a_warning_if_none_can_be_stored(trouble, reason, launch, key_file):
    trouble(key_file)
    child = launch(EXAMPLES / "ask.py")
    question = child.ask(book(1))
    assert asked(child.ask(book(2, **answering(question, DESTINATION)))) == "Book Lisbon in spring?"
    child.finish()
    warning = child.complaints()
    assert warning.startswith("Warning: the key for answers that outlive this process cannot be stored")
    assert reason in warning
    assert warning.count("\n") == 1
    # Another process cannot open it.
    child = launch(EXAMPLES / "ask.py")
    assert child.ask(book(1, **answering(question, DESTINATION)))["error"]["code"] == -32602
    child.finish()


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"XDG_STATE_HOME": None, "HOME": "{tmp}"}, ".local/state/twopipes/state.key"),
        ({"XDG_STATE_HOME": "", "HOME": "{tmp}"}, ".local/state/twopipes/state.key"),
        ({"XDG_STATE_HOME": "relative", "HOME": "{tmp}"}, ".local/state/twopipes/state.key"),
        ({"XDG_STATE_HOME": "{tmp}/x"}, "x/twopipes/state.key"),
    ],
)
def test_the_location_of_the_key(variables, place, monkeypatch, tmp_path):
    from twopipes._server.state_key import key_path  # noqa: PLC0415

    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value.format(tmp=tmp_path))
    assert key_path() == tmp_path / place


def test_a_key_in_the_environment_that_is_too_short_is_reported_at_the_start(run):
    done = run(python("-m", "twopipes", "run", EXAMPLES / "ask.py"), input=lines(book(1)), env={"TWOPIPES_STATE_KEY": "short"})
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"Error: a state key needs at least 16 bytes, got 5\n"


def test_the_key_is_never_shown(launch):
    child = launch(EXAMPLES / "ask.py", env={"TWOPIPES_STATE_KEY": KEY, "TWOPIPES_TRACE": "1"})
    question = child.ask(book(1))
    child.finish()
    assert KEY not in json.dumps(question) + child.complaints()
    assert ENVIRONMENT.get("TWOPIPES_STATE_KEY") is None
