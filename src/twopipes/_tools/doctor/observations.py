"""Facts observed about a server. :mod:`.diagnose` interprets them. Field names are part of ``--output json``."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "Attempt",
    "Ending",
    "Exit",
    "Layer",
    "Listed",
    "Observations",
    "Outcome",
    "Place",
    "Process",
    "Purpose",
    "Reply",
    "Resolution",
    "Shebang",
    "StartFailure",
    "StrayKind",
    "StrayLine",
    "ToolFault",
]

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
    """One program of a command that starts the next: ``env``, ``sh -c``, ``npx``, ``uv run``, ``docker run``, an interpreter.

    Attributes:
        program: Its plain name.
        does: What it does, for people.
        runtime: The language that it runs, if any: ``python`` or ``node``.
        script: The file that it runs.
        package: The package that it fetches and runs.
        flags: Its options.
        verb: The subcommand of a container program: ``run``, ``exec``, ``compose exec``.
        inside: The existing container, service or pod in which it starts the server.
    """

    program: str
    does: str
    runtime: str | None = None
    script: str | None = None
    package: str | None = None
    flags: tuple[str, ...] = ()
    verb: str | None = None
    inside: str | None = None


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
    """The result of looking up the command.

    Attributes:
        argv: The words of the command.
        folder: The folder in which it starts.
        folder_exists: Whether that folder exists.
        searched: The folders of PATH, in order; empty for a name with a slash.
        found: The absolute path of the executable.
        unfit: A file of that name that cannot be executed.
        unfit_is_folder: Whether that file is a folder.
        links: The chain of symbolic links from the executable to the file.
        shebang: The shebang of that file, if it is a script.
        is_program: Whether the system can execute it: a binary, or a script that names its interpreter.
        layers: The programs of the command, each started by the one before.
        script_missing: A script that the command names and that does not exist.
        similar: Commands on PATH with a similar name.
        elsewhere: Files of that name that are not on PATH.
        beyond_host_path: Whether the executable is in a folder that desktop programs do not search.
        not_expanded: Words that a shell would have expanded.
    """

    argv: tuple[str, ...]
    folder: str
    folder_exists: bool = True
    searched: tuple[str, ...] = ()
    found: str | None = None
    unfit: str | None = None
    unfit_is_folder: bool = False
    links: tuple[str, ...] = ()
    shebang: Shebang | None = None
    is_program: bool = True
    layers: tuple[Layer, ...] = ()
    script_missing: str | None = None
    similar: tuple[str, ...] = ()
    elsewhere: tuple[Place, ...] = ()
    beyond_host_path: bool = False
    not_expanded: tuple[str, ...] = ()

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
    """A line on stdout that is not a message.

    Attributes:
        at: Seconds after the start.
        kind: What it is.
        text: Its beginning.
        detail: Why it is not a message.
        before_messages: Whether it came before the first message.
        while_ending: Whether it came after the server was asked to exit.
        source: The line of the server's script that seems to print it, as ``server.py:3: print(...)``.
    """

    at: float
    kind: StrayKind
    text: str
    detail: str = ""
    before_messages: bool = False
    while_ending: bool = False
    source: str | None = None


class Reply(Struct, frozen=True, kw_only=True):
    """What came back for one request.

    Attributes:
        method: The method of the request.
        took: Seconds until the response; ``None`` if there was none.
        code: The code of an error response.
        message: The message of that error, or what is wrong with the response.
        usable: Whether it is a valid result of the method.
        missing: Members that a result of the revision must have and that this one lacks.
    """

    method: str
    took: float | None = None
    code: int | None = None
    message: str = ""
    usable: bool = False
    missing: tuple[str, ...] = ()


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
    """How the server reacted when it was asked to exit.

    Attributes:
        asked_by: ``eof`` (its input was closed) or ``SIGTERM``.
        took: Seconds until the process exited; ``None`` if it did not.
        exit: How it exited in the end.
        ended_by: What made it exit in the end.
        left_behind: Processes that kept running after it exited, or outside its group. They were killed.
    """

    asked_by: Literal["eof", "SIGTERM"]
    took: float | None
    exit: Exit | None
    ended_by: str
    left_behind: tuple[Process, ...] = ()


class Attempt(Struct, frozen=True, kw_only=True):
    """One process of the server, from its start to its end.

    Attributes:
        purpose: Why it was started.
        revision: The revision that was requested.
        outcome: The outcome of the first request.
        chosen: The revision that it chose, or those that it named.
        failure: Why it could not be started.
        variables: Names of the environment variables that were added in an experiment.
        started_in: Seconds that the system took to start it.
        first_byte: Seconds from then to the first byte on stdout.
        first_stderr: Seconds from then to the first byte on stderr.
        answered: Seconds from then to the response to the first request.
        answers: What came back for each request, in order.
        name: The server's own name and version.
        listed: What it lists.
        strays: The first lines on stdout that are not messages.
        stray_count: The number of such lines.
        carriage_returns: Whether lines ended with CR LF.
        byte_order_mark: Whether the output began with one.
        echoes: Whether it sent a request back unchanged.
        held: The beginning of an unfinished line, if any, when the waiting was over.
        stderr: The last lines of stderr.
        exit: How it exited before it was asked to.
        lived: Seconds until then.
        processes: The processes of the server after it had responded.
        ending: How it reacted when it was asked to exit.
    """

    purpose: Purpose
    revision: str
    outcome: Outcome
    chosen: tuple[str, ...] = ()
    failure: StartFailure | None = None
    variables: tuple[str, ...] = ()
    started_in: float | None = None
    first_byte: float | None = None
    first_stderr: float | None = None
    answered: float | None = None
    answers: tuple[Reply, ...] = ()
    name: str | None = None
    listed: Listed | None = None
    strays: tuple[StrayLine, ...] = ()
    stray_count: int = 0
    carriage_returns: bool = False
    byte_order_mark: bool = False
    echoes: bool = False
    held: str | None = None
    stderr: tuple[str, ...] = ()
    exit: Exit | None = None
    lived: float | None = None
    processes: tuple[Process, ...] = ()
    ending: Ending | None = None

    @property
    def works(self) -> bool:
        """Whether the handshake, or the stateless opening, succeeded."""
        return self.outcome == "agreed"


class Observations(Struct, frozen=True, kw_only=True):
    """Everything that was observed.

    Attributes:
        resolution: How the command was found.
        attempts: What happened each time the server was started, in order.
        environment: The environment of the server: ``minimal``, ``inherit`` or ``explicit``.
        withheld: Names of our variables that it did not get.
        slow: Seconds after which a first response is slow.
        out_of_time: What was skipped because the time was over.
    """

    resolution: Resolution
    attempts: tuple[Attempt, ...] = ()
    environment: str = "minimal"
    withheld: tuple[str, ...] = ()
    slow: float = 5.0
    out_of_time: tuple[str, ...] = ()

    def of(self, purpose: Purpose) -> Attempt | None:
        """Return the last attempt with that purpose."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.purpose == purpose), None)
