"""Messages for common mistakes of authors: what is wrong, where, and what to write instead."""

import asyncio
import contextlib
import dataclasses
import functools
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from inmemory import ERAS, Client, play
from twopipes import Context, Server, ToolError, TwopipesError
from twopipes.errors import FormRejected, LocalProtocolError, SignatureRejected


def message_of(mistake) -> str:
    """Return the message of a mistake."""
    with pytest.raises(LocalProtocolError) as caught:
        mistake()
    return str(caught.value)


def message_of_tool(function, **options) -> str:
    return message_of(lambda: Server("s").add_tool(function, **options))


def stderr_of(function, capsys, *, kind="tool") -> str:
    """What stderr says after a tool of this name was called, and has failed."""
    server = Server("s")
    server.add_tool(function)

    async def scenario(client: Client):
        result = await client.call(function.__name__)
        assert result["isError"] is True
        return result["content"][0]["text"]

    said = play(server, scenario)
    assert said.startswith(f"The tool {function.__name__} failed: ")  # TL-05: no more than that
    return capsys.readouterr().err


# Decorators, with parentheses and without


def test_a_tool_and_a_prompt_may_be_decorated_with_and_without_parentheses():
    server = Server("s")

    @server.tool
    def one() -> str:
        return "1"

    @server.tool()
    def two() -> str:
        return "2"

    @server.tool(title="Three")
    def three() -> str:
        return "3"

    @server.prompt
    def four() -> str:
        return "4"

    @server.prompt()
    def five() -> str:
        return "5"

    assert [each.tool.name for each in server.tools] == ["one", "two", "three"]
    assert [each.prompt.name for each in server.prompts] == ["four", "five"]
    assert (one(), two(), three(), four(), five()) == ("1", "2", "3", "4", "5")  # they are still functions


def test_a_resource_without_its_uri():
    server = Server("s")

    def settings() -> str:
        return "all on"

    assert message_of(lambda: server.resource(settings)) == (
        "@server.resource needs the URI of the resource as its first argument, "
        "got test_a_resource_without_its_uri.<locals>.settings; "
        'write @server.resource("config://app"), or @server.resource("user://{name}") for a function that takes a name'
    )
    assert "server.add_resource() needs the URI" in message_of(lambda: server.add_resource(settings, "config://app"))
    with pytest.raises(TypeError, match="'uri'"):
        server.resource()


def test_a_completion_without_its_argument():
    with pytest.raises(TypeError, match=r"completion\(\) missing 1 required positional argument: 'argument'"):
        Server("s").completion(lambda typed: [])


def test_a_name_in_the_place_of_the_function():
    assert message_of(lambda: Server("s").tool("add")) == "str: this is a string, not a function; pass a name as name='add'"
    assert "name='review'" in message_of(lambda: Server("s").prompt("review"))


def test_an_unknown_option():
    server = Server("s")
    assert message_of(lambda: server.tool(desc="Adds.")(len)) == (
        "a tool has no option desc=; "
        "its options are name=, title=, description=, annotations=, icons=, meta=, input_schema=, output_schema="
    )
    assert "a resource has no option mimetype=; its options" in message_of(lambda: server.resource("x://y", mimetype="x/y")(str))
    assert "a prompt has no option annotations=;" in message_of(lambda: server.prompt(annotations={})(str))


# What can be registered


class Desk:
    """Things that can be called."""

    def sit(self, minutes: int) -> str:
        return f"sits for {minutes}"

    async def stand(self, minutes: int) -> str:
        return f"stands for {minutes}"

    def __call__(self, minutes: int) -> str:
        return f"is called for {minutes}"

    @classmethod
    def make(cls, minutes: int) -> str:
        return f"is made in {minutes}"

    @staticmethod
    def wobble(minutes: int) -> str:
        return f"wobbles for {minutes}"


def rest(who: str, minutes: int) -> str:
    return f"{who} rests for {minutes}"


async def rest_well(minutes: int) -> str:
    return f"rests well for {minutes}"


CALLABLES = {
    "function": (lambda minutes: f"for {minutes}", "for 3"),
    "async function": (rest_well, "rests well for 3"),
    "method": (Desk().sit, "sits for 3"),
    "async method": (Desk().stand, "stands for 3"),
    "class method": (Desk.make, "is made in 3"),
    "static method": (Desk.wobble, "wobbles for 3"),
    "object": (Desk(), "is called for 3"),
    "partial": (functools.partial(rest, "Anna"), "Anna rests for 3"),
    "async partial": (functools.partial(rest_well), "rests well for 3"),
}


@pytest.mark.parametrize("kind", CALLABLES)
def test_whatever_can_be_called_can_be_a_resource_a_prompt_or_a_completion(kind):
    """The same for tools is in test_tools.py."""
    function, expected = CALLABLES[kind]
    server = Server("s")
    server.add_resource("rest://{minutes}", function, name="it")
    server.add_prompt(function, name="it")
    server.add_completion("it", "minutes", function)

    async def scenario(client: Client):
        (contents,) = (await client.result("resources/read", uri="rest://3"))["contents"]
        (message,) = (await client.result("prompts/get", name="it", arguments={"minutes": "3"}))["messages"]
        completed = await client.result(
            "completion/complete", ref={"type": "ref/prompt", "name": "it"}, argument={"name": "minutes", "value": "3"}
        )
        return contents["text"], message["content"]["text"], "".join(completed["completion"]["values"])

    assert play(server, scenario) == (expected,) * 3


def test_a_class():
    assert message_of_tool(Desk) == (
        "Desk: this is a class, not a function; create an object and register its methods, or the object itself if it is callable"
    )


def test_a_method_in_its_class():
    server = Server("s")

    def define():
        class Shop:
            @server.tool
            def buy(self, what: str) -> str:
                return what

    assert message_of(define).endswith(
        "Shop.buy: this is a method without its object; create the object, then register it with server.add_tool(thing.method)"
    )


@pytest.mark.parametrize("above", [True, False])
def test_a_classmethod_in_its_class(above):
    server = Server("s")

    def define_above():
        class Shop:
            @server.tool
            @classmethod
            def open(cls, day: str) -> str:
                return day

    def define_below():
        class Shop:
            @classmethod
            @server.tool
            def open(cls, day: str) -> str:
                return day

    said = message_of(define_above if above else define_below)
    assert "Shop.open: this is " in said
    assert "register it " in said


def test_a_static_method_in_its_class_is_a_function():
    server = Server("s")

    class Shop:
        @server.tool
        @staticmethod
        def close(day: str) -> str:
            return day

    assert Shop.close("Sunday") == "Sunday"
    assert "close" in server.tools


def test_a_call_in_the_place_of_the_function():
    assert "this is the result of a call, not a function; remove the parentheses" in message_of_tool(rest_well(3))


def numbers(count: int) -> Any:
    yield from range(count)


async def slow_numbers(count: int) -> str:
    yield str(count)


class Numbers:
    def __call__(self, count: int):
        yield count


@pytest.mark.parametrize("function", [numbers, slow_numbers, Numbers(), functools.partial(numbers, count=3)])
def test_a_yield(function):
    assert message_of_tool(function).endswith(
        ": it is a generator, but a call has only one result; return a list, or report progress"
    )


def test_a_generator_that_a_decorator_collects_is_a_function():
    @functools.wraps(numbers)
    def collected(**arguments):
        return list(numbers(**arguments))

    server = Server("s")
    server.add_tool(collected)

    async def scenario(client: Client):
        return await client.text("numbers", count=3)

    assert play(server, scenario) == "[0,1,2]"


def test_two_tools_of_one_name():
    server = Server("s")
    server.add_tool(rest)
    said = message_of(lambda: server.add_tool(lambda: "", name="rest"))
    assert said.startswith("the tool 'rest' is already registered (")
    assert said.count("test_usual_mistakes.py:") == 2


# Parameters


def test_any_number_of_arguments():
    def add(*numbers: int) -> int: ...

    def save(**fields: str) -> None: ...

    def half(number: int, /) -> float: ...

    assert message_of_tool(add).endswith("add, parameter numbers: arguments are passed by name; use a list instead of *")
    assert message_of_tool(save).endswith(
        "save, parameter fields: the schema must name each argument; use a dict instead of **, or write the schema by hand"
    )
    assert message_of_tool(half).endswith(
        "half, parameter number: arguments are passed by name, and this parameter is positional-only; remove the / after it"
    )


def test_a_parameter_without_an_annotation_and_a_function_without_a_docstring_are_fine():
    server = Server("s")

    @server.tool
    def echo(anything):
        return anything

    async def scenario(client: Client):
        (tool,) = (await client.result("tools/list"))["tools"]
        assert "description" not in tool
        assert tool["inputSchema"]["properties"] == {"anything": {}}
        return await client.text("echo", anything={"a": [1]})

    assert play(server, scenario) == '{"a":[1]}'


def test_a_context_without_its_annotation():
    def ask(ctx) -> str: ...

    assert message_of_tool(ask).endswith(
        "ask, parameter ctx: it has no annotation, so the client would have to send it; write ctx: Context to have it filled in"
    )


@pytest.mark.parametrize("module", ["mcp.server.fastmcp.server", "fastmcp.server.context"])
def test_the_context_of_another_library(module):
    def ask(ctx: type("Context", (pydantic.BaseModel,), {"__module__": module})) -> str: ...

    assert message_of_tool(ask).endswith(
        f"ask, parameter ctx: this Context comes from {module}; write from twopipes import Context"
    )


def test_a_context_of_the_authors_own_is_an_argument():
    @dataclasses.dataclass
    class Context:
        where: str

    def go(ctx: Context) -> str: ...

    Server("s").add_tool(go)


def test_an_annotation_that_json_cannot_say():
    class Socket: ...

    def send(over: Socket, text: str) -> None: ...

    def open_one() -> Socket: ...

    assert "send, parameter over: " in message_of_tool(send)
    assert message_of_tool(send).endswith("Socket cannot be represented in JSON; use a dataclass or a TypedDict")
    assert message_of_tool(open_one).endswith("(or use Any, or write the output schema by hand)")


def a_word(count: int = "three") -> str: ...  # type: ignore[assignment]
def a_choice(size: Literal["s", "m"] = "xl") -> str: ...  # type: ignore[assignment]
def too_few(count: Annotated[int, msgspec.Meta(ge=1)] = 0) -> str: ...
def a_wrong_item(tags: list[str] = [1]) -> str: ...  # type: ignore[list-item]  # noqa: B006


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (a_word, "parameter count: its default 'three' does not match its type: Expected `integer`, got `string` (\"three\")"),
        (a_choice, "parameter size: its default 'xl' does not match its type: Invalid enum value 'xl'"),
        (too_few, "parameter count: its default 0 does not match its type: Expected `integer` >= 1 (0)"),
        (a_wrong_item, "parameter tags: its default [1] does not match its type: [0]: Expected `string`, got `integer` (1)"),
    ],
)
def test_a_default_that_does_not_fit(function, why):
    assert message_of_tool(function) == f"{function.__name__}, {why}"


MARK = object()


class Size(pydantic.BaseModel):
    width: int = 1


def good_defaults(
    *,
    nothing: int = None,  # type: ignore[assignment]  # noqa: RUF013
    whole: float = 1,
    half: int | str = "half",
    mark: int = MARK,  # type: ignore[assignment]
    ratio: float = float("nan"),
    where: Path = Path("here"),
    tags: tuple[str, ...] = (),
    letters: frozenset[str] = frozenset("a"),
    size: Size = Size(),  # noqa: B008
    data: bytes = b"x",
) -> str:
    return "fine"


def test_valid_and_unverifiable_defaults_are_accepted():
    server = Server("s")
    server.add_tool(good_defaults)

    async def scenario(client: Client):
        return await client.text("good_defaults")

    assert play(server, scenario) == "fine"


def test_variables_and_parameters_that_do_not_match():
    server = Server("s")
    assert "needs name, which the URI does not have as {variables}" in message_of(
        lambda: server.resource("greeting://all")(lambda name: name)
    )
    assert "has name, which the function does not take" in message_of(lambda: server.resource("greeting://{name}")(lambda: ""))


def test_a_completion_that_takes_something_else():
    def context_alone(ctx: Context) -> list[str]: ...

    for function in (context_alone, lambda: None, lambda a, b, c: None):
        said = message_of(lambda function=function: Server("s").add_completion("review", "language", function))
        assert "must take the text typed so far, and may take a dict of the arguments that are filled in, and a Context" in said
    said = message_of(lambda: Server("s").add_completion("review", "language", lambda typed, ctx: None))
    assert "parameter ctx: it has no annotation, so the client would have to send it; write ctx: Context" in said


def test_a_completion_is_added_and_removed():
    server = Server("s")
    server.add_prompt(lambda size: size, name="it")
    server.add_completion("it", "size", lambda typed: ["small"])
    server.remove_completion("it", "size")
    assert "cannot remove the completion 'it size': it is not reg" in message_of(lambda: server.remove_completion("it", "size"))


def test_every_mistake_of_registration_is_of_one_kind():
    """A program that registers functions of others has one exception to catch."""
    with pytest.raises(SignatureRejected) as caught:
        Server("s").add_tool(Desk)
    assert isinstance(caught.value, LocalProtocolError)
    assert isinstance(caught.value, TwopipesError)
    assert isinstance(caught.value, TypeError)


# The server


def greet(name: str) -> str:
    return f"Hello, {name}!"


async def life(server: Server):
    yield None


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Server(greet), 'the name of a server must be a non-empty string, got greet; write Server("my-server")'),
        (lambda: Server(""), "the name of a server must be a non-empty string, got ''; write Server(\"my-server\")"),
        (lambda: Server("s", version=1.0), "the version of a server must be a string, got 1.0; write version='1.0'"),
        (lambda: Server("s", eras="all"), "eras= must be one of both, legacy, modern, got 'all'"),
        (lambda: Server("s", tools=greet), "tools= must be a list of functions; write tools=[greet]"),
        (lambda: Server("s", lifespan=life), "the lifespan life has a yield; put @contextlib.asynccontextmanager above it"),
    ],
)
def test_a_server_made_of_something_else(make, why):
    assert message_of(make) == why


def test_a_lifespan_with_its_decorator_is_taken():
    Server("s", lifespan=contextlib.asynccontextmanager(life))


def test_run_inside_a_running_loop():
    async def main():
        Server("s").run()

    assert message_of(lambda: asyncio.run(main())) == (
        "run() starts an event loop, and one is already running; use await server.serve(), which takes http=, unix=, tcp= too"
    )


# What a tool returns


def test_an_object_that_json_cannot_say(capsys):
    class Socket: ...

    def open_one():
        return {"socket": Socket()}

    said = stderr_of(open_one, capsys)
    assert "Error: tools/call open_one failed" in said
    assert "Invalid return value of open_one: A value of type " in said
    assert "Socket cannot be written as JSON; return strings, numbers, lists, dicts or a dataclass" in said


def test_the_same_where_a_type_was_promised(capsys):
    def open_one() -> dict[str, Any]:
        return {"socket": object()}

    said = stderr_of(open_one, capsys)
    assert "Invalid return value of open_one: A value of type object cannot be written as JSON; return strings" in said


def test_what_can_be_written_is_written_with_and_without_an_annotation():
    server = Server("s")

    @server.tool
    def without():
        return {"where": Path("here"), "size": Size()}

    @server.tool
    def with_one() -> dict[str, Any]:
        return {"where": Path("here"), "size": Size()}

    async def scenario(client: Client):
        return await client.text("without"), await client.text("with_one")

    assert play(server, scenario) == ('{"where":"here","size":{"width":1}}',) * 2


def test_an_error_that_is_returned_and_not_raised(capsys):
    def fail():
        return ToolError("no")

    assert "A value of type ToolError cannot be written as JSON; raise an error instead of returning it" in stderr_of(fail, capsys)


def test_a_generator_that_is_returned(capsys):
    def some():
        return (number for number in range(3))

    assert "A value of type generator cannot be written as JSON; convert it to a list" in stderr_of(some, capsys)


# An await that was forgotten


@dataclasses.dataclass
class Person:
    name: str


def test_a_coroutine_that_is_returned(capsys):
    async def ask(ctx: Context):
        return ctx.elicit("Who are you?", Person)

    assert "Invalid return value of ask: A value of type coroutine cannot be written as JSON; add the missing await" in (
        stderr_of(ask, capsys)
    )


def test_a_function_that_is_not_async_may_return_what_is_to_be_awaited():
    server = Server("s")

    @server.tool
    def later() -> Any:
        return rest_well(3)

    async def scenario(client: Client):
        return await client.text("later")

    assert play(server, scenario) == "rests well for 3"


@pytest.mark.filterwarnings("ignore:coroutine 'Context.elicit' was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_that_is_used_as_its_result(capsys):
    async def ask(ctx: Context) -> str:
        answer = ctx.elicit("Who are you?", Person)
        return answer.action

    said = stderr_of(ask, capsys)
    assert "AttributeError: 'coroutine' object has no attribute 'action'" in said
    assert said.endswith(
        "Hint: the coroutine was not awaited. Write await before the call; "
        "in a function that is not async, ctx.wait(ctx.elicit(...))\n"
    )


@pytest.mark.parametrize("revision", ERAS)
def test_progress_and_log_need_no_await(revision):
    server = Server("s")

    @server.tool
    async def work(ctx: Context) -> str:
        ctx.progress(1, 2)
        ctx.log("error", "half")
        return "done"

    async def scenario(client: Client):
        meta = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
        result = await client.call("work", meta=meta)
        return (
            result["content"][0]["text"],
            client.notes("notifications/progress")[0]["progress"],
            client.notes("notifications/message")[0]["data"],
        )

    assert play(server, scenario, revision) == ("done", 1, "half")


# Habits of other places


def test_a_loop_in_a_loop(capsys):
    async def nested() -> str:
        coroutine = rest_well(3)
        try:
            return asyncio.run(coroutine)
        finally:
            coroutine.close()

    assert stderr_of(nested, capsys).endswith(
        "Hint: an async handler already runs in an event loop. Use await instead of running another loop\n"
    )


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("report_progress", "ctx.progress(done, total, message)"),
        ("info", 'ctx.log("info", data)'),
        ("roots", "ctx.list_roots()"),
        ("session", "ctx itself: ctx.elicit(), ctx.sample(), ctx.list_roots(), ctx.log()"),
        ("request_id", "ctx.call.id"),
    ],
)
def test_names_of_other_contexts_get_a_hint(name, here, capsys):
    async def work(ctx: Context) -> str:
        return getattr(ctx, name)("?")

    assert f"AttributeError: 'Context' object has no attribute {name!r}; here it is {here}" in stderr_of(work, capsys)


def test_an_unknown_name_of_a_context(capsys):
    async def work(ctx: Context) -> str:
        assert not hasattr(ctx, "colour")
        return ctx.colour

    assert "AttributeError: 'Context' object has no attribute 'colour'\n" in stderr_of(work, capsys)


def test_a_level_that_there_is_not(capsys):
    """Even if no client wants log messages: otherwise only the first client would notice."""

    async def work(ctx: Context) -> str:
        ctx.log("warn", "careful")
        return "?"

    levels = "debug, info, notice, warning, error, critical, alert, emergency"
    said = f"the level of a log message is one of {levels}, and not 'warn'"
    assert said in stderr_of(work, capsys)
    assert message_of(lambda: Server("s").log("warn", "careful")) == said


@pytest.mark.parametrize("revision", ERAS)
def test_a_type_that_cannot_be_a_form(revision, capsys):
    server = Server("s")

    @server.tool
    async def by_types(ctx: Context) -> str:
        return (await ctx.elicit("Who?", {"name": str})).action

    @server.tool
    async def by_a_plain_type(ctx: Context) -> str:
        return (await ctx.elicit("Who?", str)).action

    async def scenario(client: Client):
        for name in ("by_types", "by_a_plain_type"):
            assert (await client.call(name))["isError"] is True

    play(server, scenario, revision)
    said = capsys.readouterr().err
    assert 'a mapping is a form as JSON Schema, {"type": "object", "properties": {...}}, and this one has no properties' in said
    assert "str: a form needs a class with named fields" in said


def test_an_answer_that_does_not_fit_the_form_can_be_caught():
    server = Server("s")

    @dataclasses.dataclass
    class Age:
        years: int

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit("How old?", Age)
        except FormRejected as error:
            return str(error)
        return "?"

    async def scenario(client: Client):
        client.answer = lambda key, method, params: {"action": "accept", "content": {"years": "many"}}
        return await client.text("ask")

    assert "years" in play(server, scenario)


@dataclasses.dataclass
class Trip:
    days: int
    goal: str
    mood: Literal["sad", "gay"] = "gay"


def travelling() -> Server:
    server = Server("s")

    @server.tool
    async def book(ctx: Context) -> str:
        return (await ctx.elicit("Where to?", Trip)).action

    @server.prompt
    async def plan(ctx: Context) -> str:
        return (await ctx.elicit("Where to?", Trip)).action

    return server


WRONG_TRIP = {"action": "accept", "content": {"days": "hunter2", "mood": "hunter2", "goals": "hunter2"}}
WRONG_FIELDS = "The response does not match the form; wrong or missing fields: days, goal, mood, goals"


@pytest.mark.parametrize("revision", ERAS)
def test_a_response_that_does_not_match_its_form_is_explained_to_the_client_and_to_the_author(revision, capsys):
    """The client learns which fields are wrong; the values are the user's and stay out of what the model reads (TL-05)."""

    async def scenario(client: Client):
        client.answer = lambda key, method, params: WRONG_TRIP
        result = await client.call("book")
        assert result["isError"] is True
        assert result["content"][0]["text"] == f"The tool book failed: {WRONG_FIELDS}"

    play(travelling(), scenario, revision)
    said = capsys.readouterr().err
    assert "Error: tools/call book failed\n" in said
    assert 'await ctx.elicit("Where to?", Trip)' in said  # the line of the author
    assert "FormRejected: Invalid response to the form Trip:\n" in said
    assert '- days: Expected `integer`, got `string` ("hunter2")\n' in said
    assert "- goal: This field is missing\n" in said
    assert "- mood: Invalid enum value 'hunter2'; expected one of 'sad', 'gay'\n" in said
    assert "- goals: Unknown field; did you mean goal?\n" in said
    assert "argument" not in said


@pytest.mark.parametrize("revision", ERAS)
def test_a_prompt_whose_form_was_answered_wrongly_is_an_error_that_names_the_fields(revision, capsys):
    """MR-14: in the stateless era the response to the form is a part of the params."""

    async def scenario(client: Client):
        client.answer = lambda key, method, params: WRONG_TRIP
        error = await client.error("prompts/get", name="plan")
        assert (error["code"], error["message"]) == (-32602 if client.modern else -32603, WRONG_FIELDS)

    play(travelling(), scenario, revision)
    assert "FormRejected: Invalid response to the form Trip" in capsys.readouterr().err


# What other libraries call it


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("mount", "register the functions of both on one server, server.add_tool(function)"),
        ("add_middleware", "pass one callable, Server(..., middleware=m), with async def m(ctx, call_next)"),
        ("run_async", "write await server.serve()"),
        ("http_app", "server.run(http=8000) serves HTTP, and server.asgi() is an ASGI application"),
    ],
)
def test_a_habit_from_another_library_is_answered_with_what_to_write_here(name, instead):
    with pytest.raises(AttributeError, match=f"'Server' object has no attribute '{name}'") as caught:
        getattr(Server("s"), name)
    assert instead in str(caught.value)
    assert (caught.value.name, hasattr(Server("s"), name)) == (name, False)


def test_a_name_that_is_nowhere_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match=r"^'Server' object has no attribute 'spin'$"):
        Server("s").spin  # noqa: B018 - looking is the mistake


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transport": "stdio"}, "run() serves stdio; for HTTP write http=8000, and for a socket unix= or tcp="),
        ({"host": "0.0.0.0", "port": 80}, 'write http="127.0.0.1:8000"'),
        ({"colour": "red"}, "its options are http=, unix=, tcp=, workers=, http_options=, auth=, bus=, trace= and redact="),
    ],
)
def test_an_option_of_another_library_is_refused_with_a_hint(options, said):
    name = next(iter(options))
    with pytest.raises(TypeError) as caught:
        Server("s").run(**options)
    assert str(caught.value) == f"Server.run() got an unexpected keyword argument {name!r}; {said}"
