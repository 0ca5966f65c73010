"""Turns observations into diagnoses. Without side effects: the same observations always give the same diagnoses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes._tools.doctor import diagnose_starts
from twopipes._tools.doctor.clues import relevant_lines
from twopipes._tools.doctor.codes import Diagnosis, diagnosis
from twopipes._tools.doctor.observations import Attempt, Observations, Reply, StrayLine

# Lines of evidence that a diagnosis shows.
_EVIDENCE: Final = 5
_MAX_LENGTH: Final = 200
_METHOD_NOT_FOUND: Final = -32601
# The rule about the entries of each list.
_RULE_OF_ENTRIES: Final = {
    "tools/list": "TL-01",
    "resources/list": "RS-01",
    "resources/templates/list": "RS-01",
    "prompts/list": "PM-01",
}
_RULE_OF_MEMBER: Final = {'"id"': "JR-06", '"jsonrpc"': "JR-01", '"params"': "JR-11", '"error"': "JR-08"}
_NOISE: Final = {"text", "log", "installer", "traceback", "terminal codes", "other JSON", "too long"}
_BEFORE_OPENING: Final = ("silent", "at eof")


def diagnose(seen: Observations) -> list[Diagnosis]:
    """Return what is wrong with a server: errors, then warnings, then notes."""
    found: dict[str, Diagnosis] = {}
    for each in (*diagnose_starts.diagnose_command(seen), *_diagnose_attempts(seen)):
        found.setdefault(each.code, each)
    return in_order(found.values())


def in_order(found: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Return errors, then warnings, then notes."""
    return sorted(found, key=lambda each: ("error", "warning", "note").index(each.severity))


def _diagnose_attempts(seen: Observations) -> Iterator[Diagnosis]:
    first, probe = seen.of("handshake"), seen.of("discover")
    if first is None or first.outcome == "not started":
        return
    yield from _diagnose_output(seen)
    opened = next((attempt for attempt in (first, probe) if attempt is not None and attempt.works), None)
    if opened is None:
        yield from diagnose_starts.diagnose_opening(seen, first, probe)
    yield from diagnose_eras(seen.attempts, first, probe)
    if opened is not None:
        yield from diagnose_lists(opened)
        yield from _diagnose_speed(seen)
    yield from _diagnose_endings(seen)
    if seen.out_of_time:
        yield diagnosis("out-of-time", f"there was no time left for: {', '.join(seen.out_of_time)}")


def _diagnose_output(seen: Observations) -> Iterator[Diagnosis]:
    attempts = [attempt for attempt in seen.attempts if attempt.purpose in {"handshake", "discover", "revision"}]
    strays = [stray for attempt in seen.attempts for stray in attempt.strays]
    by_kind: dict[str, list[StrayLine]] = {}
    for stray in strays:
        by_kind.setdefault(stray.kind, []).append(stray)
    if framed := by_kind.get("content-length"):
        yield diagnosis("content-length-framing", "it writes headers before its messages (Content-Length: ...)", _lines(framed))
        return  # it explains everything else that is wrong with its output
    if pretty := by_kind.get("pretty-printed"):
        cause = _by_runtime(
            seen, "json.dumps(message, indent=...)", "JSON.stringify(message, null, 2)", "JSON formatted for people"
        )
        fix = "write each message on one line: no indentation, and a newline only at the end"
        yield diagnosis("pretty-printed-json", "it writes its messages over several lines", _lines(pretty), cause=cause, fix=fix)
    if undecodable := by_kind.get("not UTF-8"):
        wide = any("\\x00" in stray.text for stray in undecodable)
        encoding = "the encoding of Windows shells (UTF-16)" if wide else "an encoding of the system, such as Latin-1"
        fix = _by_runtime(
            seen,
            "open stdout as UTF-8: sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in its environment",
            "write strings, or Buffers made with 'utf8'",
            "encode the output as UTF-8, whatever the locale is",
        )
        what = f"it writes bytes that are not UTF-8 ({_reason(undecodable[0])})"
        yield diagnosis("not-utf-8", what, _lines(undecodable), cause=f"text in {encoding}", fix=fix)
    if malformed := by_kind.get("malformed message"):
        reason = _reason(malformed[0])  # begins with the faulty member
        broken = tuple(rule for member, rule in _RULE_OF_MEMBER.items() if reason.startswith(member)) or ("JR-07",)
        what = f"a line looks like a message but is not one: {reason}"
        yield diagnosis("malformed-message", what, _lines(malformed), rules=broken)
    if any(attempt.echoes for attempt in seen.attempts):
        yield diagnosis("echoes-input", "it sends back what it was sent")
    noise = [stray for stray in strays if stray.kind in _NOISE]
    late = [stray for stray in noise if stray.while_ending and not stray.before_messages]
    if len(noise) > len(late):
        yield _noise(seen, noise, max(attempt.stray_count for attempt in seen.attempts))
    elif late:
        yield _noise_at_exit(seen, late)
    if any(attempt.byte_order_mark for attempt in attempts):
        yield diagnosis("byte-order-mark", "it begins its output with a byte order mark")
    if any(attempt.carriage_returns for attempt in attempts):
        yield diagnosis("carriage-returns", "it ends messages with CR LF")
    for attempt in attempts:
        fault = next((reply.message for reply in attempt.answers if "its id is" in reply.message), "")
        if attempt.outcome == "wrong id" or fault:
            yield diagnosis("wrong-id", f"its response does not carry the id of the request: {fault}")


def _reason(stray: StrayLine) -> str:
    return stray.detail.partition(": ")[2] or stray.detail


def _noise(seen: Observations, noise: Sequence[StrayLine], count: int) -> Diagnosis:
    kinds = {stray.kind for stray in noise}
    placed = next((stray.source for stray in noise if stray.source), None)
    before = all(stray.before_messages for stray in noise)
    when = "before the first message" if before else "between messages"
    fix = "send it to stderr instead" + _by_runtime(seen, ": print(..., file=sys.stderr)", ": console.error(...)", "")
    if placed:
        cause = f"it is printed here: {placed}"
    elif "installer" in kinds:
        cause = "a package manager that starts the server prints its progress"
        fix = "install the server first and start it directly, or silence it: npm run --silent, npx --quiet, uv run --quiet"
    elif "log" in kinds:
        cause = _by_runtime(
            seen,
            "a logging handler that writes to stdout: logging.StreamHandler(sys.stdout), or basicConfig(stream=sys.stdout)",
            "a logger that writes to stdout, as pino and winston do by default, or console.info",
            "a logger that writes to stdout",
        )
        fix = "point the logger at stderr; stdout belongs to the protocol"
    elif "traceback" in kinds:
        cause = "an exception is printed to stdout"
    elif "terminal codes" in kinds:
        cause = "a coloured banner, made for a terminal"
        fix = f"remove it, or {fix}; NO_COLOR=1 does not help, because the text itself is the problem"
    elif "other JSON" in kinds and len(kinds) == 1:
        cause = "JSON that is not a message of the protocol, such as structured logs"
    elif before:
        cause = _by_runtime(
            seen,
            "print() at import or in main(), in the server or in a library that it imports",
            "console.log() at start-up, in the server or in a package that it loads",
            "a banner of the server, or of the program that starts it",
        )
    else:
        cause = _by_runtime(seen, "print() for debugging", "console.log() for debugging", "text printed while it works")
    number = "one line on stdout is not a message" if count == 1 else f"{count} lines on stdout are not messages"
    return diagnosis("noise-on-stdout", f"{number}, {when}", _lines(noise), cause=cause, fix=fix)


def _noise_at_exit(seen: Observations, late: Sequence[StrayLine]) -> Diagnosis:
    endings = {
        attempt.ending.asked_by
        for attempt in seen.attempts
        if attempt.ending is not None and any(stray.while_ending for stray in attempt.strays)
    }
    when = " and ".join({"eof": "at the end of its input", "SIGTERM": "at SIGTERM"}[each] for each in sorted(endings))
    placed = next((stray.source for stray in late if stray.source), None)
    return diagnosis(
        "noise-at-exit",
        f"while it exits{f' {when}' if when else ''}, it writes lines to stdout that are not messages",
        _lines(late),
        cause=f"it is printed here: {placed}" if placed else "a signal handler or an exit hook prints to stdout",
        fix="send it to stderr instead" + _by_runtime(seen, ": print(..., file=sys.stderr)", ": console.error(...)", ""),
    )


def diagnose_eras(attempts: Sequence[Attempt], first: Attempt, probe: Attempt | None) -> Iterator[Diagnosis]:
    """Yield what is wrong with the openings of both eras."""
    refusals = [each for each in attempts if each.purpose in {"handshake", "revision"}]
    strange = [each for each in refusals if each.outcome == "strange revision"]
    modern = probe is not None and probe.works
    if strange:
        yield diagnosis(
            "strange-revision",
            f"on request for {strange[0].revision} it chose {strange[0].chosen[0]!r}, which does not exist",
            cause="the protocol version was confused with another version, such as the server's own",
            fix=f'respond with the requested version, or with the newest that the server supports, such as "{LATEST_LEGACY}"',
        )
    refused = [each for each in refusals if each.outcome == "refused"]
    if refused and not modern and len(refused) == len(refusals):
        yield diagnosis("no-common-revision", f"it refuses every revision: {_error_of(refused[0])}")
    elif refused and first.works:
        names = ", ".join(each.revision for each in refused)
        yield diagnosis("revision-refused", f"it responds to initialize for {names} with an error: {_error_of(refused[0])}")
    unusable = [each for each in (first, probe) if each is not None and each.outcome == "unusable" and not _is_explained(each)]
    if unusable and (not first.works or unusable[0] is first):
        yield diagnosis(
            "bad-answer",
            f"its response to {unusable[0].answers[0].method} is not valid: {unusable[0].answers[0].message}",
            rules=("LC-03",) if unusable[0] is first else ("VN-06",),
        )
    if probe is None:
        return
    if modern and not first.works:
        how = "does not respond to" if first.outcome in _BEFORE_OPENING else "refuses" if first.outcome == "refused" else "fails at"
        rules = () if first.outcome == "refused" else None  # DE-09 requires a refusal
        yield diagnosis("modern-only", f"it supports {LATEST_MODERN} and {how} initialize", rules=rules)
    elif first.works and probe.outcome == "gone":
        what = f"it exits when server/discover comes before initialize ({_end_of(probe)})"
        yield diagnosis("dies-on-probe", what, relevant_lines(probe.stderr))
    elif first.works and probe.outcome in _BEFORE_OPENING:
        yield diagnosis("probe-unanswered", "it does not respond to server/discover")


def _is_explained(attempt: Attempt) -> bool:
    return attempt.echoes or any(
        stray.kind in {"content-length", "malformed message", "not UTF-8", "pretty-printed"} for stray in attempt.strays
    )


def _error_of(attempt: Attempt) -> str:
    reply = attempt.answers[0]
    return f"{reply.message} ({reply.code})"


def diagnose_lists(opened: Attempt) -> Iterator[Diagnosis]:
    """Yield what is wrong with the lists of a server."""
    later = opened.answers[1:]
    gone = [reply for reply in later if reply.took is None]
    if gone and opened.exit is not None:
        yield _exits_after_opening(opened, gone[0])
        return
    faults = opened.listed.faults if opened.listed is not None else ()
    failed = [reply for reply in later if reply.took is None or (not reply.usable and reply.method != "ping")]
    if faults:  # reported in more detail below
        failed = [reply for reply in failed if reply.method != "tools/list"]
    if failed and not _is_explained(opened):
        yield _list_failed(opened, failed)
    if faults:
        yield diagnosis(
            "bad-tool",
            f"the tool {faults[0].tool!r}: {faults[0].fault}" + (f"; and {len(faults) - 1} more" if len(faults) > 1 else ""),
            tuple(f"{fault.tool}: {fault.fault} ({fault.rule})" for fault in faults[:_EVIDENCE]),
            rules=tuple(dict.fromkeys(fault.rule for fault in faults)),
        )
    missing = sorted({name for reply in opened.answers for name in reply.missing})
    if missing:
        yield diagnosis(
            "incomplete-result",
            f"results without {', '.join(missing)}",
            cause="the server was written by hand for a draft of the revision",
            fix=f"every result of {LATEST_MODERN} has resultType; lists also have ttlMs and cacheScope",
        )


def _exits_after_opening(opened: Attempt, unanswered: Reply) -> Diagnosis:
    cause, fix = diagnose_starts.explanation(opened.stderr) or (
        "it serves one message and exits, or it fails on the message after the opening",
        "read lines in a loop until the end of the input",
    )
    what = f"it responds to {opened.answers[0].method} and exits ({_end_of(opened)}) when {unanswered.method} follows"
    return diagnosis("exits-after-opening", what, relevant_lines(opened.stderr), cause=cause, fix=fix)


def _list_failed(opened: Attempt, failed: Sequence[Reply]) -> Diagnosis:
    reply = failed[0]
    rules: tuple[str, ...] = ()
    if reply.took is None:
        cause = "the handler waits forever, or fails without sending an error"
        fix = "respond to every request, with an error if there is no result"
        rules = ("JR-16",)
    elif reply.code == _METHOD_NOT_FOUND:
        cause = "the capability is declared, but the method is missing"
        fix = "declare only capabilities that the server has, or add the method"
    elif reply.code is not None:
        cause, fix = diagnose_starts.explanation(opened.stderr) or (
            "the server failed while it built the list",
            "look at the server's log; `twopipes list` sends the same request",
        )
    else:
        cause = "an entry of the list does not have the members that its type requires"
        fix = "give each entry the members of its type; `twopipes list` shows what a client sees"
        rules = (_RULE_OF_ENTRIES[reply.method],)
    what = []
    for each in failed:
        code = "" if each.code is None else f" ({each.code})"
        what.append(f"{each.method} gets no response" if each.took is None else f"{each.method} fails: {each.message}{code}")
    return diagnosis("list-failed", "; ".join(what), relevant_lines(opened.stderr), cause=cause, fix=fix, rules=rules)


def _diagnose_speed(seen: Observations) -> Iterator[Diagnosis]:
    # Take the fastest start: the first may have met a cold disk cache, and each of them a busy machine.
    answered = min((each.answered for each in seen.attempts if each.works and each.answered is not None), default=0.0)
    if answered > seen.slow:
        fetches = any(layer.package and layer.runtime for layer in seen.resolution.layers)
        cause = "a package was fetched, or is looked up at every start" if fetches else "large imports, or work before it serves"
        fix = "install it and start it directly" if fetches else "import modules and open connections only when a call needs them"
        what = f"the first response takes {answered:.1f} s; some hosts give up after a few seconds"
        yield diagnosis("slow-start", what, cause=cause, fix=fix)


def _diagnose_endings(seen: Observations) -> Iterator[Diagnosis]:
    for attempt in seen.attempts:
        ending = attempt.ending
        if ending is None or attempt.outcome == "not started":
            continue
        if ending.took is None and ending.asked_by == "eof":
            # A server that never responded may still be starting, and not read its input yet.
            if attempt.answered is None:
                continue
            yield diagnosis("ignores-eof", f"it keeps running when its input has ended, until {ending.ended_by}")
        elif ending.took is None:
            yield diagnosis("ignores-sigterm", "it keeps running when it receives SIGTERM, until SIGKILL")
        elif ending.asked_by == "eof" and attempt.works and ending.exit and (ending.exit.signal or ending.exit.code):
            yield diagnosis(
                "fails-at-eof", f"at the end of its input it exits with {ending.exit.text}", relevant_lines(attempt.stderr)
            )
        if ending.left_behind:
            count = len(ending.left_behind)
            running = "one process keeps running" if count == 1 else f"{count} processes keep running"
            yield diagnosis(
                "leaves-processes-behind",
                f"{running} after it has exited; the doctor stopped what it found",
                tuple(f"{process.pid}: {process.command}" for process in ending.left_behind[:_EVIDENCE]),
            )


def _by_runtime(seen: Observations, python: str, node: str, other: str) -> str:
    return {"python": python, "node": node}.get(seen.resolution.runtime or "", other)


def _lines(strays: Sequence[StrayLine]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(stray.text[:_MAX_LENGTH] for stray in strays))
    return tuple(unique[:_EVIDENCE])


def _end_of(attempt: Attempt) -> str:
    return "its output ended" if attempt.exit is None else attempt.exit.text
