"""What was seen of a server: facts alone. What they mean is said in :mod:`.judging`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "Answer",
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
    "Resolution",
    "Shebang",
    "StartFailure",
    "StrayKind",
    "StrayLine",
    "ToolFault",
]

Outcome = Literal["agreed", "refused", "strange revision", "unusable", "wrong id", "silent", "at eof", "gone", "not started"]
"""What became of the first request.

``agreed``: answered, in a revision that exists. ``refused``: answered by an error. ``strange revision``: answered, in a revision
that does not. ``unusable``: the answer is malformed. ``wrong id``: it carries another id. ``silent``: no answer in time.
``at eof``: the answer came when the server's input had ended. ``gone``: the server ended first.
"""

Purpose = Literal["handshake", "discover", "revision", "full environment", "variables", "unbuffered", "content-length"]
"""Why the server was started this time.

The first three are what hosts do. The others are experiments that prove what is wrong: with all of the user's environment, with
some variables of it, with Python told not to buffer, and with the framing of language servers.
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
"""What a line on stdout is that is not a message."""


class Layer(Struct, frozen=True, kw_only=True):
    """One program of a command that starts the next: ``env``, ``sh -c``, ``npx``, ``uv run``, ``docker run``, an interpreter.

    Attributes:
        program: Its plain name.
        does: What it does, for people.
        runtime: The language that it runs, if it does: ``python`` or ``node``.
        script: The file that it is given.
        package: What it fetches and runs.
        flags: The options that were given to it.
        verb: How a program for containers is told to start the server: ``run``, ``exec``, ``compose exec``.
        inside: Where it starts the server: a container, a service or a pod that is there already.
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
    """The first line of a script, and where the program that it names is; ``None`` where it is not."""

    line: str
    interpreter: str
    found: str | None


class Place(Struct, frozen=True):
    """A file that may be the one that was meant, and where it is in words: ``a virtual environment``."""

    path: str
    where: str


class Resolution(Struct, frozen=True, kw_only=True):
    """How the command was found, or was not.

    Attributes:
        argv: The words of the command.
        folder: In which it starts.
        folder_exists: Whether that is there.
        searched: The folders of PATH, in order; empty for a name with a slash.
        found: The absolute path of the executable.
        unfit: A file of that name that cannot be executed.
        unfit_is_folder: That is a folder.
        links: Where the executable leads to, from symbolic link to symbolic link.
        shebang: Of the last of them, if it is a script.
        is_program: Whether the system can execute it: a binary, or a script that names its interpreter.
        layers: The programs that start one another.
        script_missing: A script that the command names and that is not there.
        similar: Commands on PATH whose names are like it.
        elsewhere: Where a file of that name is, although not on PATH.
        beyond_host_path: The folder of PATH that has the executable is one that desktop programs do not search.
        not_expanded: Words that a shell would have changed, and no host does.
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
        """The language of the server, as far as the command tells."""
        return next((layer.runtime for layer in reversed(self.layers) if layer.runtime), None)

    @property
    def script(self) -> str | None:
        """The file that is run, as far as the command tells."""
        return next((layer.script for layer in reversed(self.layers) if layer.script), None)


class Exit(Struct, frozen=True):
    """How a process ended: by a code, or by the signal of that name; and in one phrase."""

    code: int | None
    signal: str | None
    text: str


class Process(Struct, frozen=True, kw_only=True):
    """A process of the server; ``peak`` is the most memory it held, in bytes."""

    pid: int
    command: str
    peak: int | None = None


class StartFailure(Struct, frozen=True):
    """Why no process came to be."""

    reason: str
    detail: str


class StrayLine(Struct, frozen=True, kw_only=True):
    """A line on stdout that is not a message.

    Attributes:
        at: Seconds after the start.
        kind: What it is.
        text: The beginning of it.
        detail: Why it is not a message.
        before_messages: No message had come before it.
        while_ending: It came after the server was asked to end.
        source: The line of the server's script that seems to print it, as ``server.py:3: print(...)``.
    """

    at: float
    kind: StrayKind
    text: str
    detail: str = ""
    before_messages: bool = False
    while_ending: bool = False
    source: str | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What came of one request.

    Attributes:
        method: What was asked.
        took: Seconds to its answer; ``None`` if there was none.
        code: Of the error that it was.
        message: Of that error, or what is wrong with the answer.
        usable: It is a result of that method.
        missing: Members that a result of the revision must have and that this one has not.
    """

    method: str
    took: float | None = None
    code: int | None = None
    message: str = ""
    usable: bool = False
    missing: tuple[str, ...] = ()


class ToolFault(Struct, frozen=True):
    """What is wrong with one tool of the list, and the rule that says so."""

    tool: str
    fault: str
    rule: str


class Listed(Struct, frozen=True, kw_only=True):
    """What the server offers; ``None`` for what it does not declare or did not tell."""

    tools: tuple[str, ...] | None = None
    resources: tuple[str, ...] | None = None
    templates: tuple[str, ...] | None = None
    prompts: tuple[str, ...] | None = None
    faults: tuple[ToolFault, ...] = ()


class Ending(Struct, frozen=True, kw_only=True):
    """How the server took it that it was asked to end.

    Attributes:
        asked_by: ``eof``: its input was closed; or ``SIGTERM``.
        took: Seconds until the process was gone; ``None`` if it did not go by that.
        exit: How it ended, in the end.
        ended_by: What it took in the end.
        left_behind: What lived on when the process itself was gone, or outside of its group. It was killed.
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
        revision: What it was asked to speak.
        outcome: What became of the first request.
        chosen: The revision that it chose, or those that it named.
        failure: Why it was not started.
        variables: Names of the environment variables that it got on top, in an experiment.
        started_in: Seconds that the system took to start it.
        first_byte: Seconds from then to the first byte on stdout.
        first_stderr: Seconds to the first on stderr.
        answered: Seconds to the answer to the first request.
        answers: What was asked, in order.
        name: The server's own, with its version.
        listed: What it offers.
        strays: The first lines on stdout that are no messages.
        stray_count: How many there were.
        carriage_returns: Lines ended with CR LF.
        byte_order_mark: The first line began with one.
        echoes: It sent a request back as it came.
        held: Bytes of a line without its newline, when nobody expected more.
        stderr: The last lines.
        exit: How it ended by itself, before it was asked to.
        lived: Seconds until then.
        processes: Those of the server, when it had answered.
        ending: How it took it that it was asked to end.
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
    answers: tuple[Answer, ...] = ()
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
        """Whether there was an agreement."""
        return self.outcome == "agreed"


class Observations(Struct, frozen=True, kw_only=True):
    """All that was seen.

    Attributes:
        resolution: How the command was found.
        attempts: What happened each time it was started, in order.
        environment: What the server got of our environment: ``minimal``, ``inherit``, ``explicit``.
        withheld: Names of our variables that it did not get.
        slow: Seconds after which a first answer is late.
        out_of_time: What was not looked at, because the time was over.
    """

    resolution: Resolution
    attempts: tuple[Attempt, ...] = ()
    environment: str = "minimal"
    withheld: tuple[str, ...] = ()
    slow: float = 5.0
    out_of_time: tuple[str, ...] = ()

    def of(self, purpose: Purpose) -> Attempt | None:
        """The last attempt with that purpose."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.purpose == purpose), None)
