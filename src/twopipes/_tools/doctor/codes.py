"""The table of diagnoses: each has a code for programs and a text for people."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

Severity = Literal["error", "warning", "note"]
"""``error``: hosts cannot use the server. ``warning``: some cannot, or it does harm. ``note``: worth knowing, not a problem."""


class Code(Struct, frozen=True):
    """One kind of diagnosis: its severity, its meaning in a few words, and the protocol rules it is about."""

    severity: Severity
    means: str
    rules: tuple[str, ...] = ()


CODES: Final[dict[str, Code]] = {
    # Before anything runs
    "command-not-found": Code("error", "the server's PATH has no file of that name"),
    "not-executable": Code("error", "the file exists but may not be executed"),
    "not-a-program": Code("error", "the system cannot execute the file: no shebang line, or made for another machine"),
    "interpreter-not-found": Code("error", "the program named by the script's first line does not exist"),
    "folder-not-found": Code("error", "the folder to start in does not exist"),
    "script-not-found": Code("error", "the script that the command names does not exist"),
    "start-refused": Code("error", "the system refused to start it"),
    "word-not-expanded": Code("warning", "an argument contains ~ or $NAME, which only a shell expands"),
    "docker-without-stdin": Code("error", "docker or kubectl without -i: the server's input is not connected"),
    "docker-with-terminal": Code("error", "docker or kubectl with -t: a terminal between host and server changes the messages"),
    "compose-without-no-tty": Code("warning", "docker compose without -T: it may put a terminal between host and server"),
    "path-of-your-shell": Code("note", "found in a folder that programs started from a desktop do not search"),
    # It exits too early
    "environment-variable-missing": Code("error", "it needs an environment variable that is not set for it"),
    "module-not-found": Code("error", "a module that it imports is not installed where it runs"),
    "package-not-found": Code("error", "the package or image to fetch does not exist"),
    "no-network": Code("error", "the package registry cannot be reached"),
    "runtime-too-old": Code("error", "it needs a newer Python or Node"),
    "syntax-error": Code("error", "its source has a syntax error"),
    "address-in-use": Code("error", "a port that it needs is in use, often by an older copy of the server"),
    "permission-denied": Code("error", "it lacks a permission"),
    "wrong-arguments": Code("error", "it does not accept its arguments"),
    "docker-not-running": Code("error", "the Docker daemon is not running"),
    "crashes-at-start": Code("error", "it exits before it responds, for another reason"),
    "exits-at-once": Code("error", "it exits with code 0 before it responds"),
    "exits-after-opening": Code("error", "it responds to the first request and exits soon after"),
    "closes-stdout": Code("error", "it closes its output and keeps running"),
    # It does not respond
    "never-answers": Code("error", "no response in time"),
    "stdout-not-flushed": Code("error", "its responses stay in a buffer until it exits"),
    "reads-until-eof": Code("error", "it responds only when its input has ended"),
    "newline-missing": Code("error", "its messages do not end with a newline", ("FR-01",)),
    "content-length-framing": Code("error", "it frames messages with headers, as language servers do", ("FR-01", "FR-04")),
    "slow-start": Code("warning", "the first response comes late"),
    # Its output
    "noise-on-stdout": Code("error", "lines on stdout that are not messages", ("FR-04",)),
    "noise-at-exit": Code("warning", "lines on stdout that are not messages, written while it exits", ("FR-04",)),
    "pretty-printed-json": Code("error", "messages spread over several lines", ("FR-01", "FR-02")),
    "not-utf-8": Code("error", "bytes on stdout that are not UTF-8", ("FR-03",)),
    "byte-order-mark": Code("warning", "a byte order mark before the first message", ("FR-03",)),
    "carriage-returns": Code("warning", "lines that end with CR LF", ("FR-15",)),
    "malformed-message": Code("error", "JSON that is not a JSON-RPC message", ("JR-01", "JR-06", "JR-07", "JR-08", "JR-11")),
    "echoes-input": Code("error", "it sends back what it receives", ("FR-04",)),
    "wrong-id": Code("error", "responses with another id than the request", ("JR-06",)),
    # LC-03 for initialize, VN-06 for server/discover.
    "bad-answer": Code("error", "a response that does not fit its request", ("LC-03", "VN-06")),
    # Its revisions
    "strange-revision": Code("error", "it chose a revision that does not exist", ("LC-08", "LC-09")),
    "no-common-revision": Code("error", "it refuses every revision", ("LC-09",)),
    "revision-refused": Code("warning", "it refuses an older revision with an error instead of naming another", ("LC-09",)),
    # DE-09: it may refuse the handshake, but must do so with an error.
    "modern-only": Code("warning", "it supports no revision with a handshake, and most hosts support only those", ("DE-09",)),
    "dies-on-probe": Code("warning", "it exits on server/discover; hosts that send it first must start it twice", ("LC-14",)),
    "probe-unanswered": Code(
        "warning", "server/discover gets no response; hosts that send it first wait for seconds", ("LC-14", "ER-03")
    ),
    "incomplete-result": Code("warning", "members that strict clients require are missing", ("VN-09", "CH-01")),
    # Its lists
    # The rule depends on how the list fails: JR-16 if there is no response, the rule of the entries if they are malformed.
    "list-failed": Code("error", "a list that it declares cannot be read", ("JR-16", "TL-01", "RS-01", "PM-01")),
    "bad-tool": Code("warning", "a tool that hosts refuse or cannot call", ("TL-01", "TL-15")),
    # Its exit
    "ignores-eof": Code("warning", "it keeps running when its input has ended", ("SD-02",)),
    "ignores-sigterm": Code("warning", "it keeps running when it receives SIGTERM"),
    "fails-at-eof": Code("note", "it exits at the end of its input, but with an error code", ("SD-02",)),
    "leaves-processes-behind": Code("warning", "processes that it started keep running without it"),
    # The examination
    "out-of-time": Code("note", "the time ran out before everything was examined"),
}


class Diagnosis(Struct, frozen=True, kw_only=True):
    """One problem, or one thing worth knowing."""

    code: str  # one of :data:`CODES`
    severity: Severity  # its severity
    what: str  # what was observed
    cause: str  # the probable cause
    fix: str  # what to do
    evidence: tuple[str, ...] = ()  # lines that show it. They come from the server: pass them through `visible` before printing
    rules: tuple[str, ...] = ()  # the ids of the protocol rules that are broken


def diagnosis(
    code: str, what: str, cause: str, fix: str, evidence: tuple[str, ...] = (), *, rules: tuple[str, ...] | None = None
) -> Diagnosis:
    """Return a diagnosis of the table with the texts of this case. ``rules`` replaces the rules of the table."""
    severity, own = CODES[code].severity, CODES[code].rules
    rules = own if rules is None else rules
    return Diagnosis(code=code, severity=severity, what=what, cause=cause, fix=fix, evidence=evidence, rules=rules)
