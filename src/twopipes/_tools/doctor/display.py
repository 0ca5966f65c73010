"""The doctor's output on a terminal: the steps as they happen, then the diagnoses."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

from msgspec import Struct

from twopipes._protocol.revisions import LATEST_LEGACY
from twopipes._tools.doctor.clues import relevant_lines
from twopipes._tools.doctor.codes import Diagnosis
from twopipes._tools.doctor.observations import Attempt, Listed, Purpose, Reply, Resolution
from twopipes._tools.terminal import Styled, Terminal, visible

Mark = Literal["good", "bad", "warning", "plain"]

_MARKS: Final[dict[Mark, tuple[str, str, str]]] = {
    "good": ("✓", "ok", "green"),
    "bad": ("✗", "!!", "bold red"),
    "warning": ("!", " !", "yellow"),
    "plain": ("·", " -", "dim"),
}
_SEVERITIES: Final[dict[str, Mark]] = {"error": "bad", "warning": "warning", "note": "plain"}
_LABEL: Final = 14
_SHOWN_LINES: Final = 4
_SHOWN_NAMES: Final = 8
_MAX_QUOTE: Final = 240
_MEGABYTE: Final = 1_000_000
_ASKED_BY: Final = {"eof": "the end of input", "SIGTERM": "SIGTERM"}
# A narrower column cannot hold a sentence.
_MIN_WIDTH: Final = 40
_MAX_WIDTH: Final = 110


class Step(Struct, frozen=True):
    """One line of the progress."""

    mark: Mark  # whether it is good or bad
    label: str  # the subject; empty for a continuation of the step before
    text: str  # what was observed
    lines: tuple[str, ...] = ()  # output of the server to quote below it
    only_if_new: bool = False  # omit it if all of these lines were quoted before


def steps_of_resolution(resolution: Resolution) -> Iterator[Step]:
    """Yield how the command was found."""
    name = resolution.argv[0]
    if resolution.found is None:
        where = f"not in the {len(resolution.searched)} folders of its PATH" if resolution.searched else "file does not exist"
        yield Step("bad", "command", f"{resolution.unfit} may not be executed" if resolution.unfit else f"{name}: {where}")
    else:
        text = resolution.found
        if resolution.searched:
            folder = resolution.found.rpartition("/")[0]
            place = resolution.searched.index(folder) + 1 if folder in resolution.searched else 0
            text = f"{name} is {text}" + (f", in folder {place} of {len(resolution.searched)} of its PATH" if place else "")
        yield Step("good" if resolution.is_program else "warning", "command", text)
        if resolution.links:
            yield Step("plain", "", "a link to " + ", to ".join(resolution.links))
        if resolution.shebang is not None:
            found = resolution.shebang.found
            text = f"a script: {resolution.shebang.line}" + ("" if found is None else f" ({found})")
            yield Step(
                "plain" if found else "bad", "", text if found else f"{text}, but {resolution.shebang.interpreter} does not exist"
            )
    for layer in resolution.layers if resolution.found is not None else ():
        # Omit the file that was already shown, and what the command itself shows.
        if layer.script is not None and layer.script in {resolution.found, *resolution.links}:
            continue
        if layer.does.startswith("the server itself"):
            continue
        yield Step("plain", "", f"{layer.program}: {layer.does}")
    if not resolution.folder_exists:
        yield Step("bad", "folder", f"{resolution.folder} does not exist")
    elif resolution.script_missing:
        yield Step("bad", "script", f"{resolution.script_missing} does not exist")


def steps_of_attempt(attempt: Attempt) -> Iterator[Step]:
    """Yield what one process did."""
    if attempt.failure is not None:
        yield Step("bad", "start", f"{attempt.failure.reason}: {attempt.failure.detail}".removesuffix(": "))
        return
    match attempt.purpose:
        case "handshake":
            yield from _start_steps(attempt)
            yield opening_step(attempt, "handshake")
            yield from list_steps(attempt)
            yield from _stderr(attempt)
            yield from _ending_steps(attempt)
            yield from _memory(attempt)
        case "discover":
            yield opening_step(attempt, "stateless")
            yield from _ending_steps(attempt)
            yield from _noise(attempt, only_if_new=True)
        case "revision":
            yield opening_step(attempt, "older")
            yield from _noise(attempt, only_if_new=True)
        case _:
            yield _experiment(attempt)


def _start_steps(attempt: Attempt) -> Iterator[Step]:
    text = "no byte on stdout" if attempt.first_byte is None else f"first byte on stdout after {seconds_text(attempt.first_byte)}"
    if attempt.first_stderr is not None:
        text += f", on stderr after {seconds_text(attempt.first_stderr)}"
    started = "started" if attempt.started_in is None else f"started in {seconds_text(attempt.started_in)}"
    yield Step("plain" if attempt.first_byte is None else "good", "start", f"{started}; {text}")
    yield from _noise(attempt)
    if not attempt.stray_count and attempt.first_byte is not None:
        yield Step("good", "stdout", "only messages")


def _noise(attempt: Attempt, *, only_if_new: bool = False) -> Iterator[Step]:
    if not attempt.stray_count:
        return
    number = "1 line is not a message" if attempt.stray_count == 1 else f"{attempt.stray_count} lines are not messages"
    late = all(stray.while_ending and not stray.before_messages for stray in attempt.strays)
    if late and attempt.ending is not None:
        number += ", written after " + _ASKED_BY[attempt.ending.asked_by]
    lines = tuple(dict.fromkeys(stray.text for stray in attempt.strays[:_SHOWN_LINES]))
    yield Step("warning" if late else "bad", "stdout", f"{number}:", lines, only_if_new)


def opening_step(attempt: Attempt, label: str) -> Step:
    """Return what came back for the first request."""
    asked = attempt.revision
    reply = attempt.answers[0] if attempt.answers else None
    when = "" if attempt.answered is None else f" after {seconds_text(attempt.answered)}"
    match attempt.outcome:
        case "agreed":
            chosen = attempt.chosen[0] if attempt.chosen else asked
            if chosen != asked and label != "stateless":
                return Step("plain", label, f"{asked}: not supported, {chosen} offered{when}")
            who = f" by {attempt.name}" if attempt.name and label == "handshake" else ""
            method = reply.method if reply is not None else "it"
            return Step("good", label, f"{asked}: {method} answered{when}{who}")
        case "refused":
            said = f"{reply.message} ({reply.code})" if reply is not None and reply.code is not None else "it names other versions"
            return Step("plain" if label == "stateless" else "bad", label, f"{asked}: refused{when}: {said}")
        case "strange revision":
            return Step("bad", label, f"asked for {asked}, it chose {attempt.chosen[0]!r}")
        case "unusable" | "wrong id":
            return Step("bad", label, f"{asked}: the response{when} cannot be used: {reply.message if reply else ''}")
        case "at eof":
            return Step("bad", label, f"{asked}: the response came only after the end of input")
        case "gone":
            how = attempt.exit.text if attempt.exit is not None else "its output ended"
            lived = "" if attempt.lived is None else f" after {seconds_text(attempt.lived)}"
            return Step("warning" if label == "stateless" else "bad", label, f"{asked}: it exited without a response{lived}: {how}")
        case _:
            return Step("warning" if label == "stateless" else "bad", label, f"{asked}: no response")


def list_steps(attempt: Attempt) -> Iterator[Step]:
    """Yield what was listed, and which lists failed."""
    listed = attempt.listed or Listed()
    asked = {reply.method: reply for reply in attempt.answers[1:]}
    if (ping := asked.get("ping")) is not None and ping.took is None:
        yield _failed("ping", ping, attempt)
    for label, method, names in (
        ("tools", "tools/list", listed.tools),
        ("resources", "resources/list", listed.resources),
        ("templates", "resources/templates/list", listed.templates),
        ("prompts", "prompts/list", listed.prompts),
    ):
        if names is not None:
            more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
            shown = f": {', '.join(names[:_SHOWN_NAMES])}{more}" if names else ""
            is_good = label != "tools" or not listed.faults
            yield Step("good" if is_good else "warning", label, f"{len(names)}{shown}")
        elif (reply := asked.get(method)) is not None:
            yield _failed(label, reply, attempt)
    if attempt.listed is not None and not any(method.endswith("/list") for method in asked):
        yield Step("plain", "offers", "nothing: it declares neither tools nor resources nor prompts")


def _failed(label: str, reply: Reply, attempt: Attempt) -> Step:
    if reply.took is not None:
        code = "" if reply.code is None else f" ({reply.code})"
        return Step("bad", label, f"{reply.method} failed: {reply.message}{code}")
    if attempt.exit is not None:
        return Step("bad", label, f"{reply.method}: it exited without a response: {attempt.exit.text}")
    return Step("bad", label, f"{reply.method}: no response")


def _stderr(attempt: Attempt) -> Iterator[Step]:
    written = tuple(line for line in attempt.stderr if line.strip())
    if not written:
        return
    failed = attempt.exit is not None or not attempt.works
    lines = relevant_lines(written) if failed else written[-_SHOWN_LINES:]
    count = len(written)
    some = "" if count <= len(lines) else ", among them" if failed else ", the last"
    yield Step("bad" if failed else "plain", "stderr", f"{count} line{'s' if count > 1 else ''}{some}:", lines)


def _ending_steps(attempt: Attempt) -> Iterator[Step]:
    ending = attempt.ending
    if ending is None:
        return
    label = _ASKED_BY[ending.asked_by].removeprefix("the ")
    if ending.took is None:
        yield Step("warning", label, f"still running; ended by {ending.ended_by}")
    elif attempt.exit is None:
        how = "" if ending.exit is None else f" ({ending.exit.text})"
        yield Step("good", label, f"exited after {seconds_text(ending.took)}{how}")
    if ending.left_behind:
        lines = tuple(f"{process.pid}: {process.command}" for process in ending.left_behind[:_SHOWN_LINES])
        number = "1 process" if len(ending.left_behind) == 1 else f"{len(ending.left_behind)} processes"
        yield Step("warning", "left behind", f"{number}, stopped by the doctor:", lines)


def _memory(attempt: Attempt) -> Iterator[Step]:
    peaks = [process.peak for process in attempt.processes if process.peak is not None]
    if peaks:
        many = f" in {len(peaks)} processes" if len(peaks) > 1 else ""
        yield Step("plain", "memory", f"{sum(peaks) / _MEGABYTE:.0f} MB at most{many}")
        if many:
            for process in attempt.processes:
                yield Step("plain", "", f"{(process.peak or 0) / _MEGABYTE:.0f} MB: {process.command}")


def _experiment(attempt: Attempt) -> Step:
    what = {
        "full environment": "with your whole environment",
        "variables": f"with {', '.join(attempt.variables[:_SHOWN_NAMES])}"
        + (" ..." if len(attempt.variables) > _SHOWN_NAMES else ""),
        "unbuffered": "with PYTHONUNBUFFERED=1",
        "content-length": "with the headers of a language server",
    }.get(attempt.purpose, attempt.purpose)
    framed = any(stray.kind == "content-length" for stray in attempt.strays)
    result = "it responds" if attempt.works or framed else "no difference"
    return Step("good" if attempt.works or framed else "plain", "tried again", f"{what}: {result}")


def seconds_text(value: float) -> str:
    """Return a duration for people."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


_DOING: Final[dict[Purpose, str]] = {
    "handshake": "starting it and sending initialize",
    "discover": "starting it again and sending server/discover",
    "revision": "starting it again and sending initialize",
    "full environment": "starting it with your whole environment",
    "variables": "starting it with some of your variables",
    "unbuffered": "starting it with PYTHONUNBUFFERED=1",
    "content-length": "starting it and sending initialize with a header",
}


class TerminalReport:
    """Prints each step when it is over, and the diagnoses at the end."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        encoding = getattr(terminal.stream, "encoding", None) or "utf-8"
        self._mark_width = 1
        try:
            "".join(mark[0] for mark in _MARKS.values()).encode(encoding)
        except (LookupError, UnicodeEncodeError):
            self._mark_width = 2  # the plain marks
        self._status: Any = None
        self._quoted: set[str] = set()

    def heading(self, description: str, environment: str) -> None:
        """Print what is examined."""
        gets = {
            "minimal": "the minimal environment that most hosts give a server",
            "inherit": "your whole environment",
            "explicit": "only the environment of its configuration",
        }
        self.title(description, f"with {gets.get(environment, environment)}")

    def title(self, description: str, note: str = "") -> None:
        """Print the first lines."""
        self._terminal.say(("twopipes doctor: ", "bold"), (visible(description), "bold"))
        if note:
            self._terminal.say((note, "dim"))
        self._terminal.say()

    def separate(self) -> None:
        """Print a line between two servers."""
        self._terminal.say()
        self._terminal.say(("-" * min(self._terminal.width, _MAX_WIDTH), "dim"))
        self._terminal.say()

    def resolved(self, resolution: Resolution) -> None:
        """Print how the command was found."""
        self.print_steps(steps_of_resolution(resolution))

    def begins(self, purpose: Purpose, revision: str) -> None:
        """Show a status line while a process runs, on a terminal."""
        named = "" if revision == LATEST_LEGACY else f" ({revision})"
        self.show_status(f"{_DOING[purpose]}{named}")

    def show_status(self, text: str) -> None:
        """Show a status line, on a terminal."""
        if self._terminal.rich is not None and self._terminal.is_terminal:
            self.quiet()
            self._status = self._terminal.rich.console.status(text)
            self._status.start()

    def tried(self, attempt: Attempt) -> None:
        """Print what happened."""
        self.quiet()
        self.print_steps(steps_of_attempt(attempt))

    def quiet(self) -> None:
        """Remove the status line."""
        if self._status is not None:
            status, self._status = self._status, None
            with suppress(Exception):  # the terminal may be gone
                status.stop()

    def print_steps(self, steps: Iterator[Step]) -> None:
        """Print steps."""
        for step in steps:
            if step.only_if_new and self._quoted.issuperset(step.lines):
                continue
            mark = self._mark(step.mark) if step.label else " " * self._mark_width
            self._paragraph([" ", mark, " ", f"{step.label:<{_LABEL}}"], 2 + self._mark_width + _LABEL, step.text)
            self._quote(_LABEL + 4, step.lines)
        self._terminal.flush()

    def conclude(self, found: Sequence[Diagnosis]) -> None:
        """Print what is wrong and what to do."""
        problems = [each for each in found if each.severity != "note"]
        notes = [each for each in found if each.severity == "note"]
        self._terminal.say()
        if not problems:
            self._terminal.say(("No problem found.", "bold green"))
        else:
            number = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            self._terminal.say((f"{number}. What to do:", "bold"))
        for each in [*problems, *notes]:
            self._terminal.say()
            mark = _SEVERITIES[each.severity]
            rules = f"  [{', '.join(each.rules)}]" if each.rules else ""
            self._terminal.say(self._mark(mark), " ", (each.code, "bold"), (rules, "dim"))
            for label, text in (("what", each.what), ("cause", each.cause), ("fix", each.fix)):
                self._paragraph([(f"    {label:<6}", "dim")], 10, text, "bold" if label == "fix" else "")
            # Do not quote lines again that a step has quoted.
            if not self._quoted.issuperset(each.evidence):
                self._quote(10, each.evidence)
        self._terminal.flush()

    def _paragraph(self, head: Sequence[Styled], indent: int, text: str, style: str = "") -> None:
        """Print a text after a head; further lines are indented."""
        width = max(_MIN_WIDTH, min(self._terminal.width, _MAX_WIDTH) - indent)
        for line in textwrap.wrap(visible(text), width, break_on_hyphens=False, break_long_words=False) or [""]:
            self._terminal.say(*head, (line, style) if style else line)
            head = [" " * indent]

    def _mark(self, mark: Mark) -> Styled:
        sign, plain, style = _MARKS[mark]
        return (sign if self._mark_width == 1 else plain, style)

    def _quote(self, indent: int, lines: Sequence[str]) -> None:
        """Print output of the server behind a bar; long lines are wrapped."""
        self._quoted.update(lines)
        width = max(_MIN_WIDTH, self._terminal.width - indent - 3)
        for line in lines:
            text = visible(line.rstrip())[:_MAX_QUOTE]
            for number, part in enumerate(textwrap.wrap(text, width, drop_whitespace=False, break_on_hyphens=False) or [""]):
                self._terminal.say(" " * indent, (": " if number else "| ", "dim"), part.rstrip())
