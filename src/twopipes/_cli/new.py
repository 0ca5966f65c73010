"""``twopipes new``: create a project with a server and its tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twopipes._cli.command_parser import CommandParser
from twopipes._tools.exit_codes import OK
from twopipes._tools.scaffold.project import Project, check_owner, files_of, package_of, write_project
from twopipes._tools.terminal import Terminal, visible
from twopipes._tools.usage import UsageError

_DESCRIPTION = """\
Creates a project: a server with two tools, a resource and a prompt, tests that
pass, a pyproject.toml, a README, a Dockerfile and a .gitignore.

NAME is the name of the project and of its command: letters, digits, - and _.
The Python package has the same name, with _ for -. No existing file is
overwritten.
"""
_EXAMPLES = [
    "twopipes new weather                    (in the new folder weather)",
    "twopipes new weather ~/code/weather     (in that folder)",
    "twopipes new weather --here             (in the current folder)",
    "twopipes new forecast --owner ada       (for the MCP registry)",
]


def new(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = CommandParser(
        "new", usage="twopipes new NAME [PATH | --here] [--owner ACCOUNT]", description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("name", metavar="NAME", help="the name of the project")
    parser.add_argument("path", metavar="PATH", nargs="?", help="the folder of the project (default: a new one called NAME)")
    parser.add_argument("--here", action="store_true", help="use the current folder")
    text = "your account on GitHub, which is part of the name in the MCP registry"
    parser.add_argument("--owner", metavar="ACCOUNT", default="OWNER", help=text)
    options = parser.parse_args(list(arguments))
    if options.here and options.path is not None:
        raise UsageError("PATH and --here exclude each other; give one of them")
    folder = Path() if options.here else Path(options.path or options.name).expanduser()
    project = Project(options.name, package_of(options.name), folder, check_owner(options.owner))
    files = files_of(project)
    write_project(project, files, needs_new_folder=not options.here and options.path is None)
    _show_next_steps(project, files)
    return OK


def _show_next_steps(project: Project, files: dict[str, str]) -> None:
    terminal = Terminal()
    terminal.say(("Created ", "bold green"), (project.name, "bold"), f" in {visible(str(project.folder.resolve()))}")
    for path in files:
        terminal.say(f"  {path}")
    terminal.say()
    terminal.say("Next steps:")
    steps = [] if project.folder == Path() else [f"cd {visible(str(project.folder))}"]
    steps += [
        "pip install -e . pytest  # in a virtual environment",
        "pytest",
        f"twopipes call add a=2 b=3 -- {project.name}",
        f"twopipes install claude-code -- {project.name}  # or another host; see twopipes install --list",
    ]
    for step in steps:
        terminal.say(f"  {step}")
    terminal.flush()
