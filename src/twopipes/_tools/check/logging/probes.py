"""Logging, from the side of a client."""

from __future__ import annotations

import re
from typing import Any

from twopipes._protocol.revisions import LEGACY, META_LOG_LEVEL, META_SUBSCRIPTION_ID, MODERN
from twopipes._tools.check.conversation import LiveConversation, ReceivedLine, Response
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.samples import CHANGING
from twopipes._tools.check.verdict import Quote, Skip

_LOG = "notifications/message"
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_WARNING = _LEVELS.index("warning")
_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601
_NO_LEVEL = "loud"
# Tools that are called to find one that logs.
_CALLS = 12
# The names of variables that hold secrets, and how long a value is that does not occur by chance.
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(API|ACCESS|PRIVATE)_?KEY", re.IGNORECASE)
_SECRET_LENGTH = 8


@probe("LG-01", "LG-02", needs="call", section_only=True)
async def log_messages_are_declared_and_complete(case: Case) -> None:
    """A tool that logs is called by a client that wants to hear everything."""
    _, logs = await _chatty(case, case.conversation)
    case.expect(
        "LG-01",
        case.features.has("logging"),
        f"a tool sent {len(logs)} log messages, and the server did not declare logging",
        fix='Declare "logging":{} among the capabilities, or log to stderr.',
        about=logs[0],
    )
    for line in logs:
        case.expect(
            "LG-02",
            not (wrong := _what_is_wrong(line.params)),
            f"a log message {wrong}",
            fix="Send level (one of the eight of syslog) and data; logger, if at all, is a string.",
            about=line,
        )


@probe("LG-03", needs="logging", section_only=True)
async def the_level_of_the_session_counts(case: Case) -> None:
    """The level is set to warning and to debug, and a tool that logs is called after each."""
    conversation = case.conversation
    response = await conversation.request("logging/setLevel", {"level": "debug"})
    if not response.is_result or set(response.result) - {"_meta"}:
        why = f"logging/setLevel to debug got {response.summary}, not an empty result"
        case.expect("LG-03", condition=False, why=why, fix="Answer with an empty object as the result.", about=response)
        return
    call, everything = await _chatty(case, conversation)
    if all(_rank(line) >= _WARNING for line in everything):
        raise Skip("no tool that may be called sends a log message below warning, so that no level shows")
    await conversation.request("logging/setLevel", {"level": "warning"})
    some, _ = await _logged(conversation, call)
    low = next((line for line in some if _rank(line) < _WARNING), None)
    case.expect(
        "LG-03",
        low is None,
        "after the level was set to warning, a message of a lower level came",
        fix="Compare the level of each message with the one that was set last.",
        about=low,
    )
    await conversation.request("logging/setLevel", {"level": "debug"})
    again, _ = await _logged(conversation, call)
    case.expect(
        "LG-03",
        len(again) >= len(some) and (again or not everything),
        f"after the level was set to debug again, {len(again)} messages came; {len(everything)} had come at that level before",
        fix="Let logging/setLevel change the level as often as it is sent.",
    )


@probe("LG-04", needs="logging", section_only=True, silence_fails=True)
async def a_level_that_does_not_exist_is_refused(case: Case) -> None:
    """logging/setLevel with a word that is no level."""
    response = await case.conversation.request("logging/setLevel", {"level": _NO_LEVEL})
    case.expect(
        "LG-04",
        response.code == _INVALID_PARAMS,
        f"logging/setLevel to {_NO_LEVEL!r}, which is no level, got {response.summary}",
        fix="Answer with the error -32602.",
        about=response,
    )


@probe("LG-05", needs="call", section_only=True)
async def nothing_is_logged_unasked(case: Case) -> None:
    """Tools are called without a log level, and with one to see that they have something to say."""
    conversation = case.conversation
    for call in _calls(case):
        unasked, _ = await _logged(conversation, call)
        if unasked:
            case.expect(
                "LG-05",
                condition=False,
                why=f"a call of {call.name} without {META_LOG_LEVEL} in its _meta brought log messages",
                fix="Send log messages only for requests that carry a log level.",
                about=unasked[0],
            )
            return
        asked, _ = await _logged(conversation, call, "debug")
        if asked:
            case.expect("LG-05", condition=True, why="")
            return
    raise Skip(_NOBODY_LOGS)


@probe("LG-06", needs="call", section_only=True)
async def the_level_of_the_request_counts(case: Case) -> None:
    """A tool that logs is called with the level error: nothing lower comes, and nothing after the answer."""
    conversation = case.conversation
    call, _ = await _chatty(case, conversation)
    logs, response = await _logged(conversation, call, "error")
    low = next((line for line in logs if _rank(line) < _LEVELS.index("error")), None)
    case.expect(
        "LG-06",
        low is None,
        "a request asked for messages from error on, and a lower one came",
        fix="Compare the level of each message with that of the request.",
        about=low,
    )
    late = [line for line in await conversation.quiet(since=response.received_line.number + 1) if line.method == _LOG]
    case.expect(
        "LG-06",
        not late,
        "a log message came after the answer to the request that it belongs to",
        fix="Send what is to be logged before the answer, or not at all.",
        about=late[0] if late else None,
    )


@probe("LG-07", section_only=True, needs="call")
async def logs_stay_with_their_request(case: Case) -> None:
    """With a subscription open, a tool that logs is called with and without a log level."""
    conversation = case.conversation
    listening = conversation.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    try:
        call, logs = await _chatty(case, conversation)
        stray, _ = await _logged(conversation, call)
    finally:
        conversation.notify("notifications/cancelled", {"requestId": listening})
    tagged = next((line for line in [*logs, *stray] if META_SUBSCRIPTION_ID in _meta(line.params)), None)
    case.expect(
        "LG-07",
        tagged is None,
        "a log message carries the id of a subscription",
        fix="Leave subscriptionId out of log messages: they belong to the request that asked for them.",
        about=tagged,
    )
    case.expect(
        "LG-07",
        not stray,
        "a call that asked for no log messages brought some, because another one had asked before",
        fix="Look at the log level of the very request that a message is about.",
        about=stray[0] if stray else None,
    )


@probe("LG-08", needs=("logging", "call"), section_only=True)
async def a_request_for_a_level_that_does_not_exist_is_refused(case: Case) -> None:
    """A call whose _meta asks for a word that is no level."""
    response = await case.conversation.request("tools/call", case.safe_call().params, meta={META_LOG_LEVEL: _NO_LEVEL})
    case.expect(
        "LG-08",
        response.code == _INVALID_PARAMS,
        f"a call with the log level {_NO_LEVEL!r}, which is none, got {response.summary}",
        fix="Answer with the error -32602 before the tool is called.",
        about=response,
    )


@probe("LG-09", section_only=True, silence_fails=True)
async def set_level_is_gone(case: Case) -> None:
    """logging/setLevel on the stateless wire."""
    response = await case.conversation.request("logging/setLevel", {"level": "info"})
    case.expect(
        "LG-09",
        response.code == _METHOD_NOT_FOUND,
        f"logging/setLevel, which the stateless revisions do not have, got {response.summary}",
        fix="Answer with the error -32601; the level stands in the _meta of each request.",
        about=response,
    )


@probe("LG-10", needs=("process", "call"), section_only=True)
async def no_secret_is_logged(case: Case) -> None:
    """Tools are called, and what they log is searched for the secrets of the server's environment."""
    command = getattr(case.target, "command", None)
    environment: dict[str, str] = {} if command is None else command.child_environment()
    secrets = {name: value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _SECRET_LENGTH}
    if not secrets:
        raise Skip("no variable in the environment of the server looks like a secret; give it one, such as --env API_TOKEN=...")
    conversation = case.conversation
    await _listen_to_everything(case, conversation)
    logs: list[ReceivedLine] = []
    for call in _calls(case):
        found, _ = await _logged(conversation, call, "debug")
        logs += found
    if not logs:
        raise Skip(_NOBODY_LOGS)
    for name, value in secrets.items():
        told = next((line for line in logs if value.encode() in line.raw), None)
        case.expect(
            "LG-10",
            told is None,
            f"the value of {name}, from the environment of the server, stands in a log message",
            fix="Do not log what comes from the environment, or blank it.",
            about=None if told is None else Quote(received=(told.raw.replace(value.encode(), b"***"),)),
        )


_NOBODY_LOGS = "no tool that may be called sends log messages"


def _calls(case: Case) -> list[SafeCall]:
    """What may be called; first what sounds as if it logs."""
    found = [call for call in case.features.safe_calls(case.permissions) if call.name not in CHANGING]
    return sorted(found, key=lambda call: "log" not in call.name.lower())[:_CALLS]


async def _listen_to_everything(case: Case, conversation: LiveConversation) -> None:
    if case.revision in LEGACY and case.features.has("logging"):
        await conversation.request("logging/setLevel", {"level": "debug"})


async def _chatty(case: Case, conversation: LiveConversation) -> tuple[SafeCall, list[ReceivedLine]]:
    """A tool that logs, and what it logs for somebody who wants everything.

    Raises:
        Skip: None does.
    """
    await _listen_to_everything(case, conversation)
    for call in _calls(case):
        logs, _ = await _logged(conversation, call, "debug")
        if logs:
            return call, logs
    raise Skip(_NOBODY_LOGS)


async def _logged(conversation: LiveConversation, call: SafeCall, level: str | None = None) -> tuple[list[ReceivedLine], Response]:
    """What came while a tool worked; the level is for the stateless wire alone."""
    before = conversation.position
    meta = {META_LOG_LEVEL: level} if level is not None and conversation.revision in MODERN else None
    response = await conversation.request("tools/call", call.params, meta=meta)
    return [line for line in conversation.received_lines[before:] if line.method == _LOG], response


def _rank(line: ReceivedLine) -> int:
    level = line.params.get("level")
    return _LEVELS.index(level) if level in _LEVELS else len(_LEVELS)


def _what_is_wrong(params: dict[str, Any]) -> str:
    if params.get("level") not in _LEVELS:
        return f"has the level {params.get('level')!r}, which does not exist"
    if "data" not in params:
        return "has no data"
    return "" if isinstance(params.get("logger", ""), str) else "names its logger by something that is no string"


def _meta(params: dict[str, Any]) -> dict[str, Any]:
    found = params.get("_meta")
    return found if isinstance(found, dict) else {}
