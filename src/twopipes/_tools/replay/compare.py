"""Compares a replayed conversation with the recorded one, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import UNSET, Struct

from twopipes._tools.replay.script import LISTEN, PING, PROGRESS, Replay, is_not_compared, name_of
from twopipes._trace.conversation import Call
from twopipes._trace.matching import SERVER_INFO, Difference, Ignoring, differences, pair_questions, unmatched
from twopipes._trace.message import Message

FindingKind = Literal[
    "answer differs",
    "no answer",
    "additional answer",
    "question differs",
    "no question",
    "additional question",
    "notifications differ",
    "noise",
    "not sent",
]
_CANCELLED = "notifications/cancelled"


class Finding(Struct, frozen=True, kw_only=True):
    """One difference from the recording."""

    kind: FindingKind
    subject: str  # the message: tools/call add (id 3)
    method: str = ""
    id: Any = UNSET
    differences: tuple[Difference, ...] = ()  # the members that differ
    reason: str = ""  # for people


class Report(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    requests: int  # of the recorded client
    sent: int  # how many of them were sent again
    answers: int  # recorded responses to compare, without those to cancelled requests
    same: int  # how many of them were the same
    findings: tuple[Finding, ...]
    is_cut_short: bool = False  # the live server exited, or was given up, before everything was sent

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return not self.findings and not self.is_cut_short


def compare(replay: Replay) -> Report:
    """Compare the live conversation with the recorded one, as far as it got."""
    calls = [call for call in replay.connection.calls if call.direction == ">"]
    findings: list[Finding] = []
    same = 0
    for call in calls:
        if (live := replay.partners.get(call)) is None:
            if (reason := replay.not_sent.get(call.request)) is not None:
                findings.append(_about("not sent", call, reason=reason))
            continue
        found = [*_compare_response(replay, call, live), *_notifications_of(replay, call, live)]
        findings += found
        same += not found and call.answer is not None and not is_not_compared(call)
    findings += _compare_questions(replay)
    findings += _extra_responses(replay)
    findings += _unrelated_notifications(replay)
    findings += _noise(replay)
    sent = sum(call in replay.partners for call in calls)
    skipped = sum(call.request in replay.not_sent for call in calls)
    is_cut_short = replay.was_cut_short or sent + skipped < len(calls)
    answers = sum(call.answer is not None and not is_not_compared(call) for call in calls)
    return Report(requests=len(calls), sent=sent, answers=answers, same=same, findings=tuple(findings), is_cut_short=is_cut_short)


def _about(kind: FindingKind, call: Call, *, found: list[Difference] | None = None, reason: str = "") -> Finding:
    return Finding(kind=kind, subject=name_of(call), method=call.method, id=call.id, differences=tuple(found or ()), reason=reason)


def _compare_response(replay: Replay, call: Call, live: Call) -> Iterator[Finding]:
    if is_not_compared(call):
        return
    if call.answer is None:
        if live.answer is not None and not (call.method == LISTEN and live.answer.shape == "result"):
            yield _about("additional answer", call, found=[_only(live.answer)], reason="it has no response in the recording")
        return
    if live.answer is None:
        yield _about("no answer", call, reason="it has a response in the recording")
        return
    recorded, received = _value(call.answer), _value(live.answer)
    _rename_questions(recorded, received, replay.ignoring)
    ignoring = replay.ignoring
    if call.method != "server/discover":
        ignoring = Ignoring([*replay.ignored, SERVER_INFO], blanked=replay.recorded.header.redacted)
    if found := differences(recorded, received, ignoring):
        yield _about("answer differs", call, found=found)


def _value(answer: Message) -> dict[str, Any]:
    return {"error": answer.error} if answer.shape == "error" else {"result": answer.result}


def _only(answer: Message) -> Difference:
    ((path, value),) = _value(answer).items()
    return Difference(path, live=value)


def _rename_questions(recorded: dict[str, Any], live: dict[str, Any], ignoring: Ignoring) -> None:
    """Rename the keys of the live server's questions to the recorded ones. The server may choose any keys (MR-03)."""
    ours, theirs = recorded.get("result"), live.get("result")
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return
    asked, again = ours.get("inputRequests"), theirs.get("inputRequests")
    if isinstance(asked, dict) and isinstance(again, dict):
        names = {new: old for old, new in pair_questions(asked, again, ignoring).items()}
        live["result"] = {**theirs, "inputRequests": {names.get(key, key): value for key, value in again.items()}}


def _notifications_of(replay: Replay, call: Call, live: Call) -> Iterator[Finding]:
    """Compare progress and the notifications of a subscription, as sets."""
    if call.method == LISTEN:
        yield from _sets(replay, call.notifications, live.notifications, f" of {name_of(call)}", call)
    elif not is_not_compared(call) and live.answer is not None:
        yield from _sets(replay, call.progress, live.progress, f" of {name_of(call)}", call)


def _sets(
    replay: Replay, recorded: list[Message], live: list[Message], of: str, call: Call | None = None, *, missing_counts: bool = True
) -> Iterator[Finding]:
    methods = dict.fromkeys(message.method or "" for message in [*recorded, *live])
    for method in methods:
        ours = [_params(message) for message in recorded if message.method == method]
        theirs = [_params(message) for message in live if message.method == method]
        missing, additional = unmatched(ours, theirs, replay.ignoring, "params")
        if not missing_counts:
            missing = []
        if len(missing) == 1 and len(additional) == 1:
            found = differences(missing[0], additional[0], replay.ignoring, ("params",))
        else:
            found = [Difference("params", recorded=params) for params in missing]
            found += [Difference("params", live=params) for params in additional]
        if found:
            yield Finding(
                kind="notifications differ",
                subject=f"{method}{of}",
                method=method,
                id=UNSET if call is None else call.id,
                differences=tuple(found),
            )


def _params(message: Message) -> Any:
    params = message.params
    if params is UNSET:
        return {}
    if message.method == _CANCELLED and isinstance(params, dict):
        return {key: value for key, value in params.items() if key != "requestId"}  # the server chooses this id
    return params


def _compare_questions(replay: Replay) -> Iterator[Finding]:
    for call in replay.connection.calls:
        if call.direction == ">" or call.method == PING:
            continue
        live = replay.partners.get(call)
        if live is None:
            # The recorded server may have sent it after the point where this conversation ended.
            if replay.sent >= len(replay.lines) or call.request.index <= replay.lines[replay.sent].index:
                yield _about("no question", call, reason="the recorded server sent it")
            continue
        if found := differences(_params(call.request), _params(live.request), replay.ignoring, ("params",)):
            yield _about("question differs", call, found=found)
    for asked in replay.additional:
        yield _about("additional question", asked, found=[Difference("params", UNSET, _params(asked.request))])


def _extra_responses(replay: Replay) -> Iterator[Finding]:
    """Compare unexpected responses: a second response to a request, or one with an unknown id."""
    for live in replay.live.calls:
        recorded = (
            next((call for call, partner in replay.partners.items() if partner is live), None) if live.further_answers else None
        )
        known = len(recorded.further_answers) if recorded is not None else 0
        for answer in live.further_answers[known:]:
            yield _about("additional answer", live, found=[_only(answer)], reason="it already had a response")
    ours = [_value(message) for message in replay.recorded.messages if _is_orphan_response(message, replay)]
    theirs = [message for message in replay.live.messages if _is_orphan_response(message, None)]
    missing, additional = unmatched(ours, [_value(message) for message in theirs], replay.ignoring, "")
    subject = "a response without a request"
    for value in missing if not replay.was_cut_short else []:
        yield Finding(kind="no answer", subject=subject, differences=tuple(Difference(*item) for item in value.items()))
    for value in additional:
        found = tuple(Difference(path, live=member) for path, member in value.items())
        yield Finding(kind="additional answer", subject=subject, differences=found)


def _is_orphan_response(message: Message, replay: Replay | None) -> bool:
    if replay is not None and message.connection is not replay.connection:
        return False
    return message.is_answer and message.direction == "<" and message.call is None


def _unrelated_notifications(replay: Replay) -> Iterator[Finding]:
    """Compare notifications that do not belong to a call: logs, changed lists, updated resources."""
    ours = [message for message in replay.recorded.messages if message.connection is replay.connection and _is_unrelated(message)]
    theirs = [message for message in replay.live.messages if _is_unrelated(message)]
    # If the conversation was cut short, missing notifications mean nothing.
    yield from _sets(replay, ours, theirs, "", missing_counts=not replay.was_cut_short)


def _is_unrelated(message: Message) -> bool:
    if message.shape != "notification" or message.direction == ">":
        return False
    return message.method != PROGRESS and (message.call is None or (message.method == _CANCELLED and message.call.direction == "<"))


def _noise(replay: Replay) -> Iterator[Finding]:
    known = {
        message.data
        for message in replay.recorded.messages
        if message.shape == "noise" and message.direction == "<" and message.connection is replay.connection
    }
    new = [line for line in replay.noise if line not in known]
    if new:
        first = new[0].decode(errors="backslashreplace")
        count = len(new) + replay.noise_count - len(replay.noise)
        yield Finding(
            kind="noise",
            subject="lines on stdout that are not messages",
            differences=(Difference("line", UNSET, first),),
            reason=f"{count} of them; the recording has none" if not known else f"{count} that the recording does not have",
        )
