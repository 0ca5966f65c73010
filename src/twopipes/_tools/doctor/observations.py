"""Facts observed about a server. :mod:`.diagnose` interprets them. Field names are part of ``--format json``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Outcome = Literal["agreed", "refused", "strange revision", "unusable", "wrong id", "silent", "at eof", "gone", "not started"]
"""The outcome of the first request.

``agreed``: a result with a known revision. ``refused``: an error. ``strange revision``: a result with an unknown revision.
``unusable``: a malformed response. ``wrong id``: a response with another id. ``silent``: no response in time. ``at eof``: the
response came after the server's input had ended. ``gone``: the server exited first.
"""

Purpose = Literal["handshake", "discover", "revision", "full environment", "variables", "unbuffered", "content-length"]
"""Why the server was started this time.

Hosts do the first three. The others are experiments that prove a cause: with the whole environment of the user, with some of its
variables, with PYTHONUNBUFFERED=1, and with the framing of language servers.
"""

StrayKind = Literal[
    "text",
    "log",
    "installer",
    "traceback",
    "terminal codes",
    "content-length",
    "pretty-printed",
    "not UTF-8",
    "too long",
    "other JSON",
    "malformed message",
]
"""The kind of a line on stdout that is not a message."""


class Layer(Struct, frozen=True, kw_only=True):
    """One program of a command that starts the next: ``env``, ``sh -c``, ``npx``, ``uv run``, ``docker run``, an interpreter."""

    program: str  # its plain name
    does: str  # what it does, for people
    runtime: str | None = None  # the language that it runs, if any: `python` or `node`
    script: str | None = None  # the file that it runs
    package: str | None = None  # the package that it fetches and runs
    flags: tuple[str, ...] = ()  # its options
    verb: str | None = None  # the subcommand of a container program: `run`, `exec`, `compose exec`
    inside: str | None = None  # the existing container, service or pod in which it starts the server


class Shebang(Struct, frozen=True, kw_only=True):
    """The first line of a script, and the path of the interpreter that it names; ``None`` if there is no such program."""

    line: str
    interpreter: str
    found: str | None


class Place(Struct, frozen=True):
    """A file that may be the intended one, and a description of its folder: ``a virtual environment``."""

    path: str
    where: str


class Resolution(Struct, frozen=True, kw_only=True):
    """The result of looking up the command."""

    argv: tuple[str, ...]  # the words of the command
    folder: str  # the folder in which it starts
    folder_exists: bool = True  # whether that folder exists
    searched: tuple[str, ...] = ()  # the folders of PATH, in order; empty for a name with a slash
    found: str | None = None  # the absolute path of the executable
    unfit: str | None = None  # a file of that name that cannot be executed
    unfit_is_folder: bool = False  # whether that file is a folder
    links: tuple[str, ...] = ()  # the chain of symbolic links from the executable to the file
    shebang: Shebang | None = None  # the shebang of that file, if it is a script
    is_program: bool = True  # whether the system can execute it: a binary, or a script that names its interpreter
    layers: tuple[Layer, ...] = ()  # the programs of the command, each started by the one before
    script_missing: str | None = None  # a script that the command names and that does not exist
    similar: tuple[str, ...] = ()  # commands on PATH with a similar name
    elsewhere: tuple[Place, ...] = ()  # files of that name that are not on PATH
    beyond_host_path: bool = False  # whether the executable is in a folder that desktop programs do not search
    not_expanded: tuple[str, ...] = ()  # words that a shell would have expanded

    @property
    def runtime(self) -> str | None:
        """The language of the server, if the command shows it."""
        return next((layer.runtime for layer in reversed(self.layers) if layer.runtime), None)

    @property
    def script(self) -> str | None:
        """The script that is run, if the command shows it."""
        return next((layer.script for layer in reversed(self.layers) if layer.script), None)


class Exit(Struct, frozen=True):
    """How a process exited: its code, or the name of the signal; and a phrase for people."""

    code: int | None
    signal: str | None
    text: str


class Process(Struct, frozen=True, kw_only=True):
    """A process of the server; ``peak`` is its peak memory in bytes."""

    pid: int
    command: str
    peak: int | None = None


class StartFailure(Struct, frozen=True):
    """Why the process could not be started."""

    reason: str
    detail: str


class StrayLine(Struct, frozen=True, kw_only=True):
    """A line on stdout that is not a message."""

    at: float  # seconds after the start
    kind: StrayKind  # what it is
    text: str  # its beginning
    detail: str = ""  # why it is not a message
    before_messages: bool = False  # whether it came before the first message
    while_ending: bool = False  # whether it came after the server was asked to exit
    source: str | None = None  # the line of the server's script that seems to print it, as `server.py:3: print(...)`


class Reply(Struct, frozen=True, kw_only=True):
    """What came back for one request."""

    method: str  # the method of the request
    took: float | None = None  # seconds until the response; `None` if there was none
    code: int | None = None  # the code of an error response
    message: str = ""  # the message of that error, or what is wrong with the response
    usable: bool = False  # whether it is a valid result of the method
    missing: tuple[str, ...] = ()  # members that a result of the revision must have and that this one lacks


class ToolFault(Struct, frozen=True):
    """A fault of one listed tool, and the rule it breaks."""

    tool: str
    fault: str
    rule: str


class Listed(Struct, frozen=True, kw_only=True):
    """What the server lists; ``None`` for a list that it does not declare or that failed."""

    tools: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    templates: tuple[str, ...] | None = None
    prompts: tuple[str, ...] | None = None
    faults: tuple[ToolFault, ...] = ()


class Ending(Struct, frozen=True, kw_only=True):
    """How the server reacted when it was asked to exit."""

    asked_by: Literal["eof", "SIGTERM"]  # `eof` (its input was closed) or `SIGTERM`
    took: float | None  # seconds until the process exited; `None` if it did not
    exit: Exit | None  # how it exited in the end
    ended_by: str  # what made it exit in the end
    left_behind: tuple[Process, ...] = ()  # processes that kept running after it exited, or outside its group. They were killed


class Attempt(Struct, frozen=True, kw_only=True):
    """One process of the server, from its start to its end."""

    purpose: Purpose  # why it was started
    revision: str  # the revision that was requested
    outcome: Outcome  # the outcome of the first request
    chosen: tuple[str, ...] = ()  # the revision that it chose, or those that it named
    failure: StartFailure | None = None  # why it could not be started
    variables: tuple[str, ...] = ()  # names of the environment variables that were added in an experiment
    started_in: float | None = None  # seconds that the system took to start it
    first_byte: float | None = None  # seconds from then to the first byte on stdout
    first_stderr: float | None = None  # seconds from then to the first byte on stderr
    answered: float | None = None  # seconds from then to the response to the first request
    answers: tuple[Reply, ...] = ()  # what came back for each request, in order
    name: str | None = None  # the server's own name and version
    listed: Listed | None = None  # what it lists
    strays: tuple[StrayLine, ...] = ()  # the first lines on stdout that are not messages
    stray_count: int = 0  # the number of such lines
    carriage_returns: bool = False  # whether messages ended with CR LF
    byte_order_mark: bool = False  # whether the output began with one
    echoes: bool = False  # whether it sent a request back unchanged
    held: str | None = None  # the beginning of an unfinished line, if any, when the waiting was over
    stderr: tuple[str, ...] = ()  # the last lines of stderr
    exit: Exit | None = None  # how it exited before it was asked to
    lived: float | None = None  # seconds until then
    processes: tuple[Process, ...] = ()  # the processes of the server after it had responded
    ending: Ending | None = None  # how it reacted when it was asked to exit

    @property
    def output(self) -> list[str]:
        """The lines that it wrote, besides messages."""
        return [*(stray.text for stray in self.strays), *self.stderr]

    @property
    def works(self) -> bool:
        """Whether the handshake, or the stateless opening, succeeded."""
        return self.outcome == "agreed"


class Observations(Struct, frozen=True, kw_only=True):
    """Everything that was observed."""

    resolution: Resolution  # how the command was found
    attempts: tuple[Attempt, ...] = ()  # what happened each time the server was started, in order
    environment: str = "minimal"  # the environment of the server: `minimal`, `inherit` or `explicit`
    withheld: tuple[str, ...] = ()  # names of our variables that it did not get
    slow: float = 5.0  # seconds after which a first response is slow
    out_of_time: tuple[str, ...] = ()  # what was skipped because the time was over

    def of(self, purpose: Purpose) -> Attempt | None:
        """Return the last attempt with that purpose."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.purpose == purpose), None)
