"""The types of the main expressions, as mypy reveals them, and that every class in them can be imported."""

import importlib
import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import twopipes

ROOT = Path(__file__).parents[1]

# Each line that ends with a comment reveals a type: the expression before it has the type in the comment.
REVEALED = """
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict

from twopipes import Context, Server, blocking, connect
from twopipes.outcome import Err, Ok, attempt
from twopipes.types import AcceptedForm, CancelledForm, DeclinedForm, Elicitation, LogParams, ProgressParams, TextContent


@dataclass
class Person:
    name: str


class Form(TypedDict):
    name: str


server = Server("typed")


@server.tool
def add(a: int, b: int = 0) -> int:
    return a + b


@server.tool(title="Greets", annotations={"readOnlyHint": True})
async def greet(name: str) -> str:
    return name


@server.prompt
def review(code: str) -> str:
    return code


@server.resource("user://{name}", mime_type="text/plain")
def user(name: str) -> bytes:
    return name.encode()


@server.completion("review", "code")
def suggest(typed: str) -> list[str]:
    return [typed]


add  # def (a: int, b: int =) -> int
greet  # def (name: str) -> Coroutine[Any, Any, str]
review  # def (code: str) -> str
user  # def (name: str) -> bytes
suggest  # def (typed: str) -> list[str]


async def handler(ctx: Context) -> None:
    asked = await ctx.elicit("Who?", Person)
    asked  # AcceptedForm[Person] | DeclinedForm | CancelledForm
    asked.content  # Person | None
    asked.action  # Literal['accept'] | Literal['decline'] | Literal['cancel']
    if asked.action == "accept":
        asked.content  # Person
    if asked:
        asked.content.name  # str
    match asked:
        case AcceptedForm(content=person):
            person  # Person
        case DeclinedForm() | CancelledForm():
            asked.content  # None
    (await ctx.elicit("Who?", Form)).content  # TypedDict(Form, {'name': str}) | None
    (await ctx.elicit("Who?", {"type": "object", "properties": {}})).content  # dict[str, Any] | None
    ctx.wait(ctx.elicit("Who?", Person))  # AcceptedForm[Person] | DeclinedForm | CancelledForm
    await ctx.elicit_url("Look", "https://example.org")  # AcceptedForm[None] | DeclinedForm | CancelledForm
    await ctx.sample("Hello")  # CreateMessageResult
    (await ctx.sample("Hello")).text  # str
    (await ctx.list_roots())[0].uri  # str
    ctx.client.capabilities  # ClientCapabilities
    ctx.cancelled  # CancelToken
    ctx.progress(1, 2)  # Awaitable[None]
    ctx.lifespan  # Any


@dataclass
class App:
    database: str


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[App]:
    yield App("db")


server  # Server[Any]
Server("with a lifespan", lifespan=lifespan)  # Server[App]


@server.tool
def query(ctx: Context[App], text: str) -> str:
    ctx.lifespan  # App
    ctx.lifespan.database  # str
    return text


def answer(question: Elicitation) -> dict[str, str]:
    return {"name": question.message}


def hear(said: LogParams) -> None:
    said.logger  # str | None
    said.data  # Any


def look(report: ProgressParams) -> None:
    report.progress  # int | float
    report.message  # str | None


async def caller() -> None:
    async with connect("python", "server.py", on_elicit=answer, on_log=hear) as client:
        client  # Client
        result = await client.call_tool("add", {"a": 1}, on_progress=look)
        result  # CallResult
        result.text  # str
        result.is_error  # bool
        result.raise_for_error().validation.verdict  # bool | None
        for block in result.content:
            if isinstance(block, TextContent):
                block.text  # str
        (await client.list_tools())[0]  # Tool
        (await client.list_tools())[0].input_schema  # dict[str, Any]
        (await client.list_resources())[0].uri  # str
        (await client.list_resource_templates())[0].uri_template  # str
        (await client.list_prompts())[0]  # Prompt
        await client.read_resource("x://y")  # ReadResourceResult
        (await client.read_resource("x://y")).text  # str
        (await client.get_prompt("review")).messages[0]  # PromptMessage
        (await client.complete("code", "", prompt="review")).values  # list[str]
        client.subscribe(tools=True)  # Subscription
        async for change in client.subscribe(tools=True):
            change.kind  # Literal['tools'] | Literal['prompts'] | Literal['resources'] | Literal['resource']
        client.server_info  # Implementation | None
        client.closed  # ShutdownReport | None
        match await attempt(client.call_tool("add")):
            case Ok(value):
                value.text  # str
            case Err(error):
                error  # TwopipesError
    other = await connect(server)
    other  # Client


with blocking.connect(server, on_elicit=answer) as still:
    still  # blocking.Client
    still.call_tool("add", {"a": 1}).text  # str
    still.list_tools()[0]  # Tool
    still.read_resource("x://y").text  # str
    still.get_prompt("review").messages[0]  # PromptMessage
    for changed in still.subscribe(tools=True):
        changed  # Change
    still.subscribe(tools=True)  # blocking.Subscription
"""

# Mistakes that a type checker must report.
REFUSED = """
from twopipes import Context, Server, connect

server = Server("wrong")
server.tool(desc="no such option")
server.resource("x://y", mime="no such option")
server.tol
connect("python").call_tool("add")


async def handler(ctx: Context) -> None:
    ctx.report_progress(1)
    ctx.log("warn", "no such level")
    ctx.elicit("Who?", 7)


async def caller() -> None:
    async with connect("python") as client:
        client.call_tol("add")
        (await client.call_tool("add")).data
    with connect("python"):
        pass
"""
EXPECTED = {
    "server.tool(desc": "call-overload",
    "server.resource(": "call-arg",
    "server.tol": "attr-defined",
    'connect("python").call_tool': "attr-defined",
    "ctx.report_progress": "attr-defined",
    'ctx.log("warn"': "arg-type",
    "ctx.elicit(": "call-overload",
    "client.call_tol": "attr-defined",
    "data": "attr-defined",
    'with connect("python"):': "attr-defined",
}
EXPRESSION = re.compile(r"^(?P<indent> *)(?P<expression>[^#\n]+?)  # (?P<type>.+)$")


def plain(kind: str) -> str:
    """Return a type without its modules, which an editor does not show either, except for those of the blocking client."""
    kind = kind.replace("twopipes._blocking.client.", "blocking!").replace("twopipes._blocking.subscription.", "blocking!")
    kind = re.sub(r"TypedDict\('(?:[\w.]+\.)?(\w+)', ", r"TypedDict(\1, ", kind)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", kind).replace("blocking!", "blocking.").replace("builtins.", "")


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Check both programs in one run; return their lines, and mypy's output by line."""
    folder = tmp_path_factory.mktemp("editor")
    programs = {"revealed.py": [], "refused.py": REFUSED.strip().splitlines()}
    for line in REVEALED.strip().splitlines():
        found = EXPRESSION.match(line)
        programs["revealed.py"].append(f"{found['indent']}reveal_type({found['expression']})" if found else line)
    for name, lines in programs.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = [
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
        "--follow-imports",
        "silent",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--hide-error-context", "--no-pretty", *programs],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    output: dict[str, dict[int, str]] = {name: {} for name in programs}
    for line in done.stdout.splitlines():
        found = re.match(r"(?P<file>\w+\.py):(?P<line>\d+): (?P<what>.*)", line)
        if found is not None:
            notes = output[found["file"]]
            notes[int(found["line"])] = f"{notes.get(int(found['line']), '')}{found['what']}\n"
    assert any(output.values()), done.stdout + done.stderr
    return programs, output


def test_an_editor_knows_the_type_of_the_main_expressions(checked):
    _, said = checked
    revealed = {number: re.search(r'Revealed type is "(.*)"', what) for number, what in said["revealed.py"].items()}
    assert {number: said["revealed.py"][number] for number, found in revealed.items() if found is None} == {}
    wanted = {}
    for number, line in enumerate(REVEALED.strip().splitlines(), start=1):
        if found := EXPRESSION.match(line):
            wanted[number, found["expression"]] = found["type"]
    got = {key: plain(revealed[key[0]][1]) if key[0] in revealed else "nothing" for key in wanted}
    assert got == wanted


def test_an_editor_marks_mistakes(checked):
    programs, said = checked
    for start, code in EXPECTED.items():
        (number,) = (
            at
            for at, line in enumerate(programs["refused.py"], start=1)
            if start in line and (start != "data" or line.endswith(".data"))
        )
        assert f"[{code}]" in said["refused.py"].get(number, "nothing"), (start, said["refused.py"].get(number))


# Members of public classes that other modules of the package use.
PLUMBING = {
    twopipes.Client: {"reopened"},
    twopipes.Subscription: {"attach"},
}
PUBLIC_MODULES = [
    "twopipes",
    *(f"twopipes.{name}" for name in ("channels", "errors", "http", "process", "settings", "trace", "types")),
]
PUBLIC_CLASSES = [getattr(twopipes, name) for name in twopipes.__all__ if isinstance(getattr(twopipes, name), type)]


def classes_in(annotation) -> set[type]:
    """Return every class of ours in an annotation."""
    if isinstance(annotation, type) and annotation.__module__.startswith("twopipes."):
        return {annotation}
    return set().union(*map(classes_in, typing.get_args(annotation))) if typing.get_args(annotation) else set()


def hints_of(thing) -> dict:
    """Return the annotations of a function or a class. Names imported only for type checkers are looked up in their modules."""
    names: dict = {}
    for module in [*sys.modules]:
        if module.startswith("twopipes."):
            names.update(vars(sys.modules[module]))
    own = vars(sys.modules[inspect.unwrap(thing).__module__])  # first: two modules may use one name
    return typing.get_type_hints(thing, globalns={**names, **vars(typing), **own})


def members_of(kind) -> dict:
    found = {}
    for name, member in inspect.getmembers_static(kind):
        if not name.startswith("_") and name not in PLUMBING.get(kind, ()):
            function = member.fget if isinstance(member, property) else inspect.unwrap(getattr(member, "__func__", member))
            if inspect.isfunction(function):
                found[name] = function
    return found


def used_by(kind) -> dict[str, set[type]]:
    """Return the classes of ours that its members accept and return."""
    for module in (
        "twopipes._http.auth",
        "twopipes._http.bus",
        "twopipes._http.options",
        "twopipes._server.http.app",
        "twopipes._server.options",
        "twopipes._server.wire_log",
    ):
        importlib.import_module(module)  # only type checkers load them

    used = {name: set().union(*map(classes_in, hints_of(function).values())) for name, function in members_of(kind).items()}
    if hasattr(kind, "__struct_fields__"):
        used["its fields"] = set().union(*map(classes_in, hints_of(kind).values()))
    return used


@pytest.mark.parametrize("kind", PUBLIC_CLASSES, ids=lambda kind: kind.__name__)
def test_types_in_public_signatures_can_be_imported(kind):
    known = {name for module in PUBLIC_MODULES for name in importlib.import_module(module).__all__}
    assert {(name, each.__name__) for name, used in used_by(kind).items() for each in used if each.__name__ not in known} == set()
