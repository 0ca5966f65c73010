"""Passive judging: the judges of recordings, applied to every conversation of a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable

from msgspec.structs import replace

from twopipes._protocol.revisions import ALL, META_SUBSCRIPTION_ID
from twopipes._rules.table import RULES, over
from twopipes._tools.check.verdict import CheckResult, Side, Verdict
from twopipes._trace.conversation import Conversation, read_conversation
from twopipes._trace.findings import judge
from twopipes._trace.format import Entry, Event
from twopipes._trace.judges.table import JUDGES, Finding

_NAME = "the conversation"
# The sections about lines in general.
_ALL_LINES = ("FR", "JR")
# A rule counts as kept only if there was an occasion to break it. These rules have one only in messages with one of these texts.
_OCCASIONS: dict[str, tuple[bytes, ...]] = {
    **dict.fromkeys(("MR-02", "MR-03", "MR-04"), (b'"input_required"',)),
    **dict.fromkeys(("MR-05", "MR-06", "MR-08"), (b'"inputResponses"',)),
    "TL-11": (b'"structuredContent"',),
    **dict.fromkeys(("RS-02", "RT-01"), (b'"uri"',)),
    **dict.fromkeys(("CT-01", "CT-02"), (b'"type"',)),
    "CT-03": (b'"data"', b'"blob"'),
    "PM-03": (b'"role"',),
    "PG-01": (b'"nextCursor"',),
    "CP-03": (b'apabilities"',),
    "CP-07": (b'"extensions"',),
    "ER-09": (b"-32022",),
    "ER-10": (b"-32021",),
    "MT-01": (b'"_meta"',),
    "PR-01": (b'"progressToken"',),
    "SU-02": (META_SUBSCRIPTION_ID.encode(),),
}
# Rules about listed items have no occasion in an empty list.
_OF_ITEMS = {"TL-01", "TL-15", "RS-01", "PM-01"}
_EMPTY_LIST = re.compile(rb'"(?:tools|resources|resourceTemplates|prompts)"\s*:\s*\[\s*\]')
# Rules that can be broken only after the other side has cancelled an open request.
_AFTER_A_CANCEL = {"CA-04"}
# Rules whose judges detect a breach, but cannot show that there was none: responses to requests that a good conversation does not
# have, rare error codes, carriage returns (half of a rule), and structured content (which needs a validator).
_ONLY_BREACHES = {"VN-02", "ST-06", "ER-08", "FR-15", "TL-10"}


def passive_rules(side: Side) -> set[str]:
    """Return the ids of the rules that a conversation can show a side to have broken."""
    judges = [entry for entries in JUDGES.values() for entry in entries if entry.by in {None, side}]
    return {entry.rule for entry in judges if entry.rule in RULES and RULES[entry.rule].binds(side)}


def judged(conversations: Iterable[tuple[Iterable[Entry], str | None]], *, side: Side, wanted: Container[str]) -> list[Verdict]:
    """Return the verdicts about one side from all conversations, each given by its entries and its revision."""
    verdicts: list[Verdict] = []
    for entries, revision in conversations:
        verdicts += judged_conversation(read_conversation(_certain(entries)), revision=revision, side=side, wanted=wanted)
    return _merged(verdicts)


def judged_in_any(conversations: Iterable[Iterable[Entry]], *, side: Side, wanted: Container[str]) -> list[Verdict]:
    """Return the breaches in conversations that never opened: only those of every revision, since none was agreed on."""
    found = judged([(entries, None) for entries in conversations], side=side, wanted=wanted)
    return _merged(
        [
            replace(verdict, revision=None)
            for verdict in found
            if verdict.outcome == "failed" and verdict.rule.section in _ALL_LINES and set(verdict.rule.revisions) >= set(ALL[1:])
        ]
    )


def _certain(entries: Iterable[Entry]) -> Iterable[Entry]:
    # The start is known, so judges can rely on it. The start of a socket is marked like that of a process.
    entries = list(entries)
    if not any(isinstance(each, Event) and each.name == "spawn" for each in entries):
        yield Event(at=0.0, name="spawn")
    yield from entries


def judged_conversation(conversation: Conversation, *, revision: str | None, side: Side, wanted: Container[str]) -> list[Verdict]:
    """Return the verdicts about one side of one conversation: broken rules, and kept ones that there was an occasion to break.

    ``revision`` is for conversations that do not show it.
    """
    found = [finding for finding in judge(conversation) if finding.by == side and finding.rule in wanted]
    broken = {finding.rule for finding in found}
    verdicts = [verdict for finding in found if (verdict := _failed(finding, revision, side)) is not None]
    spoken = revision or next((each.revision for each in conversation.connections if each.revision in ALL), None)
    for name in sorted(_with_occasion(conversation, side) - broken):
        rule = RULES.get(name) if name in wanted else None
        if rule is not None and spoken is not None and rule.binds(side) and rule.applies_in(spoken):
            verdicts.append(Verdict(rule=rule.for_side(side), outcome="passed", revision=spoken, probe=_NAME))
    return verdicts


def _failed(finding: Finding, revision: str | None, side: Side) -> Verdict | None:
    if finding.rule not in RULES:
        return None
    rule = RULES[finding.rule].for_side(side)
    message = finding.message
    call = message.call
    sent = (call.request.data,) if call is not None and call.request is not message else ()
    spoken = revision or (call.revision if call is not None else None) or message.connection.revision
    if spoken is not None and not rule.applies_in(spoken):
        return None  # the revision of the run does not have this rule
    breach = Verdict(rule=rule, outcome="failed", revision=spoken, why=finding.what, fix=rule.fix, probe=_NAME)
    return replace(breach, sent=sent, received=(message.data,))


def _with_occasion(conversation: Conversation, side: Side) -> set[str]:
    """Return the rules that this side had an occasion to break."""
    mine = "<" if side == "server" else ">"
    found: set[str] = set()
    is_cancelled = False
    for message in conversation.messages:
        if message.direction == mine:
            found.update(
                entry.rule
                for entry in JUDGES.get(message.shape, ())
                if entry.looks_at(message)
                and (is_cancelled or entry.rule not in _AFTER_A_CANCEL)
                and any(each in message.data for each in _OCCASIONS.get(entry.rule, (b"",)))
                and not (entry.rule in _OF_ITEMS and _EMPTY_LIST.search(message.data))
            )
        elif message.method == "notifications/cancelled" and (call := message.call) is not None and not call.is_listen:
            is_cancelled |= call.answer is None or call.answer.index > message.index
    found -= _ONLY_BREACHES
    if any(message.direction == mine for message in conversation.messages):
        # A side that sent anything could also have sent an invalid line.
        found.update(
            entry.rule for shape in ("noise", "blank", "batch") for entry in JUDGES.get(shape, ()) if entry.by in {None, side}
        )
    return found


def _merged(verdicts: list[Verdict]) -> list[Verdict]:
    """Keep one pass for each rule and revision, and one failure for each different reason."""
    kept: dict[tuple[str, str | None, str, str], Verdict] = {}
    for verdict in verdicts:
        kept.setdefault((verdict.rule.id, verdict.revision, verdict.outcome, verdict.why), verdict)
    broken = {(verdict.rule.id, verdict.revision) for verdict in kept.values() if verdict.outcome == "failed"}
    return [
        verdict for verdict in kept.values() if verdict.outcome == "failed" or (verdict.rule.id, verdict.revision) not in broken
    ]


def check_conversation(conversation: Conversation, *, name: str, side: Side, wanted: Collection[str]) -> CheckResult:
    """Return what a recording shows about one side: broken rules, kept ones, and those that it cannot show."""
    outcome = CheckResult(peer=name, side=side)
    outcome.revisions = [each for each in ALL if any(connection.revision == each for connection in conversation.connections)]
    outcome.verdicts = _merged(judged_conversation(conversation, revision=None, side=side, wanted=wanted))
    shown, never = "the recording does not show it", "a recording cannot show it"
    passive = passive_rules(side)
    outcome.finish(over("stream", wanted), lambda rule: shown if rule.id in passive else never)
    return outcome
