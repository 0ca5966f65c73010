"""Logging of servers."""

from __future__ import annotations

import re
from typing import Any

from twopipes._codes import INVALID_PARAMS, METHOD_NOT_FOUND
from twopipes._protocol.revisions import LEGACY, META_LOG_LEVEL, META_SUBSCRIPTION_ID, MODERN
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.messages import ReceivedLine, Response
from twopipes._tools.check.probe import Case, SafeCall, probe
from twopipes._tools.check.samples import CHANGING
from twopipes._tools.check.setups import stop_listening
from twopipes._tools.check.verdict import Quote, Skip

_LOG = "notifications/message"
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_UNKNOWN_LEVEL = "loud"
_NO_LOGS = "no tool that may be called sends log messages"
# Tools that are called to find one that logs.
_CALLS = 12
# Names of variables that hold secrets, and the length from which on a value does not occur by chance.
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|(API|ACCESS|PRIVATE)_?KEY", re.IGNORECASE)
_SECRET_LENGTH = 8


@probe("LG-01", "LG-02", needs="call", section_only=True)
async def log_messages_are_declared_and_complete(case: Case) -> None:
    """A tool that logs is called with the lowest level."""
    _, logs = await _logging_call(case)
    why = f"a tool sent {len(logs)} log messages without declared logging"
    case.expect("LG-01", case.features.has("logging"), why, about=logs[0])
    for line in logs:
        fault = _fault(line.params)
        case.expect("LG-02", not fault, f"a log message {fault}", about=line)


@probe("LG-03", needs="logging", section_only=True)
async def the_level_of_the_session_counts(case: Case) -> None:
    """The level is set to debug, warning and debug, and a tool that logs is called after each."""
    conversation = case.conversation
    response = await _set_level(conversation, "debug")
    is_empty = response.is_result and not set(response.result) - {"_meta"}
    if not case.expect("LG-03", is_empty, f"logging/setLevel got {response.summary}, not an empty result", about=response):
        return
    call, everything = await _logging_call(case)
    if not _below("warning", everything):
        raise Skip("no tool that may be called sends a log message below warning, so the level makes no difference")
    await _set_level(conversation, "warning")
    some, _ = await _logged(conversation, call)
    case.forbid("LG-03", _below("warning", some), "a message of a lower level was sent after the level was set to warning")
    await _set_level(conversation, "debug")
    again, _ = await _logged(conversation, call)
    why = f"after the level was set to debug again, {len(again)} messages were sent; before there were {len(everything)}"
    case.expect("LG-03", len(again) >= len(some) and again, why)


@probe("LG-04", needs="logging", section_only=True, silence_fails=True)
async def an_unknown_level_is_rejected(case: Case) -> None:
    """logging/setLevel is sent with an unknown level."""
    response = await _set_level(case.conversation, _UNKNOWN_LEVEL)
    case.expect_code("LG-04", response, INVALID_PARAMS, f"logging/setLevel with the unknown level {_UNKNOWN_LEVEL!r}")


@probe("LG-05", needs="call", section_only=True)
async def nothing_is_logged_without_a_level(case: Case) -> None:
    """Tools are called without a log level, and with one to see whether they log."""
    for call in _calls(case):
        stray, _ = await _logged(case.conversation, call)
        if stray or (await _logged(case.conversation, call, "debug"))[0]:
            case.forbid("LG-05", stray, f"a call of {call.name} without {META_LOG_LEVEL} in its _meta caused log messages")
            return
    raise Skip(_NO_LOGS)


@probe("LG-06", needs="call", section_only=True)
async def the_level_of_the_request_counts(case: Case) -> None:
    """A tool that logs is called with the level error: nothing lower is sent, and nothing after the response."""
    call, _ = await _logging_call(case)
    logs, response = await _logged(case.conversation, call, "error")
    case.forbid("LG-06", _below("error", logs), "a request asked for messages from error on, and a lower one was sent")
    late = await case.conversation.quiet(since=response.received_line.number + 1)
    case.forbid("LG-06", _logs(late), "a log message was sent after the response to its request")


@probe("LG-07", section_only=True, needs="call")
async def logs_belong_to_their_request(case: Case) -> None:
    """With an open subscription, a tool that logs is called with and without a log level."""
    conversation = case.conversation
    listen = conversation.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    try:
        call, logs = await _logging_call(case)
        stray, _ = await _logged(conversation, call)
    finally:
        stop_listening(conversation, listen)
    tagged = [line for line in [*logs, *stray] if META_SUBSCRIPTION_ID in line.meta]
    case.forbid("LG-07", tagged, "a log message carries the id of a subscription")
    case.forbid("LG-07", stray, "a call without a log level caused log messages, because an earlier call had one")


@probe("LG-08", needs=("logging", "call"), section_only=True)
async def a_request_with_an_unknown_level_is_rejected(case: Case) -> None:
    """A call has an unknown level in its _meta."""
    response = await case.conversation.request("tools/call", case.safe_call().params, meta={META_LOG_LEVEL: _UNKNOWN_LEVEL})
    case.expect_code("LG-08", response, INVALID_PARAMS, f"a call with the unknown log level {_UNKNOWN_LEVEL!r}")


@probe("LG-09", section_only=True, silence_fails=True)
async def modern_revisions_have_no_set_level(case: Case) -> None:
    """In modern revisions logging/setLevel is an unknown method."""
    response = await _set_level(case.conversation, "info")
    case.expect_code("LG-09", response, METHOD_NOT_FOUND, "logging/setLevel, which modern revisions do not have,")


@probe("LG-10", needs=("process", "call"), section_only=True)
async def no_secret_is_logged(case: Case) -> None:
    """Tools are called, and their log messages are searched for secrets of the server's environment."""
    command = getattr(case.target, "command", None)
    environment: dict[str, str] = {} if command is None else command.child_environment()
    secrets = {name: value for name, value in environment.items() if _SECRET_NAME.search(name) and len(value) >= _SECRET_LENGTH}
    if not secrets:
        raise Skip("no variable in the environment of the server looks like a secret; give it one, such as --env API_TOKEN=...")
    await _set_lowest_level(case)
    logs = [line for call in _calls(case) for line in (await _logged(case.conversation, call, "debug"))[0]]
    if not logs:
        raise Skip(_NO_LOGS)
    for name, value in secrets.items():
        found = [Quote(received=(each.raw.replace(value.encode(), b"***"),)) for each in logs if value.encode() in each.raw]
        case.forbid("LG-10", found, f"the value of {name}, from the environment of the server, is in a log message")


def _calls(case: Case) -> list[SafeCall]:
    found = [call for call in case.safe_calls if call.name not in CHANGING]
    return sorted(found, key=lambda call: "log" not in call.name.lower())[:_CALLS]


async def _set_level(conversation: LiveConversation, level: str) -> Response:
    return await conversation.request("logging/setLevel", {"level": level})


async def _set_lowest_level(case: Case) -> None:
    if case.revision in LEGACY and case.features.has("logging"):
        await _set_level(case.conversation, "debug")


async def _logging_call(case: Case) -> tuple[SafeCall, list[ReceivedLine]]:
    """Return a tool that logs, and its messages at the lowest level; skip the probe if there is none."""
    await _set_lowest_level(case)
    for call in _calls(case):
        logs, _ = await _logged(case.conversation, call, "debug")
        if logs:
            return call, logs
    raise Skip(_NO_LOGS)


async def _logged(conversation: LiveConversation, call: SafeCall, level: str | None = None) -> tuple[list[ReceivedLine], Response]:
    """Call a tool and return its log messages and the response; the level is for modern revisions."""
    since = conversation.position
    meta = {META_LOG_LEVEL: level} if level is not None and conversation.revision in MODERN else None
    response = await conversation.request("tools/call", call.params, meta=meta)
    return _logs(conversation.received_lines[since:]), response


def _logs(lines: list[ReceivedLine]) -> list[ReceivedLine]:
    return [line for line in lines if line.method == _LOG]


def _below(level: str, logs: list[ReceivedLine]) -> list[ReceivedLine]:
    return [line for line in logs if line.params.get("level") in _LEVELS[: _LEVELS.index(level)]]


def _fault(params: dict[str, Any]) -> str:
    if params.get("level") not in _LEVELS:
        return f"has the level {params.get('level')!r}, which does not exist"
    if "data" not in params:
        return "has no data"
    return "" if isinstance(params.get("logger", ""), str) else "has a logger that is not a string"
