"""Diagnoses of a server that never sends its first response: the command, the start, a crash, silence."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from twopipes._tools.doctor.clues import Clue, clue_in, error_line, missing_variable, relevant_lines, states_error
from twopipes._tools.doctor.codes import Diagnosis, advice, diagnosis
from twopipes._tools.doctor.observations import Attempt, Layer, Observations, Resolution

_MAX_LENGTH: Final = 200
_MAX_NAMES: Final = 8
_OTHER_FRAMING: Final = {"content-length", "pretty-printed", "malformed message", "not UTF-8"}
_SHELL: Final = "a host starts it without a shell, and often with a shorter PATH than yours: write the absolute path"

# What follows the options of each, for the fix that people copy.
_NEED_INPUT: Final = {
    **dict.fromkeys(("docker run", "podman run", "nerdctl run"), "--rm {package}"),
    **dict.fromkeys(("docker exec", "podman exec", "nerdctl exec"), "{inside} COMMAND"),
    "kubectl exec": "{inside} -- COMMAND",
}
# These connect stdin without an option, but some versions allocate a terminal as well.
_NEED_NO_TERMINAL: Final = {
    f"{program} {verb}"
    for program in ("docker compose", "podman compose", "nerdctl compose", "docker-compose", "podman-compose")
    for verb in ("exec", "run")
}
# Short options with a value, which may follow directly: -eTERM=xterm does not contain -t.
_LETTERS_WITH_VALUE: Final = "acefhlmnpsuvw"


def explanation(lines: Sequence[str]) -> tuple[str, str] | None:
    """Return the probable cause and the fix for a failure, from the lines the server wrote; ``None`` if no line helps."""
    clue = clue_in(lines)
    if clue is not None:
        return _cause_of(clue)
    found = error_line(lines)
    return None if found is None else (f"it wrote: {found[:_MAX_LENGTH]}", "resolve what this line reports")


def _cause_of(clue: Clue) -> tuple[str, str]:
    about = clue.about or clue.line
    if clue.code == "module-not-found" and clue.runtime == "node":
        fix = "run `npm install` in the folder of the server, and build it if it is written in TypeScript"
        return f"Node does not find the package or file {about}", fix
    return advice(clue.code, about)


def diagnose_command(seen: Observations) -> Iterator[Diagnosis]:
    """Diagnose the command itself."""
    resolution = seen.resolution
    if not resolution.folder_exists:
        yield diagnosis("folder-not-found", f"the folder {resolution.folder} does not exist")
        return
    if resolution.found is None:
        yield _not_executable(resolution) if resolution.unfit else _not_found(resolution)
    elif (attempt := seen.of("handshake")) is not None and (
        attempt.outcome == "not started" or (_has_no_interpreter(resolution) and not attempt.works)
    ):
        yield _not_started(resolution, attempt)
    elif resolution.script_missing and (attempt is None or not attempt.works):
        yield diagnosis(
            "script-not-found",
            f"the file {resolution.script_missing} does not exist",
            cause=f"a relative path is resolved against the folder it starts in, which is {resolution.folder}",
            fix="write the absolute path of the script, or set cwd",
        )
    if resolution.not_expanded:
        yield diagnosis("word-not-expanded", f"the argument {resolution.not_expanded[0]} is passed unchanged")
    yield from _diagnose_containers(resolution)
    if resolution.beyond_host_path:
        yield diagnosis(
            "path-of-your-shell",
            f"{resolution.argv[0]} is found in {(resolution.found or '').rpartition('/')[0]}, which is on the PATH of this shell",
            cause="programs started from a desktop do not read the startup files of the shell, so their PATH is shorter",
            fix=f"if a host does not find it, write the absolute path: {resolution.found}",
        )


def _not_found(resolution: Resolution) -> Diagnosis:
    name = resolution.argv[0]
    what = f"no folder of its PATH has {name}" if resolution.searched else f"the file {name} does not exist"
    words = name.split()
    if resolution.elsewhere:
        place = resolution.elsewhere[0]
        cause, fix = f"it is in {place.where}: {place.path}; {_SHELL}", f"use {place.path}"
    elif len(words) > 1:
        cause = "the whole command is written as one word"
        arguments = ", ".join(f'"{word}"' for word in words[1:])
        fix = f'split it: "command": "{words[0]}", "args": [{arguments}]'
    elif resolution.similar:
        cause = "the name may be misspelled, or has a version number here"
        fix = f"did you mean {' or '.join(resolution.similar)}?"
    else:
        cause = f"it is not installed, or in another folder; {_SHELL}"
        fix = f"`which {shlex.quote(name)}` in a shell shows where it is"
    return diagnosis("command-not-found", what, tuple(dict.fromkeys(resolution.searched)), cause=cause, fix=fix)


def _has_no_interpreter(resolution: Resolution) -> bool:
    return resolution.shebang is not None and resolution.shebang.found is None


def _not_executable(resolution: Resolution) -> Diagnosis:
    if resolution.unfit_is_folder:
        what = f"{resolution.unfit} is a folder"
        return diagnosis(
            "not-executable", what, cause="the name of the program is missing", fix="write the path of a program in it"
        )
    fix = f"start it with its interpreter: python {resolution.argv[0]}"
    if sys.platform == "win32":
        what, cause = "is not a program", "its extension is not in PATHEXT"
    else:
        what, cause = "may not be executed", "the file does not have the execute permission"
        fix = f"chmod +x {shlex.quote(resolution.unfit or '')}, or {fix}"
    return diagnosis("not-executable", f"{resolution.unfit} {what}", cause=cause, fix=fix)


def _not_started(resolution: Resolution, attempt: Attempt) -> Diagnosis:
    shebang, found = resolution.shebang, resolution.found or resolution.argv[0]
    if shebang is not None and shebang.found is None:
        carriage = shebang.interpreter.endswith("\\r")
        return diagnosis(
            "interpreter-not-found",
            f"{found} begins with {shebang.line}, but {shebang.interpreter} does not exist",
            cause="the script was saved with Windows line endings"
            if carriage
            else "it was written on another machine, or its environment was moved",
            fix="save it with Unix line endings" if carriage else "reinstall it, or start it with an existing interpreter",
        )
    detail = attempt.failure.detail if attempt.failure is not None else ""
    if attempt.failure is not None and attempt.failure.reason == "sandbox":
        return diagnosis(
            "start-refused",
            f"{found} was not started in its sandbox: {detail}",
            cause="its policy cannot be enforced here, or hides something that it needs",
            fix="do what the reason above says",
        )
    if not resolution.is_program or "format" in detail.lower():
        return diagnosis(
            "not-a-program",
            f"the system cannot execute {found}",
            cause="a script without a first line such as #!/usr/bin/env python3, or a program for another processor",
            fix=f"add that line, or start it with its interpreter: python {resolution.argv[0]}",
        )
    reason = attempt.failure.reason if attempt.failure is not None else ""
    what = f"{found} was not started: {reason} {detail}".strip()
    return diagnosis("start-refused", what)


def _diagnose_containers(resolution: Resolution) -> Iterator[Diagnosis]:
    """Diagnose the options of ``docker run``, ``kubectl exec`` and similar commands."""
    for layer in resolution.layers:
        how = f"{layer.program} {layer.verb}"
        if how in _NEED_INPUT:
            rest = _NEED_INPUT[how].format(package=layer.package or "IMAGE", inside=layer.inside or "NAME")
            yield from _diagnose_options(layer, how, right=f"{how} -i {rest}")
        elif how in _NEED_NO_TERMINAL and not _has(layer, "T", "--no-tty", "--no-TTY"):
            cause = "older versions allocate a terminal by default; then they refuse to start, or the terminal echoes what is sent"
            right = f"{how} -T {layer.inside or 'SERVICE'}{' COMMAND' if how.endswith('exec') else ''}"
            yield diagnosis("compose-without-no-tty", f"{how} without -T", cause=cause, fix=right)


def _diagnose_options(layer: Layer, how: str, *, right: str) -> Iterator[Diagnosis]:
    if not _has(layer, "i", "--interactive", "--stdin"):
        cause = "the server's standard input is not connected, so it reads EOF at once"
        yield diagnosis("docker-without-stdin", f"{how} without -i", cause=cause, fix=right)
    if _has(layer, "t", "--tty"):
        cause = "a terminal echoes what is sent and changes line endings"
        yield diagnosis("docker-with-terminal", f"{how} with -t", cause=cause, fix=f"leave -t out: {right}")


def _has(layer: Layer, letter: str, *names: str) -> bool:
    """Whether a switch is on, as ``-i``, ``-it``, ``--interactive`` or ``--interactive=true``."""
    for flag in layer.flags:
        name, _, value = flag.partition("=")
        if name in (f"-{letter}", *names):
            if value not in {"false", "False", "FALSE", "f", "F", "0"}:
                return True
        elif name.startswith("-") and not name.startswith("--"):
            switches = re.match(f"-[^{_LETTERS_WITH_VALUE}]*.?", name)  # as -it, up to a letter that has a value
            if switches is not None and letter in switches.group():
                return True
    return False


def diagnose_opening(seen: Observations, first: Attempt, probe: Attempt | None) -> Iterator[Diagnosis]:
    """Diagnose why neither the handshake nor the stateless opening got a response."""
    outcomes = {attempt.outcome for attempt in (first, probe) if attempt is not None}
    if _proven_variable(seen) is not None or outcomes & {"gone"}:
        yield from _diagnose_exit(seen, first if first.outcome == "gone" else probe or first)
    elif any(attempt.echoes for attempt in seen.attempts):
        return  # reported already
    elif any(stray.kind in _OTHER_FRAMING for attempt in seen.attempts for stray in attempt.strays):
        return  # reported by the diagnoses of its output
    elif first.outcome == "at eof":
        yield _at_eof(seen, first)
    elif first.outcome == "silent":
        yield _silence(seen, first)


def _proven_variable(seen: Observations) -> Attempt | None:
    """Return the attempt with the fewest additional variables that worked."""
    working = [each for each in seen.attempts if each.purpose in {"full environment", "variables"} and each.works]
    return min(working, key=lambda each: len(each.variables)) if working else None


def _diagnose_exit(seen: Observations, attempt: Attempt) -> Iterator[Diagnosis]:
    words = attempt.output
    evidence = relevant_lines(words)
    proven = _proven_variable(seen)
    if proven is not None:
        yield _variable(proven, words, evidence)
        return
    if seen.resolution.script_missing or _has_no_interpreter(seen.resolution):
        return  # reported already
    clue = clue_in(words)
    # A program may exit with 0 and still report a problem. Then only a stated error counts, not a hint or the usage.
    if clue is not None and (attempt.exit is None or attempt.exit.code != 0 or states_error(clue.line)):
        yield _complaint(clue, attempt, evidence)
    elif attempt.exit is None:
        yield diagnosis("closes-stdout", "it closes its standard output and keeps running", evidence)
    elif attempt.exit.code == 0:
        yield diagnosis("exits-at-once", f"it exited after {attempt.lived or 0:.2f} s (exit code 0) without a response", evidence)
    else:
        error = error_line(words)
        cause = f"it wrote: {error[:_MAX_LENGTH]}" if error is not None else "it wrote nothing to stderr"
        if attempt.exit.signal is not None:
            cause = "the system or another process killed it, or a C library crashed"
        yield diagnosis(
            "crashes-at-start",
            f"it exited after {attempt.lived or 0:.2f} s ({attempt.exit.text}) without a response",
            evidence,
            cause=cause,
            fix=f"run it in a shell and fix what it reports: {shlex.join(seen.resolution.argv)}",
        )


def _complaint(clue: Clue, attempt: Attempt, evidence: tuple[str, ...]) -> Diagnosis:
    cause, fix = _cause_of(clue)
    how = "it closes its output" if attempt.exit is None else f"it exits ({attempt.exit.text})"
    what = f"{how} before it responds: {clue.line[:_MAX_LENGTH]}"
    if clue.code == "environment-variable-missing":
        what = f"it needs the environment variable {clue.about}, which is set neither for the server nor in this shell"
    elif clue.is_usage_alone:
        what = f"it prints its usage, and {how.removeprefix('it ')}"
        cause = "an argument is missing or wrong; the server does not name it"
    return diagnosis(clue.code, what, evidence, cause=cause, fix=fix)


def _variable(proven: Attempt, words: Sequence[str], evidence: tuple[str, ...]) -> Diagnosis:
    names = proven.variables
    if proven.purpose == "full environment" and (clue := missing_variable(words)) is not None and clue.about in names:
        names = (clue.about,)
    shown = ", ".join(names[:_MAX_NAMES]) + (", ..." if len(names) > _MAX_NAMES else "")
    return diagnosis(
        "environment-variable-missing",
        f"it works with your full environment but fails with the minimal one that hosts use; it needs {shown}",
        evidence,
        cause="hosts do not pass on the variables that your shell exports",
        fix=f'put it into the configuration: "env": {{"{names[0]}": "..."}}',
    )


def _at_eof(seen: Observations, first: Attempt) -> Diagnosis:
    if first.held:
        what = "its message has no newline at its end, so it is complete only when the stream ends"
        return diagnosis("newline-missing", what, (first.held[:_MAX_LENGTH],))
    unbuffered = seen.of("unbuffered")
    if unbuffered is not None and not unbuffered.works:
        return diagnosis("reads-until-eof", "it responds only when its input has ended")
    proof = " With PYTHONUNBUFFERED=1 it responds at once." if unbuffered is not None else ""
    return diagnosis(
        "stdout-not-flushed",
        f"its responses appear only when its input has ended.{proof}",
        cause="output to a pipe stays in a buffer until the buffer is full or the process exits",
        fix="flush after each message: print(..., flush=True); or start it with python -u, or with PYTHONUNBUFFERED=1 in env"
        if seen.resolution.runtime == "python"
        else "flush stdout after each message, or start it through stdbuf -oL",
    )


def _silence(seen: Observations, first: Attempt) -> Diagnosis:
    if first.held:
        what = "it wrote the beginning of a line, but no newline at its end"
        return diagnosis("newline-missing", what, (first.held[:_MAX_LENGTH],))
    reads_nothing = any(layer.does.startswith("reads its program from stdin") for layer in seen.resolution.layers)
    cause = "it does not read stdin (a port instead?), waits for something else first, or does not know the message"
    if reads_nothing:
        cause = "the command names no script, so the interpreter reads the messages as its program"
    elif first.ending is not None and first.ending.took is not None:
        cause = "it reads its input, because it exits at EOF, but does not respond: a handler fails, or it uses another framing"
    elif first.strays:
        cause = "its output is not a message; it may not be an MCP server over stdio, or may serve HTTP by default"
    what = "it runs and responds neither to initialize nor to server/discover"
    fix = (
        "check that it serves over stdio (many need an argument such as --stdio or --transport stdio), and look at its stderr; "
        "if it serves over HTTP: twopipes doctor URL"
    )
    fix = "name the script after the interpreter" if reads_nothing else fix
    return diagnosis("never-answers", what, relevant_lines(first.stderr), cause=cause, fix=fix)
