"""``twopipes list``, ``call``, ``read`` and ``prompt``: a client for the terminal."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec import json as msgspec_json

from twopipes._cli.arguments import (
    InvalidValue,
    Pair,
    describe,
    did_you_mean,
    json_value,
    missing,
    properties_of,
    read_pair,
    values_of,
)
from twopipes._cli.client_run import EXIT_CODES, OK, REFUSED, Body, Conversation, exit_code_for, run_client_command
from twopipes._cli.display import bytes_of
from twopipes._cli.interrupts import INTERRUPTED
from twopipes._cli.server_options import CommandParser, add_server_options, message_of, split_command
from twopipes._protocol.types import LOGGING_LEVELS, Prompt, Tool
from twopipes._tools.terminal import visible
from twopipes._tools.usage import UsageError
from twopipes.errors import McpError, MethodNotFound, RemoteProtocolError, TwopipesError

__all__ = ["call", "list_everything", "prompt", "read"]

_KINDS = ("tools", "resources", "templates", "prompts")
# Of each kind: the method that lists it, and the member of its result.
_LISTS = {
    "tools": ("tools/list", "tools"),
    "resources": ("resources/list", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates"),
    "prompts": ("prompts/list", "prompts"),
}
_SERVER = "(-- CMD... | --unix PATH | --tcp HOST:PORT | --config FILE [--server NAME])"


def list_everything(arguments: Sequence[str]) -> int:
    """``twopipes list``: what a server offers."""
    parser = _parser(
        "list",
        usage="[tools|resources|templates|prompts [NAME ...]]",
        description="Shows what a server offers: tools, resources, resource templates and prompts.",
        examples=[
            "twopipes list -- python server.py",
            "twopipes list tools add -- python server.py        all about one tool",
            "twopipes list --output json -- npx -y some-server  exactly as the server wrote it",
            "twopipes list --config .mcp.json --server files",
        ],
    )
    parser.add_argument(
        "kind", nargs="?", choices=_KINDS, metavar="KIND", help="tools, resources, templates or prompts; all without"
    )
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help="show everything about these tools or prompts")
    return _run(parser, arguments, _list_body)


def call(arguments: Sequence[str]) -> int:
    """``twopipes call``: calls a tool."""
    parser = _parser(
        "call",
        usage="TOOL [KEY=VALUE ...] [--json JSON]",
        description="Calls a tool and shows what it gives. Values are read by the tool's schema; see twopipes list tools TOOL.",
        examples=[
            "twopipes call add a=1 b=2 -- python server.py",
            "twopipes call search query='two words' tags=a tags=b -- python server.py",
            "twopipes call review code=@main.py options:='{\"strict\": true}' -- python server.py",
            "echo '{\"a\": 1}' | twopipes call add --json - -- python server.py",
        ],
        asks=True,
    )
    parser.add_argument("tool", metavar="TOOL", help="its name")
    parser.add_argument(
        "pairs",
        nargs="*",
        default=[],  # without it, argparse of Python 3.11 calls it required
        metavar="KEY=VALUE",
        help="an argument; KEY:=JSON takes JSON as it is, KEY=@FILE the text of a file, KEY:=@FILE its JSON. "
        "A KEY that is given several times is a list",
    )
    parser.add_argument("--json", metavar="JSON", help="all arguments as one JSON object; - reads it from standard input")
    parser.add_argument("--unchecked", action="store_true", help="send it without looking the tool and its arguments up before")
    return _run(parser, arguments, _call_body)


def read(arguments: Sequence[str]) -> int:
    """``twopipes read``: reads a resource."""
    parser = _parser(
        "read",
        usage="URI",
        description="Reads a resource. Its text is written as it is; its bytes, too, where stdout is no terminal.",
        examples=[
            "twopipes read note://first -- python server.py",
            "twopipes read image://pixel -- python server.py > pixel.png",
        ],
        asks=True,
    )
    parser.add_argument("uri", metavar="URI", help="its address; see twopipes list resources")
    return _run(parser, arguments, _read_body)


def prompt(arguments: Sequence[str]) -> int:
    """``twopipes prompt``: gets a prompt."""
    parser = _parser(
        "prompt",
        usage="NAME [KEY=VALUE ...]",
        description="Gets a prompt with its arguments filled in.",
        examples=["twopipes prompt review code=@main.py language=python -- python server.py"],
        asks=True,
    )
    parser.add_argument("name", metavar="NAME", help="its name; see twopipes list prompts")
    parser.add_argument("pairs", nargs="*", default=[], metavar="KEY=VALUE", help="an argument; KEY=@FILE takes the text of a file")
    return _run(parser, arguments, _prompt_body)


def _parser(name: str, *, usage: str, description: str, examples: Sequence[str], asks: bool = False) -> argparse.ArgumentParser:
    told = "".join(f"  {example}\n" for example in examples)
    parser = CommandParser(
        f"twopipes {name}",
        usage=f"twopipes {name} {usage} [options]\n         {_SERVER}",
        description=description,
        epilog=f"examples:\n{told}\n{EXIT_CODES}",
    )
    parser.add_argument("--output", choices=("text", "json"), default="text", help="json: nothing but JSON on stdout, for programs")
    hides = "progress, log messages, what the server says on stderr, and questions that --answer answers"
    if not asks:
        hides = "progress, log messages, and what the server says on stderr"
    parser.add_argument("--quiet", "-q", action="store_true", help=f"hide {hides}")
    if asks:
        parser.add_argument("--save", metavar="FOLDER", help="save pictures, sounds and other bytes there")
        parser.add_argument(
            "--log", metavar="LEVEL", choices=LOGGING_LEVELS, help=f"log messages from this level on: {', '.join(LOGGING_LEVELS)}"
        )
        asking = parser.add_argument_group(
            "what the server may ask back", "At a terminal, you are asked. Otherwise only what is given here is answered."
        )
        asking.add_argument("--answer", metavar="KEY=VALUE", action="append", default=[], help="the answer to a field of a form")
        asking.add_argument("--sample", metavar="TEXT", help="what to answer in the model's place; - asks you")
        asking.add_argument("--root", metavar="PATH", action="append", default=[], help="a folder that the server may look at")
    add_server_options(parser)
    return parser


def _run(parser: argparse.ArgumentParser, arguments: Sequence[str], body: Body) -> int:
    words, command = split_command(arguments)
    try:
        options = parser.parse_intermixed_args(words)
        if hasattr(options, "pairs"):
            options.pairs = [read_pair(word) for word in options.pairs]
        if hasattr(options, "json"):
            options.arguments = _json_arguments(options.json)
        name = getattr(options, "tool", None) or getattr(options, "uri", None) or getattr(options, "name", None) or ""
        return run_client_command(options, command, body, name=name)
    except UsageError as mistake:
        sys.stderr.write(f"Error: {visible(' '.join(str(mistake).split()))}\n")
        return 2
    except SystemExit as finished:  # of --help
        return int(finished.code or 0)
    except KeyboardInterrupt:  # before there was a server
        return INTERRUPTED
    except BrokenPipeError:
        # Who reads our output has had enough. Python would try once more at the end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


# list


class _Named(Struct):
    name: str


async def _list_body(conversation: Conversation) -> int:
    options = conversation.options
    if options.kind is None:
        return await _list_all(conversation)
    found = await _listed(conversation, options.kind)
    if options.names:
        _check_names(options, found)
    if conversation.wants_json:
        conversation.answer({_LISTS[options.kind][1]: _wire_items(conversation, options.kind)})
    elif options.names:
        for each in found:
            if each.name in options.names:
                if isinstance(each, Tool):
                    conversation.printer.tool(each)
                else:
                    conversation.printer.prompt(each)
    else:
        _show(conversation, {options.kind: found})
    return OK


async def _list_all(conversation: Conversation) -> int:
    """Shows every list that the server gives; one that fails hides none of the others."""
    found: dict[str, list[Any]] = {}
    failed: dict[str, TwopipesError] = {}
    for kind in _KINDS:
        try:
            found[kind] = await _listed(conversation, kind)
        except (McpError, RemoteProtocolError) as error:
            failed[kind] = error
        except TwopipesError as error:  # a server that does not respond, or is gone: the next list would fail as well
            failed[kind] = error
            break
    if conversation.wants_json:
        lists: dict[str, Any] = {_LISTS[kind][1]: _wire_items(conversation, kind) for kind in found}
        if failed:
            lists["errors"] = {_LISTS[kind][0]: _for_programs(error) for kind, error in failed.items()}
        conversation.answer(lists)
    else:
        _introduce(conversation)
        if found:
            _show(conversation, found)
    for kind, failure in failed.items():
        conversation.complain(failure, about=_LISTS[kind][0])
    return max((exit_code_for(failure, reached=True) for failure in failed.values()), default=OK)


def _for_programs(error: TwopipesError) -> dict[str, Any]:
    if not isinstance(error, McpError):
        return {"message": message_of(error)}
    return {"code": error.code, "message": error.message} | ({} if error.data is None else {"data": error.data})


def _show(conversation: Conversation, found: dict[str, list[Any]]) -> None:
    printer = conversation.printer
    show: dict[str, Callable[[Any], None]] = {
        "tools": printer.tools,
        "resources": printer.resources,
        "templates": printer.templates,
        "prompts": printer.prompts,
    }
    for kind, items in found.items():
        if items:
            show[kind](items)
    if not any(found.values()):
        printer.terminal.say(f"It offers no {' and no '.join(found)}.")


async def _listed(conversation: Conversation, kind: str) -> list[Any]:
    """All of a kind; nothing, where the server does not declare it."""
    client = conversation.client
    ask: dict[str, Callable[[], Awaitable[list[Any]]]] = {
        "tools": client.list_tools,
        "resources": client.list_resources,
        "templates": client.list_resource_templates,
        "prompts": client.list_prompts,
    }
    try:
        return await ask[kind]()
    except MethodNotFound:
        if kind != "templates":  # many have resources and have never heard of templates
            raise
        return []


def _wire_items(conversation: Conversation, kind: str) -> list[Any]:
    method, member = _LISTS[kind]
    names = conversation.options.names
    items = conversation.raw_results.items(method, member)
    return [item for item in items if not names or msgspec_json.decode(item, type=_Named).name in names]


def _check_names(options: argparse.Namespace, items: Sequence[Tool | Prompt]) -> None:
    if options.kind not in {"tools", "prompts"}:
        raise UsageError(f"names are for tools and prompts; all {options.kind} are listed without")
    for name in options.names:
        known = [item.name for item in items]
        if name not in known:
            raise UsageError(f"the server has no {options.kind.removesuffix('s')} {name!r}{did_you_mean(name, known)}")


def _introduce(conversation: Conversation) -> None:
    client, terminal = conversation.client, conversation.printer.terminal
    info = client.server_info
    name = f"{info.name} {info.version}" if info is not None else "A server without a name"
    title = f"  {info.title}" if info is not None and info.title and info.title != info.name else ""
    terminal.say((visible(name), "bold cyan"), visible(title), (f"  ({client.era}, {client.revision})", "dim"))
    for line in (client.instructions or "").strip().split("\n"):
        if line:
            terminal.say(visible(line))
    terminal.say()


# call


async def _call_body(conversation: Conversation) -> int:
    options, client = conversation.options, conversation.client
    arguments: dict[str, Any] = options.arguments
    if options.unchecked:
        arguments |= values_of(options.pairs, {}, of=options.tool)
    else:
        tool = await _the_tool(conversation)
        arguments |= values_of(options.pairs, tool.input_schema, of=options.tool)
        # What was written as JSON is sent as it is: the server is the judge of it.
        if options.json is None and (lacking := missing(arguments, tool.input_schema)):
            raise UsageError(_lacks(tool, lacking))
    await _set_log_level(conversation)
    result = await conversation.ask(client.call_tool, options.tool, arguments)
    if result.validation.verdict is False:  # TL-14
        conversation.reporter.say(
            ("Warning: ", "yellow"), visible(f"the structured result is not what the tool promises: {result.validation.why}")
        )
    if conversation.wants_json:
        conversation.answer(conversation.raw_results.last("tools/call"))
    elif result.is_error:
        conversation.reporter.say(("Error: ", "bold red"), "the tool failed")
        conversation.failed(result)
    else:
        conversation.printer.result(result)
    return REFUSED if result.is_error else OK


def _json_arguments(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    text = sys.stdin.read() if given == "-" else given
    try:
        found = json_value(text)
    except InvalidValue as misfit:
        raise UsageError(f"--json: {misfit}") from misfit
    if not isinstance(found, dict):
        raise UsageError("--json needs an object, such as '{\"key\": 1}'")
    return found


async def _the_tool(conversation: Conversation) -> Tool:
    name: str = conversation.options.tool
    tools: dict[str, Tool] = {tool.name: tool for tool in await _listed(conversation, "tools")}
    if name not in tools:
        has = f"; it has {', '.join(tools)}" if tools else "; it has none"
        raise UsageError(f"the server has no tool {name!r}{did_you_mean(name, tools) or has}")
    return tools[name]


def _lacks(tool: Tool, lacking: Sequence[str]) -> str:
    known = properties_of(tool.input_schema)
    wanted = [f"{name} ({describe(known.get(name, {}), tool.input_schema)})" for name in lacking]
    return f"{tool.name} also needs {', '.join(wanted)}; give {' '.join(f'{name}=VALUE' for name in lacking)}"


async def _set_log_level(conversation: Conversation) -> None:
    client, level = conversation.client, conversation.options.log
    if level is not None and not client.capabilities.allows("logging"):
        raise UsageError("--log: the server declares no log messages")
    # A modern server logs nothing unless a level is asked for (LG-03); a legacy one chooses its own.
    if level is None and client.era == "modern" and client.capabilities.allows("logging") and not conversation.options.quiet:
        level = "info"
    if level is not None:
        await client.set_log_level(level)


# read


async def _read_body(conversation: Conversation) -> int:
    await _set_log_level(conversation)
    result = await conversation.ask(conversation.client.read_resource, conversation.options.uri)
    if conversation.wants_json:
        conversation.answer(conversation.raw_results.last("resources/read"))
    elif not sys.stdout.isatty() and conversation.options.save is None:
        sys.stdout.buffer.write(bytes_of(result.contents))
    else:
        conversation.printer.contents(result.contents)
    return OK


# prompt


async def _prompt_body(conversation: Conversation) -> int:
    options, client = conversation.options, conversation.client
    known = await _the_prompt(conversation)
    names = [argument.name for argument in known.arguments or ()]
    for pair in options.pairs:
        if pair.key not in names:
            takes = f"; it takes {', '.join(names)}" if names else "; it takes none"
            raise UsageError(f"{known.name} has no argument {pair.key!r}{did_you_mean(pair.key, names) or takes}")
    arguments = {pair.key: _string(pair) for pair in options.pairs}
    if lacking := [argument.name for argument in known.arguments or () if argument.required and argument.name not in arguments]:
        raise UsageError(f"{known.name} also needs {', '.join(lacking)}; give {' '.join(f'{name}=VALUE' for name in lacking)}")
    await _set_log_level(conversation)
    result = await conversation.ask(client.get_prompt, known.name, arguments or None)
    if conversation.wants_json:
        conversation.answer(conversation.raw_results.last("prompts/get"))
    else:
        conversation.printer.messages(result.messages)
    return OK


def _string(pair: Pair) -> str:
    if pair.is_json:
        raise UsageError(f"argument {pair.key}: the arguments of a prompt are strings; write {pair.key}={pair.text}")  # PM-02
    return pair.text


async def _the_prompt(conversation: Conversation) -> Prompt:
    name: str = conversation.options.name
    prompts: dict[str, Prompt] = {each.name: each for each in await _listed(conversation, "prompts")}
    if name not in prompts:
        has = f"; it has {', '.join(prompts)}" if prompts else "; it has none"
        raise UsageError(f"the server has no prompt {name!r}{did_you_mean(name, prompts) or has}")
    return prompts[name]
