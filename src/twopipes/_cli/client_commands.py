"""``twopipes list``, ``call``, ``read`` and ``prompt``: a client for the terminal."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec import json as msgspec_json

from twopipes._cli.arguments import InvalidValue, describe, did_you_mean, json_value, missing, properties_of, read_pair, values_of
from twopipes._cli.client_run import Body, Conversation, exit_code_for, run_client_command
from twopipes._cli.command_parser import CommandParser, add_format_option, discard_stdout
from twopipes._cli.display import ResultPrinter, bytes_of
from twopipes._cli.server_options import add_server_options, message_of
from twopipes._client.client import Client
from twopipes._protocol.types import LOGGING_LEVELS, Prompt, Tool
from twopipes._tools.exit_codes import FAILED, OK
from twopipes._tools.terminal import visible
from twopipes._tools.usage import UsageError
from twopipes.errors import McpError, MethodNotFound, RemoteProtocolError, TwopipesError


class _Kind(NamedTuple):
    method: str  # lists the items
    member: str  # of its result
    request: Callable[[Client], Awaitable[list[Any]]]
    show: Callable[[ResultPrinter, Any], None]


_LISTS = {
    "tools": _Kind("tools/list", "tools", Client.list_tools, ResultPrinter.tools),
    "resources": _Kind("resources/list", "resources", Client.list_resources, ResultPrinter.resources),
    "templates": _Kind("resources/templates/list", "resourceTemplates", Client.list_resource_templates, ResultPrinter.templates),
    "prompts": _Kind("prompts/list", "prompts", Client.list_prompts, ResultPrinter.prompts),
}


def list_everything(arguments: Sequence[str]) -> int:
    """Run ``twopipes list``: show what a server offers."""
    parser = _parser(
        "list",
        usage="[KIND [NAME ...]]",
        description="Shows the tools, resources, resource templates and prompts of a server.",
        examples=[
            "twopipes list -- python server.py",
            "twopipes list tools add -- python server.py    (details of one tool)",
            "twopipes list --format json -- npx -y some-server",
            "twopipes list --config .mcp.json --server files",
            "twopipes list https://example.com/mcp",
        ],
    )
    parser.add_argument(
        "kind", nargs="?", choices=_LISTS, metavar="KIND", help="tools, resources, templates or prompts (default: all)"
    )
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help="show the details of these tools or prompts")
    return _run(parser, arguments, _list_body)


def call(arguments: Sequence[str]) -> int:
    """Run ``twopipes call``: call a tool."""
    parser = _parser(
        "call",
        usage="TOOL [KEY=VALUE ...] [--json JSON]",
        description="Calls a tool and shows its result. Values are converted according to the schema\n"
        "of the tool; `twopipes list tools TOOL` shows it.",
        examples=[
            "twopipes call add a=1 b=2 -- python server.py",
            "twopipes call search query='two words' tags=a tags=b -- python server.py",
            "twopipes call review code=@main.py opts:='{\"x\": true}' -- python server.py",
            "echo '{\"a\": 1}' | twopipes call add --json - -- python server.py",
            "twopipes call add a=1 b=2 http://127.0.0.1:8000/mcp",
        ],
        input_options=True,
    )
    parser.add_argument("tool", metavar="TOOL", help="the name of the tool")
    parser.add_argument(
        "pairs",
        nargs="*",
        default=[],  # without it, argparse of Python 3.11 calls it required
        metavar="KEY=VALUE",
        help="an argument. KEY:=JSON passes JSON unchanged, KEY=@FILE the text of a file, KEY:=@FILE the JSON in it."
        " Repeat a KEY to pass a list",
    )
    parser.add_argument("--json", metavar="JSON", help="all arguments as one JSON object; - reads it from standard input")
    parser.add_argument("--unchecked", action="store_true", help="send the call without checking the tool and its arguments first")
    return _run(parser, arguments, _call_body)


def read(arguments: Sequence[str]) -> int:
    """Run ``twopipes read``: read a resource."""
    parser = _parser(
        "read",
        usage="URI",
        description="Reads a resource. Writes its text unchanged, and its bytes too if stdout is not\na terminal.",
        examples=["twopipes read note://first -- python server.py", "twopipes read image://pixel -- python server.py > pixel.png"],
        input_options=True,
    )
    parser.add_argument("uri", metavar="URI", help="the URI of the resource; see twopipes list resources")
    return _run(parser, arguments, _read_body)


def prompt(arguments: Sequence[str]) -> int:
    """Run ``twopipes prompt``: get a prompt."""
    parser = _parser(
        "prompt",
        usage="NAME [KEY=VALUE ...]",
        description="Gets a prompt with its arguments filled in.",
        examples=["twopipes prompt review code=@main.py language=python -- python server.py"],
        input_options=True,
    )
    parser.add_argument("name", metavar="NAME", help="the name of the prompt; see twopipes list prompts")
    parser.add_argument("pairs", nargs="*", default=[], metavar="KEY=VALUE", help="an argument; KEY=@FILE is the text of a file")
    return _run(parser, arguments, _prompt_body)


def _parser(name: str, *, usage: str, description: str, examples: Sequence[str], input_options: bool = False) -> CommandParser:
    parser = CommandParser(
        name,
        usage=f"twopipes {name} {usage} [options] -- CMD...\n"
        f"       twopipes {name} ... URL [--header 'NAME: VALUE'] [--bearer TOKEN]\n"
        f"       twopipes {name} ... --unix PATH | --tcp HOST:PORT\n"
        f"       twopipes {name} ... --config FILE [--server NAME]",
        description=description,
        examples=examples,
    )
    add_format_option(parser, help="json writes the objects exactly as the server sent them (default text)")
    hidden = "progress, log messages and the server's stderr" + (", and questions that --answer answers" if input_options else "")
    parser.add_argument("--quiet", "-q", action="store_true", help=f"hide {hidden}")
    if input_options:
        parser.add_argument("--save", metavar="FOLDER", help="save images, audio and other binary content in this folder")
        parser.add_argument(
            "--log", metavar="LEVEL", choices=LOGGING_LEVELS, help=f"the lowest level of log messages: {', '.join(LOGGING_LEVELS)}"
        )
        group = parser.add_argument_group(
            "questions from the server", "At a terminal, you are asked. Otherwise only these options answer."
        )
        group.add_argument("--answer", metavar="KEY=VALUE", action="append", default=[], help="the value of a form field")
        group.add_argument("--sample", metavar="TEXT", help="the response to a sampling request; - asks you")
        group.add_argument("--root", metavar="PATH", action="append", default=[], help="a folder that the server may access")
    add_server_options(parser)
    return parser


def _run(parser: CommandParser, arguments: Sequence[str], body: Body) -> int:
    words, command = parser.split_server(arguments)
    try:
        options = parser.parse_intermixed_args(words)
        if hasattr(options, "pairs"):
            options.pairs = [read_pair(word) for word in options.pairs]
        if hasattr(options, "json"):
            options.arguments = _json_arguments(options.json)
        name = getattr(options, "tool", None) or getattr(options, "uri", None) or getattr(options, "name", None) or ""
        return run_client_command(options, command, body, name=name)
    except BrokenPipeError:
        discard_stdout()
        return OK


class _Named(Struct):
    name: str


async def _list_body(conversation: Conversation) -> int:
    kind, names, printer = conversation.options.kind, conversation.options.names, conversation.printer
    if kind is None:
        return await _list_all(conversation)
    found = await _listed(conversation, kind)
    if names and kind not in {"tools", "prompts"}:
        raise UsageError(f"NAME is for tools and prompts; {kind} are listed without one")
    chosen = [_find(kind, name, found) for name in names]
    if conversation.wants_json:
        conversation.write_json({_LISTS[kind].member: _wire_items(conversation, kind)})
    elif names:
        for each in sorted(chosen, key=found.index):
            (printer.tool if isinstance(each, Tool) else printer.prompt)(each)
    else:
        _show(conversation, {kind: found})
    return OK


async def _list_all(conversation: Conversation) -> int:
    """Show every list that the server returns, even if another one fails."""
    found: dict[str, list[Any]] = {}
    failed: dict[str, TwopipesError] = {}
    for kind in _LISTS:
        try:
            found[kind] = await _listed(conversation, kind)
        except (McpError, RemoteProtocolError) as error:
            failed[kind] = error
        except TwopipesError as error:  # no response, or the server exited: the next list would fail as well
            failed[kind] = error
            break
    if conversation.wants_json:
        lists: dict[str, Any] = {_LISTS[kind].member: _wire_items(conversation, kind) for kind in found}
        if failed:
            lists["errors"] = {_LISTS[kind].method: _error_as_json(error) for kind, error in failed.items()}
        conversation.write_json(lists)
    else:
        _show_server(conversation)
        if found:
            _show(conversation, found)
    for kind, failure in failed.items():
        conversation.print_error(failure, about=_LISTS[kind].method)
    return max((exit_code_for(failure, connected=True) for failure in failed.values()), default=OK)


def _error_as_json(error: TwopipesError) -> dict[str, Any]:
    if not isinstance(error, McpError):
        return {"message": message_of(error)}
    return {"code": error.code, "message": error.message} | ({} if error.data is None else {"data": error.data})


def _show(conversation: Conversation, found: dict[str, list[Any]]) -> None:
    for kind, items in found.items():
        if items:
            _LISTS[kind].show(conversation.printer, items)
    if not any(found.values()):
        conversation.printer.terminal.say(f"The server offers no {' and no '.join(found)}.")


async def _listed(conversation: Conversation, kind: str) -> list[Any]:
    """Return all items of a kind; none if the server does not declare it."""
    try:
        return await _LISTS[kind].request(conversation.client)
    except MethodNotFound:
        if kind != "templates":  # many servers have resources and do not implement templates
            raise
        return []


def _wire_items(conversation: Conversation, kind: str) -> list[Any]:
    names = conversation.options.names
    items = conversation.raw_results.items(_LISTS[kind].method, _LISTS[kind].member)
    return [item for item in items if not names or msgspec_json.decode(item, type=_Named).name in names]


def _find(kind: str, name: str, items: Sequence[Any]) -> Any:
    known = {each.name: each for each in items}
    if name not in known:
        hint = did_you_mean(name, known) or (f"; known {kind}: {', '.join(known)}" if known else "; it has none")
        raise UsageError(f"the server has no {kind.removesuffix('s')} {name!r}{hint}")
    return known[name]


def _show_server(conversation: Conversation) -> None:
    client, terminal = conversation.client, conversation.printer.terminal
    info = client.server_info
    name = f"{info.name} {info.version}" if info is not None else "A server without a name"
    title = f"  {info.title}" if info is not None and info.title and info.title != info.name else ""
    terminal.say((visible(name), "bold cyan"), visible(title), (f"  ({client.era}, {client.revision})", "dim"))
    for line in (client.instructions or "").strip().split("\n"):
        if line:
            terminal.say(visible(line))
    terminal.say()


async def _call_body(conversation: Conversation) -> int:
    options, client = conversation.options, conversation.client
    arguments: dict[str, Any] = options.arguments
    if options.unchecked:
        arguments |= values_of(options.pairs, {}, of=options.tool)
    else:
        tool: Tool = _find("tools", options.tool, await _listed(conversation, "tools"))
        arguments |= values_of(options.pairs, tool.input_schema, of=options.tool)
        # JSON is sent unchanged: the server decides whether it is valid.
        if options.json is None and (lacking := missing(arguments, tool.input_schema)):
            known = properties_of(tool.input_schema)
            raise _also_needs(tool.name, {name: f" ({describe(known.get(name, {}), tool.input_schema)})" for name in lacking})
    await _set_log_level(conversation)
    result = await conversation.request(client.call_tool, options.tool, arguments)
    if result.validation.verdict is False:  # TL-14
        why = visible(f"the structured result does not match the tool's output schema: {result.validation.why}")
        conversation.reporter.say(("Warning: ", "yellow"), why)
    if conversation.wants_json:
        conversation.write_json(conversation.raw_results.last("tools/call"))
    elif result.is_error:
        conversation.reporter.say(("Error: ", "bold red"), "the tool failed")
        conversation.print_failure(result)
    else:
        conversation.printer.result(result)
    return FAILED if result.is_error else OK


def _json_arguments(given: str | None) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        found = json_value(sys.stdin.read() if given == "-" else given)
    except InvalidValue as error:
        raise UsageError(f"--json: {error}") from error
    if not isinstance(found, dict):
        raise UsageError("--json needs an object, such as '{\"key\": 1}'")
    return found


def _also_needs(of: str, lacking: dict[str, str]) -> UsageError:
    names = ", ".join(name + note for name, note in lacking.items())
    return UsageError(f"{of} also needs {names}; add {' '.join(f'{name}=VALUE' for name in lacking)}")


async def _set_log_level(conversation: Conversation) -> None:
    client, level = conversation.client, conversation.options.log
    has_logging = client.capabilities.allows("logging")
    if level is not None and not has_logging:
        raise UsageError("--log: the server does not declare the logging capability")
    # A modern server sends no log messages unless a level is requested (LG-03); a legacy one has a default.
    if level is None and client.era == "modern" and has_logging and not conversation.options.quiet:
        level = "info"
    if level is not None:
        await client.set_log_level(level)


async def _read_body(conversation: Conversation) -> int:
    await _set_log_level(conversation)
    result = await conversation.request(conversation.client.read_resource, conversation.options.uri)
    if conversation.wants_json:
        conversation.write_json(conversation.raw_results.last("resources/read"))
    elif not sys.stdout.isatty() and conversation.options.save is None:
        sys.stdout.buffer.write(bytes_of(result.contents))
    else:
        conversation.printer.contents(result.contents)
    return OK


async def _prompt_body(conversation: Conversation) -> int:
    pairs, client = conversation.options.pairs, conversation.client
    prompt: Prompt = _find("prompts", conversation.options.name, await _listed(conversation, "prompts"))
    known = prompt.arguments or ()
    schema = {"properties": {each.name: {"type": "string"} for each in known}, "additionalProperties": False}
    for key, text, is_json in pairs:
        if is_json:  # PM-02
            raise UsageError(f"argument {key}: arguments of a prompt are strings; write {key}={text}")
    arguments = values_of(pairs, schema, of=prompt.name)
    if lacking := [each.name for each in known if each.required and each.name not in arguments]:
        raise _also_needs(prompt.name, dict.fromkeys(lacking, ""))
    await _set_log_level(conversation)
    result = await conversation.request(client.get_prompt, prompt.name, arguments or None)
    if conversation.wants_json:
        conversation.write_json(conversation.raw_results.last("prompts/get"))
    else:
        conversation.printer.messages(result.messages)
    return OK
