"""Questions of a server at the terminal: forms, consent to visit a URL, and sampling."""

import asyncio
import io
import os
from contextlib import nullcontext

import pytest

from twopipes._cli.arguments import InvalidValue, read_pair
from twopipes._cli.form_fields import Field
from twopipes._cli.terminal_questions import Keyboard, TerminalPrompter
from twopipes._protocol.types import CreateMessageParams, ElicitParams, ElicitResult, Implementation, SamplingMessage, TextContent
from twopipes._tools.terminal import Terminal
from twopipes.errors import UserRefused
from twopipes.types import Elicitation, Sampling

SERVER = Implementation("agent", "1.0", title="The agent")
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2, "description": "as in\nyour passport"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "member": {"type": "boolean", "default": False},
    },
    "required": ["name", "age"],
}


class Typist:
    """A user who types these lines; None is Ctrl-D."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.forgot = 0

    def discard(self):
        self.forgot += 1

    async def line(self):
        return self.lines.pop(0)


class Screen(Terminal):
    def __init__(self):
        super().__init__(io.StringIO())

    @property
    def text(self):
        return self.stream.getvalue()


def questioner(keyboard, screen=None, answers=(), **options):
    screen = screen or Screen()
    pairs = {pair.key: pair for pair in map(read_pair, answers)}
    return TerminalPrompter(screen, keyboard, answers=pairs, attention=nullcontext, **options)


def asked(*lines, form=FORM, answers=(), message="Who are you?", screen=None, attended=True, **options):
    typist = Typist(*lines)
    question = Elicitation(ElicitParams(message, requested_schema=form), SERVER)
    answer = asyncio.run(questioner(typist if attended else None, screen, answers, **options).elicit(question))
    assert typist.lines == []
    return answer


def one(schema, *, required=True):
    return {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}


def test_a_form_is_filled_in_field_by_field():
    screen = Screen()
    answer = asked("Anna", "7", "yes", "", screen=screen)
    assert answer == ElicitResult("accept", {"name": "Anna", "age": 7, "member": True})
    assert screen.text == (
        "\n"
        "The agent asks:\n"
        "  Who are you?\n"
        "  :decline to decline, :cancel or Ctrl-D to cancel.\n"
        "  Your name  as in your passport\n"
        "  >   age (integer from 0 to 150)\n"
        "  >   member (y/n; Enter for no)\n"
        "  >   Your name = Anna, age = 7, member = yes\n"
        "  Send this? y to send, e to edit, n to decline (Enter for y)\n"
        "  > "
    )


def test_an_invalid_value_is_asked_again():
    screen = Screen()
    assert asked("", "A", "Anna", "old", "200", "7", "perhaps", "", "y", screen=screen).content == {
        "name": "Anna",
        "age": 7,
        "member": False,
    }
    for said in (
        "a value is required",
        "has 1 characters, but the minimum is 2",
        "'old' is not an integer",
        "is 200, but the maximum is 150",
        "'perhaps' is neither yes nor no",
    ):
        assert f"    {said}\n" in screen.text


@pytest.mark.parametrize(
    ("lines", "action"),
    [
        ([":decline"], "decline"),
        (["Anna", ":decline "], "decline"),
        ([":cancel"], "cancel"),
        (["Anna", None], "cancel"),
        (["Anna", "7", "", "n"], "decline"),
        (["Anna", "7", "", None], "cancel"),
    ],
)
def test_ways_to_give_no_answer(lines, action):
    # EL-06: the response has no content.
    assert asked(*lines) == ElicitResult(action)


def test_a_form_can_be_edited_before_it_is_sent():
    assert asked("Ana", "8", "", "what?", "e", "Anna", "7", "y", "y").content == {"name": "Anna", "age": 7, "member": True}


def test_a_form_without_fields_needs_confirmation():
    empty = {"type": "object", "properties": {}}
    assert asked("", "y", form=empty) == ElicitResult("accept", {})
    assert asked("no", form=empty).action == "decline"
    assert asked(form=empty, answers=["x=1"], attended=False).action == "cancel"


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string"}, " as it is ", " as it is "),
        ({"type": "string"}, '""', ""),
        ({"type": "string", "default": "dflt"}, "", "dflt"),
        ({"type": "string", "format": "email"}, "a@b.example", "a@b.example"),
        ({"type": "string", "format": "uri"}, "https://a.example/", "https://a.example/"),
        ({"type": "string", "format": "date"}, "2026-07-28", "2026-07-28"),
        ({"type": "string", "format": "date-time"}, "2026-07-28T12:00:00Z", "2026-07-28T12:00:00Z"),
        ({"type": "number"}, " 1.5 ", 1.5),
        ({"type": "integer", "default": 0}, "", 0),
        ({"type": "boolean"}, "N", False),
        ({"type": "boolean", "default": True}, "", True),
        # The five ways to write choices (EL-04).
        ({"type": "string", "enum": ["red", "green"]}, "green", "green"),
        ({"type": "string", "enum": ["red", "green"]}, "2", "green"),
        ({"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]}, "green", "g"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}, "Red", "r"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}}, "1, c,1", ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A!"}, {"const": "b", "title": "B!"}]}}, "B!", ["b"]),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "", []),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"]}, "", ["b"]),
        # Choices that are numbers are not numbered.
        ({"type": "string", "enum": ["2", "1"]}, "1", "1"),
        ({"type": "integer", "enum": [10, 20]}, "20", 20),
        ({}, "anything", "anything"),
    ],
)
def test_each_kind_of_field(schema, line, value):
    found = Field("x", schema, is_required=True).read(line)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "line", "said"),
    [
        ({"type": "string"}, "  ", "a value is required"),
        ({"type": "string", "format": "email"}, "a at b", "not an e-mail address"),
        ({"type": "string", "format": "uri"}, "example", "not a URI"),
        ({"type": "string", "format": "date"}, "28.7.2026", "not a date, such as 2026-07-28"),
        ({"type": "string", "format": "date-time"}, "noon", "not a date-time, such as 2026-07-28T12:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-07-28T12:00:00", "has no time zone"),
        ({"type": "string", "enum": ["red", "green"]}, "3", "'3' is not one of the choices"),
        ({"type": "string", "enum": ["red", "green"]}, "gren", "did you mean green?"),
        ({"type": "string", "enum": ["a", "A"]}, "b", "not one of the choices"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, "", "the minimum is 1"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 1}, "a,b", "the maximum is 1"),
        ({"type": "integer", "enum": [10, 20]}, "30", "which is not one of [10, 20]"),
        ({"type": "integer"}, "1.5", "'1.5' is not an integer"),
    ],
)
def test_invalid_answers(schema, line, said):
    with pytest.raises(InvalidValue) as found:
        Field("x", schema, is_required=True).read(line)
    assert said in str(found.value)


@pytest.mark.parametrize(
    ("schema", "required", "hint"),
    [
        ({"type": "string"}, True, ""),
        ({"type": "string"}, False, "Enter to skip"),
        ({"type": "string", "minLength": 1, "maxLength": 5}, True, "string of 1 to 5 characters"),
        ({"type": "string", "maxLength": 5, "default": "x"}, True, "string of at most 5 characters; Enter for x"),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"}, True, "a number or a name; Enter for B"),
        ({"type": "string", "enum": ["1"]}, True, "one of these"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, True, "any of these, separated by commas"),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, True, "any of these, separated by commas, at least 1"),
        (
            {"type": "array", "items": {"enum": ["a"]}, "minItems": 1, "maxItems": 2},
            True,
            "any of these, separated by commas, 1 to 2",
        ),
        ({"type": "array", "items": {"enum": ["a"]}, "default": []}, True, "any of these, separated by commas; Enter for none"),
    ],
)
def test_hints_describe_valid_answers(schema, required, hint):
    assert Field("x", schema, is_required=required).hint == hint


def test_choices_are_shown_with_their_titles():
    titled = {"type": "string", "oneOf": [{"const": "1", "title": "One"}, {"const": "2", "title": "Two"}]}
    assert Field("x", titled, is_required=True).lines() == ["One (1)", "Two (2)"]
    assert Field("x", {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]}, is_required=True).lines() == ["1. A", "2. b"]


def test_a_skipped_field_is_not_sent():
    assert asked("", "", form=one({"type": "string"}, required=False)) == ElicitResult("accept", {})


def test_text_of_the_server_cannot_control_the_terminal():
    screen = Screen()
    form = one({"type": "string", "title": "\x1b[2J", "description": "\x07", "enum": ["\x1b]0;t\x07"]})
    asked("1", form=form, message="\x1b[31mred", screen=screen)
    assert "\x1b" not in screen.text
    assert "\\x1b[31mred" in screen.text
    assert "\x07" not in screen.text


def test_fields_with_an_answer_option_are_not_asked():
    assert asked("7", "", "", answers=["name=Anna"]).content == {"name": "Anna", "age": 7, "member": False}
    assert asked(answers=["name=Anna", "age=7", "member=yes", "other=1"]).content == {"name": "Anna", "age": 7, "member": True}
    screen = Screen()
    assert asked("7", "", "", answers=["name=Anna", "age=old"], screen=screen).content["age"] == 7
    assert "--answer age: 'old' is not an integer" in screen.text


def test_without_a_terminal_only_answer_options_count():
    assert asked(answers=["name=Anna", "age:=7"], attended=False).content == {"name": "Anna", "age": 7, "member": False}
    screen = Screen()
    assert asked(answers=["name=Anna"], attended=False, screen=screen) == ElicitResult("cancel")
    assert "age is required; use --answer age=VALUE (integer from 0 to 150)" in screen.text
    screen = Screen()
    assert asked(answers=["name=Anna", "age=200"], attended=False, screen=screen) == ElicitResult("cancel")
    assert "--answer age: is 200, but the maximum is 150" in screen.text


@pytest.mark.parametrize("attended", [True, False])
def test_quiet_hides_a_form_that_is_completely_answered(attended):
    screen = Screen()
    answers = ["name=Anna", "age=7", "member=yes"]
    answer = asked(answers=answers, attended=attended, screen=screen, quiet=True)
    assert answer == ElicitResult("accept", {"name": "Anna", "age": 7, "member": True})
    assert screen.text == ""


def test_quiet_shows_a_form_that_is_not_completely_answered():
    screen = Screen()
    assert asked("7", "", "", answers=["name=Anna"], screen=screen, quiet=True).content["age"] == 7
    assert "The agent asks:\n  Who are you?\n" in screen.text
    screen = Screen()
    assert asked(answers=["name=Anna"], attended=False, screen=screen, quiet=True) == ElicitResult("cancel")
    assert "The agent asks:" in screen.text
    assert "age is required" in screen.text
    screen = Screen()
    assert asked(answers=["name=Anna", "age=old"], attended=False, screen=screen, quiet=True) == ElicitResult("cancel")
    assert "--answer age: 'old' is not an integer" in screen.text


def test_concurrent_questions_are_asked_one_after_another():
    async def ask():
        asking = questioner(Typist("a", "b"))
        questions = [Elicitation(ElicitParams("?", requested_schema=one({"type": "string"})), SERVER) for _ in range(2)]
        return await asyncio.gather(*map(asking.elicit, questions))

    assert [answer.content for answer in asyncio.run(ask())] == [{"x": "a"}, {"x": "b"}]


@pytest.mark.parametrize(
    ("lines", "action"), [(["", "maybe", "y"], "accept"), (["n"], "decline"), ([":decline"], "decline"), ([None], "cancel")]
)
def test_a_url_is_shown_and_only_visited_with_consent(lines, action):
    # EL-11, EL-14
    screen = Screen()
    question = Elicitation(ElicitParams("Log in.", mode="url", url="https://login.example/?a=\x1b"), None)
    answer = asyncio.run(questioner(Typist(*lines), screen).visit(question))
    assert answer == ElicitResult(action)
    assert "The server asks you to visit a page:\n  Log in.\n  https://login.example/?a=\\x1b\n" in screen.text


def sampled(*lines, sample="-", screen=None):
    params = CreateMessageParams([SamplingMessage("user", TextContent("Hi\nyou"))], 50, system_prompt="Be kind.")
    return asyncio.run(questioner(Typist(*lines), screen, sample=sample).sample(Sampling(params, SERVER)))


def test_a_sampling_request_is_answered_by_the_user():
    screen = Screen()
    assert sampled("hello", screen=screen) == "hello"
    assert "The agent asks for a response of the model\n  system: Be kind.\n  user: Hi\n  user: you\n" in screen.text
    assert "at most 50 tokens" in screen.text
    assert sampled(sample="always this") == "always this"
    for line in (":decline", None):
        with pytest.raises(UserRefused):
            sampled(line)


def test_lines_are_read_from_a_terminal():
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()

    async def type_and_read():
        with os.fdopen(theirs, "r", encoding="utf-8", closefd=False) as stream:
            keyboard = Keyboard(stream)
            os.write(ours, b"too early\n")
            assert await keyboard.line() == "too early"
            keyboard.discard()
            waiting = asyncio.ensure_future(keyboard.line())
            await asyncio.sleep(0)
            os.write(ours, "häl".encode())
            os.write(ours, b"lo\nand more\n")
            assert await waiting == "hällo"
            assert await keyboard.line() == "and more"
            os.write(ours, b"\x04")
            assert await keyboard.line() is None
            waiting = asyncio.ensure_future(keyboard.line())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            os.write(ours, b"still there\n")
            assert await keyboard.line() == "still there"

    try:
        asyncio.run(asyncio.wait_for(type_and_read(), 30))
    finally:
        os.close(ours)
        os.close(theirs)


def test_lines_are_read_by_a_thread_if_the_loop_cannot_watch_the_terminal():
    reader, writer = os.pipe()
    os.write(writer, "hällo\r\nand more\n".encode())
    os.close(writer)

    async def read():
        with os.fdopen(reader, "r", encoding="utf-8", newline="") as stream:
            keyboard = Keyboard(stream, by_threads=True)
            return [await keyboard.line() for _ in range(3)]

    assert asyncio.run(asyncio.wait_for(read(), 30)) == ["hällo", "and more", None]
