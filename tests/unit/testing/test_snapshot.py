"""Conversations in files."""

import json

import pytest

from fake_server import FakeServer, acknowledge, scene, text
from twopipes._trace.conversation import read_conversation
from twopipes._trace.format import Event, Line
from twopipes.testing import ExpectationFailed, drop, pair
from twopipes.testing.snapshot import VARIABLE, Step, read_steps, steps_of, written
from unit.testing.sums import sums

CALL = {"a": 1, "b": 2}


@pytest.fixture(autouse=True)
def _not_by_the_environment(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


def lines(*entries):
    """A conversation of lines: each a kind and what it says."""
    found = []
    for number, (kind, message) in enumerate(entries):
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        found.append(Event(at=number, name="note", reason=message) if kind == "=" else Line(number, kind, data))
    return read_conversation(found)


def texts(conversation, *volatile):
    return [step.text for step in steps_of(conversation, volatile)]


def adding(**options):
    with pair(sums(), **options) as talk:
        talk.client.call_tool("add", CALL)
    return talk


# What is written


def test_ids_are_counted_anew_wherever_they_stand():
    found = texts(
        lines(
            (">", {"id": "x-7", "method": "tools/call", "params": {"_meta": {"progressToken": "t-1"}}}),
            (">", {"id": 99, "method": "subscriptions/listen", "params": {}}),
            ("<", {"method": "notifications/progress", "params": {"progressToken": "t-1", "progress": 1}}),
            ("<", {"id": 99, "method": "roots/list"}),
            ("<", {"method": "x/updated", "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": 99}}}),
            (">", {"id": 99, "result": {}}),
            (">", {"method": "notifications/cancelled", "params": {"requestId": "x-7"}}),
            ("<", {"id": 99, "result": {}}),
            ("<", {"id": 5, "result": {}}),
        )
    )
    assert found == [
        '{"id":1,"method":"tools/call","params":{"_meta":{"progressToken":1}}}',
        '{"id":2,"method":"subscriptions/listen","params":{}}',
        '{"method":"notifications/progress","params":{"progressToken":1,"progress":1}}',
        '{"id":1,"method":"roots/list"}',
        '{"method":"x/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}',
        '{"id":1,"result":{}}',
        '{"method":"notifications/cancelled","params":{"requestId":1}}',
        '{"id":2,"result":{}}',
        '{"id":5,"result":{}}',  # an answer to nothing stays as it is
    ]


def test_what_is_volatile_is_blanked_by_name_and_by_path():
    conversation = lines(
        (">", {"id": 1, "method": "m", "params": {"when": 1, "what": {"when": [2]}, "requestState": "sealed"}}),
        ("<", {"id": 1, "result": {"content": [{"text": "a"}, {"text": "b"}], "text": "c", "nextCursor": "n"}}),
    )
    assert texts(conversation, "when", "result.content.*.text") == [
        '{"id":1,"method":"m","params":{"when":"...","what":{"when":"..."},"requestState":"..."}}',
        '{"id":1,"result":{"content":[{"text":"..."},{"text":"..."}],"text":"c","nextCursor":"..."}}',
    ]


def test_batches_noise_and_blank_lines_are_lines_too():
    found = texts(
        lines(
            (">", [{"id": 8, "method": "a"}, {"id": 9, "method": "b"}]),
            ("<", [{"id": 9, "result": {}}, {"id": 8, "result": {}}]),
            ("<", b"Hello \x1b[31m \xff world"),
            ("<", b""),
            ("=", "drop < a"),
        )
    )
    assert found == [
        '[{"id":1,"method":"a"},{"id":2,"method":"b"}]',
        '[{"id":2,"result":{}},{"id":1,"result":{}}]',
        "Hello \\x1b[31m \\xff world",
        "",
        "drop < a",
    ]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_is_written_is_read_again(era):
    talk = adding(era=era, faults=[drop("<", nth=99), drop(">", method="none")])
    steps = steps_of(talk.conversation)
    assert read_steps(written(steps)) == steps
    assert written(read_steps(talk.transcript())) == talk.transcript()


def test_a_repeated_meta_has_a_name():
    text = adding(era="modern").transcript()
    assert text.startswith('@define META "io.modelcontextprotocol/protocolVersion":"2026-07-28",')
    assert '"params":{"_meta":{$META}}' in text
    assert '"_meta":{$META,"progressToken":2}' in text
    assert text.count("io.modelcontextprotocol/clientInfo") == 1


def test_a_message_that_contains_the_name_is_not_misread():
    with pair(FakeServer({"tools/call": text("$META")}), era="modern") as talk:
        talk.client.call_tool("x")
        talk.client.call_tool("x")
    assert "@define" not in talk.transcript()
    assert read_steps(talk.transcript()) == steps_of(talk.conversation)


@scene
async def test_a_subscription_is_the_same_each_time():
    found = []
    for first_id in (0, 1000):
        fake = FakeServer({"subscriptions/listen": acknowledge})
        async with pair(fake) as talk:
            talk.client._supervisor.connection.session.outgoing.last_id += first_id
            async with talk.client.subscribe(tools=True):
                await fake.until("subscriptions/listen")
            await fake.until("notifications/cancelled")
        found.append(talk.transcript())
    assert found[0] == found[1]
    assert '"io.modelcontextprotocol/subscriptionId":2' in found[0]
    assert '"requestId":2' in found[0]


# The two beside each other


def test_a_missing_file_fails_and_names_the_next_step(tmp_path):
    file = tmp_path / "deep" / "adding.txt"
    with pytest.raises(ExpectationFailed, match="does not exist yet") as caught:
        adding().expect_conversation(file)
    assert "pytest --update-conversations, or TWOPIPES_UPDATE_CONVERSATIONS=1" in str(caught.value)
    assert '"method":"tools/call"' in str(caught.value)
    assert not file.parent.exists()


def test_a_conversation_is_stored_and_found_again(tmp_path):
    file = tmp_path / "deep" / "adding.txt"
    adding().expect_conversation(file, update=True)
    assert file.read_text().startswith("# adding\n@define META ")
    adding().expect_conversation(file)
    with pair(sums()) as talk:  # other ids, the same conversation
        talk.client.call_tool("add", CALL)
    talk.expect_conversation(file)


def test_an_update_without_a_change_changes_nothing(tmp_path):
    file = tmp_path / "adding.txt"
    adding().expect_conversation(file, update=True)
    before = file.stat().st_mtime_ns
    adding().expect_conversation(file, update=True)
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize(("value", "writes"), [("1", True), ("yes", True), ("0", False), ("", False), ("off", False)])
def test_the_environment_can_ask_for_it(tmp_path, monkeypatch, value, writes):
    monkeypatch.setenv(VARIABLE, value)
    file = tmp_path / "adding.txt"
    if writes:
        adding().expect_conversation(file)
    else:
        with pytest.raises(ExpectationFailed):
            adding().expect_conversation(file)
    assert file.exists() == writes


def test_a_difference_is_shown_by_line_and_by_member(tmp_path):
    file = tmp_path / "adding.txt"
    adding().expect_conversation(file, update=True)
    file.write_text(file.read_text().replace('"structuredContent":{"result":3}', '"structuredContent":{"result":4}'))
    with pytest.raises(ExpectationFailed) as caught:
        adding().expect_conversation(file)
    shown = str(caught.value).splitlines()
    assert shown[0] == f"the conversation differs from {file}"
    assert sum(line.startswith("-< ") and '"result":4' in line for line in shown) == 1
    assert sum(line.startswith("+< ") and '"result":3' in line for line in shown) == 1
    assert "  < result.structuredContent.result: stored 4, now 3" in shown
    assert "pytest --update-conversations" in shown[-1]
    assert '"_meta":{$META,' in str(caught.value)  # long pieces have their names here, too


def test_an_added_and_a_missing_line_are_reported(tmp_path):
    file = tmp_path / "adding.txt"
    adding().expect_conversation(file, update=True)
    with pair(sums()) as talk:
        talk.client.list_tools()
        talk.client.call_tool("add", CALL)
    with pytest.raises(ExpectationFailed) as caught:
        talk.expect_conversation(file)
    assert sum(line.startswith("+") and "tools/list" in line for line in str(caught.value).splitlines()) == 1
    with pair(sums()) as talk:
        pass
    with pytest.raises(ExpectationFailed) as caught:
        talk.expect_conversation(file)
    assert sum(line.startswith("->") for line in str(caught.value).splitlines()) == 1


def test_wildcards_in_an_edited_file_match_and_stay(tmp_path):
    file = tmp_path / "adding.txt"
    adding().expect_conversation(file, update=True)
    kept = read_steps(file.read_text())
    answer = '{"jsonrpc":"2.0","id":2,"result":{"structuredContent":"...","...":"..."}}'
    kept[-1] = Step("<", answer, ("# whatever it is",))
    file.write_text(written(kept))
    adding().expect_conversation(file)
    with pair(sums()) as talk:
        talk.client.call_tool("add", {"a": 2, "b": 2})
    with pytest.raises(ExpectationFailed, match=r"params.arguments.a: stored 1, now 2"):
        talk.expect_conversation(file)
    talk.expect_conversation(file, update=True)
    assert f"# whatever it is\n< {answer}\n" in file.read_text()
    assert file.read_text().startswith("# adding\n")
    assert '"arguments":{"a":2,"b":2}' in file.read_text()
    talk.expect_conversation(file)


def test_the_title_stays_when_the_first_line_changes(tmp_path):
    file = tmp_path / "adding.txt"
    adding(era="legacy").expect_conversation(file, update=True)
    adding(era="modern").expect_conversation(file, update=True)
    assert file.read_text().startswith("# adding\n@define")


def test_the_order_of_the_lines_counts(tmp_path):
    file = tmp_path / "two.txt"
    conversations = []
    for first, second in ((1, 2), (2, 1)):
        with pair(sums()) as talk:
            talk.client.call_tool("add", {"a": first, "b": 0})
            talk.client.call_tool("add", {"a": second, "b": 0})
        conversations.append(talk)
    conversations[0].expect_conversation(file, update=True)
    with pytest.raises(ExpectationFailed):
        conversations[1].expect_conversation(file)


@pytest.mark.parametrize("line", ["no json", "{", '"a"', "null"])
def test_a_line_that_is_not_a_message_is_compared_literally(line):
    step = Step("<", line)
    assert step.is_met_by(Step("<", line))
    assert not step.is_met_by(Step(">", line))
    assert not step.is_met_by(Step("<", line + "x"))
