"""``twopipes pack``: make a bundle of a server that a host installs with one click, and that needs no pip."""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from twopipes._cli import command_parser as parsing
from twopipes._tools.exit_codes import OK
from twopipes._tools.pack import links, registry
from twopipes._tools.pack.bundle import files_of, try_server, unpack_into, write_archive
from twopipes._tools.pack.manifest import check_variables, manifest_of
from twopipes._tools.pack.source import PackSource, UserOption, read_source
from twopipes._tools.pack.wheels import PYTHONS, SYSTEMS, Wheels, builds, download, own_requirements
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError

_USAGE = "twopipes pack [SOURCE] [options] [-- ARGUMENT ...]"
_DESCRIPTION = """\
Makes a bundle (.mcpb) of a Python server, which a host installs with one click.
It contains every package for Linux, macOS and Windows: the user needs Python,
but no pip, and nothing is downloaded.

SOURCE is a Python file, or the folder of a project with a pyproject.toml, whose
table [tool.twopipes.pack] can contain the same settings. By default it is the
current folder. Words after -- are given to the server when it starts;
${user_config.NAME} is replaced by what the user answers to --ask NAME.

pip downloads the packages. The packed server is started once, to see that it
works and to list its tools.
"""
_EXAMPLES = [
    "twopipes pack",
    "twopipes pack server.py --with httpx -o weather.mcpb",
    "twopipes pack files.py --ask folder:directory -- '${user_config.folder}'",
    "twopipes pack --server-json             (and server.json for the MCP registry)",
    "twopipes pack --links                   (links that add it to editors)",
]
_KINDS = ("string", "number", "boolean", "directory", "file", "secret")


def pack(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = _parser()
    words, rest = parsing.split_command(arguments)
    options = parser.parse_args(words)
    source = _with_options(read_source(Path(options.source).expanduser()), options, rest)
    check_variables(source.settings.arguments, source.settings.env, source.settings.user_config)
    if options.links:
        return _show_links(source)
    terminal = Terminal()
    wanted = builds(options.python or PYTHONS, options.system or list(SYSTEMS))
    with tempfile.TemporaryDirectory(prefix="twopipes-pack-") as name:
        folder = Path(name)
        requirements = own_requirements(source.requirements)
        wheels = download(requirements, wanted, folder / "wheels", must_have_all=bool(options.system), on_progress=_progress)
        _progress("")
        files = files_of(source, wheels)
        unpack_into(folder / "unpacked", files)
        learned = None if options.no_start else try_server(source, folder / "unpacked")
    usable = [build for build in wanted if build.name not in wheels.left_out]
    manifest = manifest_of(source, usable, learned)
    file = Path(options.output or f"{source.name}-{manifest['version']}.mcpb").expanduser()
    write_archive(file, manifest, files)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    _show(terminal, file, manifest, wheels, digest)
    if options.server_json is not None:
        _write_server_json(terminal, Path(options.server_json), registry.server_json(source, manifest, digest))
    terminal.flush()
    return OK


def _parser() -> parsing.CommandParser:
    parser = parsing.CommandParser("pack", usage=_USAGE, description=_DESCRIPTION, examples=_EXAMPLES)
    parser.add_argument("source", metavar="SOURCE", nargs="?", default=".", help="a Python file, or a folder with a pyproject.toml")
    parser.add_argument("-o", "--output", metavar="FILE", help="the bundle to write (default: NAME-VERSION.mcpb)")
    what = parser.add_argument_group("what it contains")
    parsing.add_list_option(what, "--with", "REQUIREMENT", "also pack this package, as pip names it; may be repeated")
    parsing.add_list_option(what, "--include", "PATH", "also pack this file or folder, relative to SOURCE; may be repeated")
    what.add_argument("--python", action="append", choices=PYTHONS, help="for this Python only; may be repeated")
    text = f"for this system only, which must then have wheels of everything; may be repeated: {', '.join(SYSTEMS)}"
    what.add_argument("--system", metavar="SYSTEM", action="append", choices=list(SYSTEMS), help=text)
    shown = parser.add_argument_group("what hosts show and ask")
    shown.add_argument("--name", help="the name of the server (default: from SOURCE)")
    shown.add_argument("--version", help="its version (default: from SOURCE, or what the server reports)")
    shown.add_argument("--description", metavar="TEXT", help="what it does, in one sentence")
    shown.add_argument("--author", metavar="NAME", help="who made it")
    text = f"ask the user for a value; TYPE is one of {', '.join(_KINDS)}; may be repeated"
    parsing.add_list_option(shown, "--ask", "NAME:TYPE[:TITLE]", text)
    parsing.add_list_option(shown, "--env", "NAME=VALUE", "set a variable for the server, such as TOKEN='${user_config.token}'")
    where = parser.add_argument_group("registries and editors")
    text = "write what the MCP registry needs into this file (default: server.json)"
    where.add_argument("--server-json", metavar="FILE", nargs="?", const="server.json", help=text)
    where.add_argument("--registry-name", metavar="NAME", help="the name in the registry, such as io.github.ada/weather")
    where.add_argument("--bundle-url", metavar="URL", help="where the bundle is published; {version} is filled in")
    where.add_argument("--links", action="store_true", help="only show links that add the server to Cursor and VS Code")
    parser.add_argument("--no-start", action="store_true", help="do not start the packed server")
    return parser


def _with_options(source: PackSource, options: Namespace, rest: Sequence[str] | None) -> PackSource:
    """Return the source with what the command line adds to it."""
    settings = source.settings
    asked = dict(settings.user_config)
    for text in options.ask:
        name, option = _asked(text)
        asked[name] = option
    settings = structs.replace(
        settings,
        arguments=settings.arguments if rest is None else rest,
        env={**settings.env, **dict(_variable(text) for text in options.env)},
        user_config=asked,
        include=(*settings.include, *options.include),
        registry_name=options.registry_name or settings.registry_name,
        bundle_url=options.bundle_url or settings.bundle_url,
    )
    return structs.replace(
        source,
        name=options.name or source.name,
        version=options.version or source.version,
        description=options.description or source.description,
        author={"name": options.author} if options.author else source.author,
        requirements=(*source.requirements, *getattr(options, "with")),
        settings=settings,
    )


def _asked(text: str) -> tuple[str, UserOption]:
    name, _, rest = text.partition(":")
    kind, _, title = rest.partition(":")
    if not name.isidentifier() or kind not in _KINDS:
        raise UsageError(f"--ask {text}: write NAME:TYPE, such as folder:directory; types: {', '.join(_KINDS)}")
    title = title or name.replace("_", " ").capitalize()
    is_secret = kind == "secret"
    values = {"type": "string" if is_secret else kind, "title": title, "description": title, "required": True}
    return name, msgspec.convert({**values, **({"sensitive": True} if is_secret else {})}, UserOption)


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"--env {text}: write NAME=VALUE")
    return name, value


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{visible(text)}")
        sys.stderr.flush()


def _show_links(source: PackSource) -> int:
    if not source.is_project:
        raise UsageError("links need a package that others can install; pack the folder of a project")
    terminal = Terminal()
    terminal.say(links.markdown(source.name, links.entry_of(["uvx", source.name, *source.settings.arguments], source.settings.env)))
    terminal.flush()
    return OK


def _show(terminal: Terminal, file: Path, manifest: dict[str, Any], wheels: Wheels, digest: str) -> None:
    size = file.stat().st_size / 1024 / 1024
    terminal.say(("Packed ", "bold green"), (f"{manifest['name']} {manifest['version']}", "bold"), f" in {visible(str(file))}")
    terminal.say(f"  size      {size:.1f} MB")
    terminal.say(f"  sha256    {digest}")
    tools = [tool["name"] for tool in manifest.get("tools", ())]
    if tools:
        terminal.say(f"  tools     {visible(', '.join(tools))}")
    systems = ", ".join(manifest["compatibility"]["platforms"])
    terminal.say(f"  systems   {systems}; builds of Python: {len(wheels.native) or 'all'}")
    for name, why in wheels.left_out.items():
        terminal.say(f"  left out  {name}: {visible(why)}")
    for text in wheels.conditional:
        terminal.say(f"  left out  {visible(text)}; add it with --with if those systems matter")
    if manifest["author"] == {"name": "unknown"}:
        terminal.say("  author    unknown; --author sets it")


def _write_server_json(terminal: Terminal, file: Path, content: dict[str, Any]) -> None:
    try:
        file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}") from error
    terminal.say(f"Wrote {visible(str(file))}; `mcp-publisher publish` sends it to the registry.")
