"""From what was seen to what is wrong. Nothing is touched here: the same observations always give the same diagnoses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN
from twopipes._tools.doctor import diagnose_starts as judging_starts
from twopipes._tools.doctor.clues import telling_lines
from twopipes._tools.doctor.codes import Diagnosis, diagnosis
from twopipes._tools.doctor.observations import Answer, Attempt, Observations, StrayLine

__all__ = ["judge"]

# Lines of evidence that a diagnosis shows.
_EVIDENCE: Final = 5
_LONGEST: Final = 200
_METHOD_NOT_FOUND: Final = -32601
# For each list, the rule about its entries.
_RULE_OF_ENTRIES: Final = {
    "tools/list": "TL-01",
    "resources/list": "RS-01",
    "resources/templates/list": "RS-01",
    "prompts/list": "PM-01",
}
_BEFORE_OPENING: Final = ("silent", "at eof")


def judge(seen: Observations) -> list[Diagnosis]:
    """What is wrong with a server, the gravest first and otherwise in the order in which it shows."""
    found: dict[str, Diagnosis] = {}
    for each in (*judging_starts.judge_command(seen), *_judge_life(seen)):
        found.setdefault(each.code, each)
    return sorted(found.values(), key=lambda each: ("error", "warning", "note").index(each.severity))


def _judge_life(seen: Observations) -> Iterator[Diagnosis]:
    first, probe = seen.of("handshake"), seen.of("discover")
    if first is None or first.outcome == "not started":
        return
    yield from _judge_output(seen)
    opened = next((attempt for attempt in (first, probe) if attempt is not None and attempt.works), None)
    if opened is None:
        yield from judging_starts.judge_opening(seen, first, probe)
    yield from _judge_eras(seen, first, probe)
    if opened is not None:
        yield from _judge_offer(opened)
        yield from _judge_speed(seen)
    yield from _judge_ends(seen)
    if seen.out_of_time:
        yield diagnosis(
            "out-of-time",
            f"there was no time left for: {', '.join(seen.out_of_time)}",
            "the server is slow, or does not respond at all",
            "give it more time: --total SECONDS",
        )


# What it says


def _judge_output(seen: Observations) -> Iterator[Diagnosis]:
    attempts = [attempt for attempt in seen.attempts if attempt.purpose in {"handshake", "discover", "revision"}]
    strays = [stray for attempt in seen.attempts for stray in attempt.strays]
    by_kind: dict[str, list[StrayLine]] = {}
    for stray in strays:
        by_kind.setdefault(stray.kind, []).append(stray)
    if framed := by_kind.get("content-length"):
        yield diagnosis(
            "content-length-framing",
            "it writes headers before its messages (Content-Length: ...)",
            "its library speaks the framing of the Language Server Protocol, which is not MCP's",
            "write each message as one line of JSON with a newline after it, and read it so; no headers in either direction",
            _lines(framed),
        )
        return  # everything else that is strange about its output comes from that
    if pretty := by_kind.get("pretty-printed"):
        yield diagnosis(
            "pretty-printed-json",
            "it writes its messages over several lines",
            _by_runtime(seen, "json.dumps(message, indent=...)", "JSON.stringify(message, null, 2)", "JSON laid out for people"),
            "write each message on one line: no indent, and no newline but the one at the end",
            _lines(pretty),
        )
    if undecodable := by_kind.get("not UTF-8"):
        wide = any("\\x00" in stray.text for stray in undecodable)
        yield diagnosis(
            "not-utf-8",
            f"it writes bytes that are not UTF-8 ({_reason(undecodable[0])})",
            "text in the encoding of Windows shells (UTF-16)" if wide else "text in an encoding of the system, such as Latin-1",
            _by_runtime(
                seen,
                "open stdout as UTF-8: sys.stdout.reconfigure(encoding='utf-8'), or PYTHONUTF8=1 in its environment",
                "write strings, or Buffers that were made with 'utf8'",
                "encode what is written as UTF-8, whatever the locale is",
            ),
            _lines(undecodable),
        )
    if malformed := by_kind.get("malformed message"):
        yield diagnosis(
            "malformed-message",
            f"a line looks like a message but is not one: {_reason(malformed[0])}",
            "the message is put together by hand, or by a library for another version of JSON-RPC",
            'every message has "jsonrpc": "2.0"; a response has the id of its request and either "result", an object, or "error"',
            _lines(malformed),
            rules=_rules_of_malformed(malformed[0]),
        )
    if any(attempt.echoes for attempt in seen.attempts):
        yield diagnosis(
            "echoes-input",
            "it sends back what it was sent",
            "a terminal between host and server echoes (docker run -t, ssh -t, script), or the program is not an MCP server",
            "connect it by pipes: no -t; and check that the command starts the server",
        )
    noise = [stray for stray in strays if stray.kind in _NOISE]
    late = [stray for stray in noise if stray.while_ending and not stray.before_messages]
    if len(noise) > len(late):
        yield _noise(seen, noise, max(attempt.stray_count for attempt in seen.attempts))
    elif late:
        yield _noise_at_exit(seen, late)
    if any(attempt.byte_order_mark for attempt in attempts):
        yield diagnosis(
            "byte-order-mark",
            "it begins its output with a byte order mark",
            "stdout was opened as 'utf-8-sig', or by a shell of Windows",
            "open it as plain UTF-8; JSON has no such mark",
        )
    if any(attempt.carriage_returns for attempt in attempts):
        yield diagnosis(
            "carriage-returns",
            "it ends lines with CR LF",
            "text mode of Windows, or println of a library made for terminals; or a terminal in between (docker run -t)",
            "write a bare newline; in Python: sys.stdout.reconfigure(newline='\\n')",
        )
    for attempt in attempts:
        if attempt.outcome == "wrong id" or any("its id is" in answer.message for answer in attempt.answers):
            fault = next((answer.message for answer in attempt.answers if "its id is" in answer.message), "")
            yield diagnosis(
                "wrong-id",
                f"its response does not carry the id of the request: {fault}",
                "the id was turned into a string, or counted anew, on its way through the server",
                "send the id back as it came: the same value and the same JSON type",
            )


def _reason(stray: StrayLine) -> str:
    return stray.detail.partition(": ")[2] or stray.detail


def _rules_of_malformed(stray: StrayLine) -> tuple[str, ...]:
    """The rule about the member that is wrong, which the detail begins with."""
    of_members = {'"id"': "JR-06", '"jsonrpc"': "JR-01", '"params"': "JR-11", '"error"': "JR-08"}
    return tuple(rule for member, rule in of_members.items() if _reason(stray).startswith(member)) or ("JR-07",)


_NOISE: Final = {"text", "log", "installer", "traceback", "terminal codes", "other JSON", "too long"}


def _noise(seen: Observations, noise: Sequence[StrayLine], count: int) -> Diagnosis:
    kinds = {stray.kind for stray in noise}
    placed = next((stray.source for stray in noise if stray.source), None)
    before = all(stray.before_messages for stray in noise)
    when = "before the first message" if before else "between messages"
    fix = "send it to stderr instead" + _by_runtime(seen, ": print(..., file=sys.stderr)", ": console.error(...)", "")
    if placed:
        cause = f"it is printed here: {placed}"
    elif "installer" in kinds:
        cause = "a package manager that starts the server prints what it does"
        fix = (
            "install the server first and start it directly, or silence the wrapper: npm run --silent, npx --quiet, uv run --quiet"
        )
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
        cause = "a banner in colours, made for a terminal"
        fix = f"leave it out, or {fix}; NO_COLOR=1 does not help, because the text is the problem and not its colour"
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
        cause = _by_runtime(seen, "print() for debugging", "console.log() for debugging", "text that is printed while it works")
    number = "one line on stdout is not a message" if count == 1 else f"{count} lines on stdout are not messages"
    return diagnosis("noise-on-stdout", f"{number}, {when}", cause, fix, _lines(noise))


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
        f"it writes to stdout while it exits{f' {when}' if when else ''}, and what it writes is not a message",
        f"it is printed here: {placed}" if placed else "a signal handler or an exit hook prints to stdout",
        "send it to stderr instead" + _by_runtime(seen, ": print(..., file=sys.stderr)", ": console.error(...)", ""),
        _lines(late),
    )


# What it speaks


def _judge_eras(seen: Observations, first: Attempt, probe: Attempt | None) -> Iterator[Diagnosis]:
    refusals = [each for each in seen.attempts if each.purpose in {"handshake", "revision"}]
    strange = [each for each in refusals if each.outcome == "strange revision"]
    modern = probe is not None and probe.works
    if strange:
        yield diagnosis(
            "strange-revision",
            f"asked for {strange[0].revision}, it chose {strange[0].chosen[0]!r}, which does not exist",
            "the version of the protocol was confused with another number, such as its own",
            f'answer with the version that was asked for, or with the newest that it speaks, such as "{LATEST_LEGACY}"',
        )
    refused = [each for each in refusals if each.outcome == "refused"]
    if refused and not modern and len(refused) == len(refusals):
        yield diagnosis(
            "no-common-revision",
            f"it refuses every revision: {_error_of(refused[0])}",
            "it compares the version with a list of its own, or wants something else before it agrees",
            "answer initialize with a result that names a version it does speak; the client decides whether that will do",
        )
    elif refused and first.works:
        names = ", ".join(each.revision for each in refused)
        yield diagnosis(
            "revision-refused",
            f"it answers initialize for {names} with an error: {_error_of(refused[0])}",
            "it compares the version with a list of its own",
            "answer with a result that names a version it does speak; older hosts can then decide",
        )
    unusable = [each for each in (first, probe) if each is not None and each.outcome == "unusable" and not _is_explained(each)]
    if unusable and (not first.works or unusable[0] is first):
        yield diagnosis(
            "bad-answer",
            f"its response to {unusable[0].answers[0].method} is not valid: {unusable[0].answers[0].message}",
            "the result was put together by hand, or is of another protocol",
            "the result of initialize has protocolVersion, capabilities and serverInfo (name, version)",
            rules=("LC-03",) if unusable[0] is first else ("VN-06",),
        )
    if probe is None:
        return
    if modern and not first.works:
        how = "does not respond to" if first.outcome in _BEFORE_OPENING else "refuses" if first.outcome == "refused" else "fails at"
        yield diagnosis(
            "modern-only",
            f"it speaks {LATEST_MODERN} and {how} initialize",
            "its library serves the stateless revision alone",
            "serve both eras: most hosts of today begin with initialize",
            rules=() if first.outcome == "refused" else None,  # DE-09: a refusal is what the rule asks for
        )
    elif first.works and probe.outcome == "gone":
        yield diagnosis(
            "dies-on-probe",
            f"it exits when server/discover comes before initialize ({_end_of(probe)})",
            "an unknown first message is taken for a fatal error",
            "answer an unknown method with error -32601 and go on, also before initialize",
            telling_lines(probe.stderr),
        )
    elif first.works and probe.outcome in _BEFORE_OPENING:
        yield diagnosis(
            "probe-unanswered",
            "it does not respond to server/discover",
            "messages before initialize are ignored instead of refused",
            "answer an unknown method with error -32601, also before initialize; some hosts send this first and wait for seconds",
        )


def _is_explained(attempt: Attempt) -> bool:
    return attempt.echoes or any(
        stray.kind in {"content-length", "malformed message", "not UTF-8", "pretty-printed"} for stray in attempt.strays
    )


def _error_of(attempt: Attempt) -> str:
    answer = attempt.answers[0]
    return f"{answer.message} ({answer.code})"


# What it offers


def _judge_offer(opened: Attempt) -> Iterator[Diagnosis]:
    later = opened.answers[1:]
    gone = [answer for answer in later if answer.took is None]
    if gone and opened.exit is not None:
        yield _exits_after_opening(opened, gone[0])
        return
    faults = opened.listed.faults if opened.listed is not None else ()
    failed = [answer for answer in later if answer.took is None or (not answer.usable and answer.method != "ping")]
    if faults:  # said in more detail below
        failed = [answer for answer in failed if answer.method != "tools/list"]
    if failed and not _is_explained(opened):
        yield _list_failed(opened, failed)
    if faults:
        yield diagnosis(
            "bad-tool",
            f"the tool {faults[0].tool!r}: {faults[0].fault}" + (f"; and {len(faults) - 1} more" if len(faults) > 1 else ""),
            "the description of the tool was written by hand, or made from a type that is not an object",
            'give each tool a unique name of A-Z a-z 0-9 _ - . and an inputSchema with "type": "object"',
            tuple(f"{fault.tool}: {fault.fault} ({fault.rule})" for fault in faults[:_EVIDENCE]),
            rules=tuple(dict.fromkeys(fault.rule for fault in faults)),
        )
    missing = sorted({name for answer in opened.answers for name in answer.missing})
    if missing:
        yield diagnosis(
            "incomplete-result",
            f"results without {', '.join(missing)}",
            "the server was written by hand for a draft of the revision",
            f"every result of {LATEST_MODERN} has resultType, and a list ttlMs and cacheScope as well",
        )


def _exits_after_opening(opened: Attempt, unanswered: Answer) -> Diagnosis:
    explained = judging_starts.explanation(opened.stderr)
    cause, fix = explained or (
        "it serves one message and exits, or what comes after the opening makes it fail",
        "read the next line in a loop until the end of the input",
    )
    return diagnosis(
        "exits-after-opening",
        f"it responds to {opened.answers[0].method} and exits ({_end_of(opened)}) when {unanswered.method} follows",
        cause,
        fix,
        telling_lines(opened.stderr),
    )


def _list_failed(opened: Attempt, failed: Sequence[Answer]) -> Diagnosis:
    answer = failed[0]
    rules: tuple[str, ...] = ()
    if answer.took is None:
        cause = "the handler waits for something that does not come, or fails without sending an error"
        fix = "respond to every request, with an error if there is no result"
        rules = ("JR-16",)
    elif answer.code == _METHOD_NOT_FOUND:
        cause = "the capability is declared, but the method is missing"
        fix = "declare only the capabilities that the server has, or add the method"
    elif answer.code is not None:
        cause, fix = judging_starts.explanation(opened.stderr) or (
            "the server failed while it made the list",
            "look at the server's log; `twopipes list` sends the same request",
        )
    else:
        cause = "an entry of the list does not have the members that its type requires"
        fix = "give each entry the members of its type; `twopipes list` shows what a client sees"
        rules = (_RULE_OF_ENTRIES[answer.method],)
    told = "; ".join(f"{each.method} {_how_it_failed(each)}" for each in failed)
    return diagnosis("list-failed", told, cause, fix, telling_lines(opened.stderr), rules=rules)


def _how_it_failed(answer: Answer) -> str:
    if answer.took is None:
        return "gets no response"
    return f"fails: {answer.message}" + (f" ({answer.code})" if answer.code is not None else "")


def _judge_speed(seen: Observations) -> Iterator[Diagnosis]:
    # The quickest of all starts: the first may have found cold disks, and any of them a busy machine.
    answered = min((each.answered for each in seen.attempts if each.works and each.answered is not None), default=0.0)
    if answered > seen.slow:
        fetches = any(layer.package and layer.runtime for layer in seen.resolution.layers)
        yield diagnosis(
            "slow-start",
            f"the first response takes {answered:.1f} s; some hosts give up after a few seconds",
            "a package was fetched, or is looked up at every start" if fetches else "large imports, or work before it serves",
            "install it and start it directly" if fetches else "import and connect to other things when the first call needs them",
        )


# How it ends


def _judge_ends(seen: Observations) -> Iterator[Diagnosis]:
    regular = [each for each in seen.attempts if each.ending is not None and each.outcome != "not started"]
    for attempt in regular:
        ending = attempt.ending
        if ending is None:
            continue
        if ending.took is None and ending.asked_by == "eof":
            # One that never responded may still be starting: it has not come to read its input.
            if attempt.answered is None:
                continue
            yield diagnosis(
                "ignores-eof",
                f"it keeps running when its input has ended, until {ending.ended_by}",
                "it no longer reads stdin, or a thread or a timer keeps the process alive",
                "exit when stdin ends; several hosts never kill a server, and copies of it pile up",
            )
        elif ending.took is None:
            yield diagnosis(
                "ignores-sigterm",
                "it keeps running when it receives SIGTERM, until SIGKILL",
                "a handler for the signal that does not exit, or a wrapper (a shell, a container) that does not pass it on",
                "exit on SIGTERM; in a shell script start the server with exec; in a container use --init",
            )
        elif (
            ending.asked_by == "eof"
            and attempt.works
            and ending.exit is not None
            and _is_failure(ending.exit.code, ending.exit.signal)
        ):
            yield diagnosis(
                "fails-at-eof",
                f"at the end of its input it exits with {ending.exit.text}",
                "the end of the input is taken for an error",
                "the end of the input is how every conversation ends: exit with code 0",
                telling_lines(attempt.stderr),
            )
        if ending.left_behind:
            yield diagnosis(
                "leaves-processes-behind",
                f"{_processes(len(ending.left_behind))} after it has exited; the doctor stopped what it found",
                "it starts programs that do not end with it, or a wrapper exits before the server does",
                "stop what it started when its own input ends, or start the server without the wrapper",
                tuple(f"{process.pid}: {process.command}" for process in ending.left_behind[:_EVIDENCE]),
            )


def _is_failure(code: int | None, signal: str | None) -> bool:
    return signal is not None or code not in {0, None}


def _processes(count: int) -> str:
    return "one process keeps running" if count == 1 else f"{count} processes keep running"


# Words


def _by_runtime(seen: Observations, python: str, node: str, other: str) -> str:
    return {"python": python, "node": node}.get(seen.resolution.runtime or "", other)


def _lines(strays: Sequence[StrayLine]) -> tuple[str, ...]:
    unique = list(dict.fromkeys(stray.text[:_LONGEST] for stray in strays))
    return tuple(unique[:_EVIDENCE])


def _end_of(attempt: Attempt) -> str:
    return "its output ended" if attempt.exit is None else attempt.exit.text
