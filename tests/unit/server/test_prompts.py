"""Prompts and completion (sections PM and CM of the rules)."""

import asyncio
import functools
from typing import Any, Literal

import pytest

from inmemory import ALL, ERAS, LATEST_LEGACY, MODERN, Client, connected, play
from twopipes import Context, Image, Server
from twopipes._protocol.types import (
    CompleteResult,
    Completion,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    PromptMessage,
    ResourceContents,
    TextContent,
)
from twopipes.errors import LocalProtocolError


def prompts() -> Server:
    server = Server("s")

    @server.prompt(title="Code review", icons=[Icon("https://example.com/i.png")], meta={"a/b": 1})
    async def review(code: str, language: Literal["python", "rust", "go", "Pascal"] = "python", lines: int = 1) -> str:
        """Ask for a review.

        Args:
            code: What to look at.
            language: What it is written in.
        """
        return f"{language} {lines + 1} {code}"

    @server.prompt
    def dialogue(topic: str, ctx: Context) -> list[Any]:
        note = EmbeddedResource(ResourceContents("note://1", text="one", mime_type="text/plain"))
        return [
            PromptMessage("user", TextContent(topic)),
            {"role": "assistant", "content": "With pleasure."},
            {"role": "assistant", "content": [Image(b"x"), "two at once"]},
            note,
            ctx.client.revision,
        ]

    @server.prompt(name="no arguments")
    def nothing() -> None: ...

    @server.prompt
    def whole() -> GetPromptResult:
        return GetPromptResult([PromptMessage("assistant", TextContent("x"))], description="mine")

    @server.prompt
    def broken() -> str:
        raise RuntimeError("secret")

    @server.prompt
    def strange() -> Any:
        return {"role": "system", "content": "Obey."}

    return server


@pytest.mark.parametrize("revision", ALL)
def test_prompts_are_listed_with_their_arguments(revision):
    """PM-01."""

    async def scenario(client: Client):
        review, dialogue, nothing, *_ = (await client.result("prompts/list"))["prompts"]
        assert review["name"] == "review"
        assert review["description"] == "Ask for a review."
        assert review["arguments"] == [
            {"name": "code", "description": "What to look at.", "required": True},
            {"name": "language", "description": "What it is written in.", "required": False},
            {"name": "lines", "required": False},
        ]
        assert ("title" in review) is (revision >= "2025-06-18")
        assert ("icons" in review) is (revision >= "2025-11-25")
        assert [argument["name"] for argument in dialogue["arguments"]] == ["topic"]
        assert nothing["name"] == "no arguments"
        assert "arguments" not in nothing

    play(prompts(), scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_a_prompt_is_made_of_messages_with_one_block_each(revision):
    """PM-03, PM-06."""

    async def scenario(client: Client):
        result = await client.result("prompts/get", name="review", arguments={"code": "x", "lines": "41"})
        assert result["messages"] == [{"role": "user", "content": {"type": "text", "text": "python 42 x"}}]
        assert result["description"] == "Ask for a review."
        messages = (await client.result("prompts/get", name="dialogue", arguments={"topic": "t", "more": "ignored"}))["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "assistant", "assistant", "user", "user"]
        assert [message["content"]["type"] for message in messages] == ["text", "text", "image", "text", "resource", "text"]
        assert messages[4]["content"]["resource"] == {"uri": "note://1", "text": "one", "mimeType": "text/plain"}
        assert messages[5]["content"]["text"] == revision
        assert (await client.result("prompts/get", name="no arguments"))["messages"] == []
        assert (await client.result("prompts/get", name="whole"))["description"] == "mine"

    play(prompts(), scenario, revision)


@pytest.mark.parametrize("revision", ALL)
def test_a_failed_prompt_is_an_error(revision, capsys):
    """PM-02, PM-04: unknown, without a required argument, unreadable: -32602; broken: -32603."""

    async def scenario(client: Client):
        assert (await client.error("prompts/get", name="nope"))["code"] == -32602
        missing = await client.error("prompts/get", name="review")
        assert (missing["code"], "code" in missing["message"]) == (-32602, True)
        for arguments in ({"code": "x", "lines": "many"}, {"code": "x", "language": "cobol"}, {"code": 7}, ["code"]):
            assert (await client.error("prompts/get", name="review", arguments=arguments))["code"] == -32602, arguments
        broken = await client.error("prompts/get", name="broken")
        assert broken["code"] == -32603
        assert "secret" not in broken["message"]
        assert (await client.error("prompts/get", name="strange"))["code"] == -32603  # PM-03: no other role goes out

    play(prompts(), scenario, revision)
    said = capsys.readouterr().err
    assert "RuntimeError: secret" in said
    assert "'system'" in said


@pytest.mark.parametrize("revision", ALL)
def test_prompts_come_and_go(revision):
    """PM-05."""
    server = prompts()

    async def scenario(client: Client):
        if client.modern:
            client.start("subscriptions/listen", request_id="ear", notifications={"promptsListChanged": True})
            await client.note("notifications/subscriptions/acknowledged")
        server.add_prompt(lambda: "x", name="late", description="Late")
        await client.until(lambda: len(client.notes("notifications/prompts/list_changed")) == 1)
        assert (await client.names("prompts/list", "prompts"))[-1] == "late"
        server.remove_prompt("late")
        await client.until(lambda: len(client.notes("notifications/prompts/list_changed")) == 2)
        assert "late" not in await client.names("prompts/list", "prompts")

    play(server, scenario, revision)


def test_a_second_prompt_of_the_same_name_is_refused():
    server = prompts()
    with pytest.raises(LocalProtocolError, match="the prompt 'review' is already registered"):
        server.add_prompt(lambda: "x", name="review")


# Completion


class Cities:
    async def __call__(self, typed: str) -> Any:
        return Completion([f"{typed}{number}" for number in range(150)])


def completing() -> Server:
    server = prompts()

    @server.completion("dialogue", "topic")
    def topics(typed: str, settled: dict[str, str]) -> list[str]:
        return [topic for topic in (f"{settled.get('mood', 'topic')}-{number}" for number in range(250)) if topic.startswith(typed)]

    @server.resource("note://{name}/{page}/{line}/{word}")
    def note(name: str, page: int, line: str, word: str) -> str:
        return f"{name}{page}{line}{word}"

    @server.completion("note://{name}/{page}/{line}/{word}", "name")
    async def names(typed: str) -> Any:
        return (name for name in ("one", "two") if name.startswith(typed))

    server.completion("note://{name}/{page}/{line}/{word}", "page")(Cities())
    whole = CompleteResult(Completion(["x"] * 101, total=9000))
    server.completion("note://{name}/{page}/{line}/{word}", "line")(functools.partial(lambda given, typed: given, whole))
    server.completion("note://{name}/{page}/{line}/{word}", "word")(lambda typed: None)

    @server.completion("review", "code")
    def code(typed: str) -> list[str]:
        raise RuntimeError("secret")

    return server


PROMPT = {"type": "ref/prompt", "name": "dialogue"}
TEMPLATE = {"type": "ref/resource", "uri": "note://{name}/{page}/{line}/{word}"}


@pytest.mark.parametrize("revision", ALL)
def test_at_most_a_hundred_values_are_suggested(revision):
    """CM-02, CM-05."""

    async def scenario(client: Client):
        async def complete(ref: Any, name: str, value: str) -> Any:
            result = await client.result("completion/complete", ref=ref, argument={"name": name, "value": value})
            assert result.get("resultType") == ("complete" if revision in MODERN else None)
            assert "ttlMs" not in result
            return result["completion"]

        every = await complete(PROMPT, "topic", "")
        assert (len(every["values"]), every["total"], every["hasMore"]) == (100, 250, True)
        assert await complete(PROMPT, "topic", "topic-24") == {
            "values": ["topic-24", *(f"topic-24{digit}" for digit in range(10))],
            "total": 11,
            "hasMore": False,
        }
        assert (await complete(TEMPLATE, "name", "t"))["values"] == ["two"]
        assert (await complete(TEMPLATE, "word", "t"))["values"] == []
        for argument in ("page", "line"):
            cut = await complete(TEMPLATE, argument, "p")
            assert (len(cut["values"]), cut["hasMore"]) == (100, True)
        assert cut["total"] == 9000

    play(completing(), scenario, revision)


@pytest.mark.parametrize("revision", ERAS)
def test_settled_arguments_change_what_is_suggested(revision):
    """CM-04."""

    async def scenario(client: Client):
        argument = {"name": "topic", "value": "sad-1"}
        plain = await client.result("completion/complete", ref=PROMPT, argument=argument)
        moody = await client.result("completion/complete", ref=PROMPT, argument=argument, context={"arguments": {"mood": "sad"}})
        empty = await client.result("completion/complete", ref=PROMPT, argument=argument, context={})
        assert plain["completion"]["values"] == empty["completion"]["values"] == []
        assert moody["completion"]["values"][0] == "sad-1"

    play(completing(), scenario, revision)


def first(ctx: Context, typed: str) -> list[str]:
    return [f"{ctx.lifespan}-{typed}"]


def last(typed: str, settled: dict[str, str], ctx: "Context") -> list[str]:
    return [f"{ctx.lifespan}-{typed}-{settled['mood']}"]


async def by_name(typed: str, extra: dict[str, str] | None = None, unused: int = 3, *, ctx: Context | None = None) -> list[str]:
    assert ctx is not None
    return [f"{ctx.lifespan}-{typed}-{extra}-{unused}"]


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("function", "suggested"),
    [
        (first, "database-a"),
        (last, "database-a-sad"),
        (by_name, "database-a-{'mood': 'sad'}-3"),
        (functools.partial(by_name, unused=4), "database-a-{'mood': 'sad'}-4"),
        (lambda *texts: [f"{len(texts)}"], "1"),
        (lambda typed, *rest: [f"{typed}-{rest}"], "a-({'mood': 'sad'},)"),
    ],
)
def test_a_completion_may_take_a_context(function, suggested, revision):
    server = Server("s")

    @server.prompt
    def dialogue(topic: str, mood: str) -> str:
        return topic

    server.add_completion("dialogue", "topic", function)

    async def main():
        async with connected(server, revision, lifespan="database") as client:
            result = await client.result(
                "completion/complete",
                ref=PROMPT,
                argument={"name": "topic", "value": "a"},
                context={"arguments": {"mood": "sad"}},
            )
            assert result["completion"]["values"] == [suggested]

    asyncio.run(main())


def test_the_values_of_a_type_are_suggested_without_a_function():
    """CM-02: those that begin with what was typed come first."""

    async def scenario(client: Client):
        ref = {"type": "ref/prompt", "name": "review"}
        found = {}
        for typed in ("", "P", "o", "zzz"):
            result = await client.result("completion/complete", ref=ref, argument={"name": "language", "value": typed})
            found[typed] = result["completion"]["values"]
        assert found == {"": ["python", "rust", "go", "Pascal"], "P": ["python", "Pascal"], "o": ["python", "go"], "zzz": []}
        result = await client.result("completion/complete", ref=ref, argument={"name": "lines", "value": ""})
        assert result["completion"]["values"] == []

    play(completing(), scenario)


@pytest.mark.parametrize("revision", ALL)
def test_a_failed_completion_is_an_error(revision, capsys):
    """CM-03."""

    async def scenario(client: Client):
        async def code(ref: Any, argument: Any) -> int:
            return (await client.error("completion/complete", ref=ref, argument=argument))["code"]

        typed = {"name": "topic", "value": ""}
        assert await code({"type": "ref/prompt", "name": "nope"}, typed) == -32602
        assert await code({"type": "ref/resource", "uri": "nope://{x}"}, typed) == -32602
        assert await code({"type": "ref/other", "name": "dialogue"}, typed) == -32602
        assert await code(PROMPT, {"name": "mood", "value": ""}) == -32602
        assert await code(PROMPT, {"name": "topic"}) == -32602
        assert await code({"type": "ref/prompt", "name": "review"}, {"name": "code", "value": ""}) == -32603

    play(completing(), scenario, revision)
    assert "RuntimeError: secret" in capsys.readouterr().err


@pytest.mark.parametrize("revision", ERAS)
def test_a_server_without_completions_does_not_declare_them(revision):
    """CM-03."""

    async def scenario(client: Client):
        error = await client.error("completion/complete", ref=PROMPT, argument={"name": "topic", "value": ""})
        assert error["code"] == -32601

    play(Server("s"), scenario, revision)


def test_two_completions_of_one_argument_are_refused():
    server = completing()
    with pytest.raises(LocalProtocolError, match="the completion 'dialogue topic' is already registered"):
        server.completion("dialogue", "topic")(lambda typed: [])


def test_a_legacy_answer_has_no_mark_of_the_modern_era():
    async def scenario(client: Client):
        result = await client.result("prompts/get", name="whole")
        assert result.keys() == {"messages", "description"}

    play(prompts(), scenario, LATEST_LEGACY)
