"""The check of a server: finds out what it speaks, runs the probes in groups side by side, and judges all that was said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from twopipes.check.judging import judged, judged_in_any
from twopipes.check.outcome import Outcome
from twopipes.check.probe import Case, Features, Permissions, Probe, all_probes, revisions_for
from twopipes.check.rule import Rule
from twopipes.check.rules import RULES, rules_for
from twopipes.check.subject import Subject
from twopipes.check.talk import CannotOpen, Talk, Unanswered
from twopipes.check.verdict import Skip, Verdict, defect
from twopipes.errors import ChannelBroken, StartFailed, TwopipesError
from twopipes.mcp.revisions import ALL, MODERN

__all__ = ["Outcome", "check_server"]

# Groups at a time. A server costs about one core while it starts, and next to nothing afterwards.
AT_ONCE = 6
# Requests of one conversation that are waited for in vain before it is given up for a fresh one, and how often that is done in
# one group: a server that does not answer must not cost minutes.
_PATIENT_FOR = 2
_RENEWALS = 2
# Pages of a list that are asked for. A server whose list has no end is not worth more.
_PAGES = 20
_LISTS = {
    "tools": ("tools/list", "tools", "tools"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
    "prompts": ("prompts/list", "prompts", "prompts"),
}


async def check_server(
    subject: Subject,
    *,
    revisions: Sequence[str] = ALL,
    wanted: Iterable[str] | None = None,
    permissions: Permissions | None = None,
    at_once: int = AT_ONCE,
    on_progress: Callable[[str], object] | None = None,
    probes: Sequence[Probe] | None = None,
) -> Outcome:
    """Checks a server.

    Args:
        subject: The server.
        revisions: Try these alone.
        wanted: The ids of the rules to judge; all unless given.
        permissions: Which tools may be called.
        at_once: How many groups of probes run at a time, each with a process of its own.
        on_progress: Told what is done, in a few words.
        probes: Instead of those of the table.

    Raises:
        StartFailed: The command cannot be started.
        ChannelBroken: Nobody listens there.
    """
    run = _Run(
        subject,
        revisions=[each for each in ALL if each in revisions],
        wanted=set(RULES) if wanted is None else set(wanted),
        permissions=permissions or Permissions(),
        at_once=at_once,
        on_progress=on_progress or (lambda _text: None),
        probes=all_probes() if probes is None else probes,
    )
    return await run.run()


class _Run:
    def __init__(
        self,
        subject: Subject,
        *,
        revisions: Sequence[str],
        wanted: set[str],
        permissions: Permissions,
        at_once: int,
        on_progress: Callable[[str], object],
        probes: Sequence[Probe],
    ) -> None:
        self.subject = subject
        self.revisions = revisions
        self.wanted = wanted
        self.permissions = permissions
        self.on_progress = on_progress
        self.probes = [each for each in probes if wanted & set(each.rules)]
        self.features: dict[str, Features] = {}
        self.not_spoken: dict[str, str] = {}
        self.verdicts: list[Verdict] = []
        self._unopened: list[Talk] = []
        self._room = asyncio.Semaphore(at_once)

    async def run(self) -> Outcome:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.on_progress("finding out what it speaks")
        await _all_of([self._scout(revision) for revision in self.revisions])
        spoken = [each for each in self.revisions if each in self.features]
        await _all_of([self._group(section, revision, group) for (section, revision), group in self._groups(spoken).items()])
        talks = [talk for talk in self.subject.talks if talk.judged and talk not in self._unopened]
        self.verdicts += judged([(talk.entries, talk.revision) for talk in talks], side="server", wanted=self.wanted)
        self.verdicts += judged_in_any([talk.entries for talk in self._unopened], side="server", wanted=self.wanted)
        self._account_for_the_rest(spoken)
        order = list(RULES)
        self.verdicts.sort(key=lambda verdict: (order.index(verdict.rule.id), verdict.revision or ""))
        return Outcome(
            peer=self.subject.description,
            side="server",
            revisions=spoken,
            not_spoken=self.not_spoken,
            verdicts=self.verdicts,
            took=loop.time() - began,
        )

    # What it speaks, and what it has

    async def _scout(self, revision: str) -> None:
        async with self._room:
            talk = await self.subject.open()
            try:
                await talk.open(revision)
                features = await _listed(talk)
                await self._find_something_harmless(talk, revision, features)
                self.features[revision] = features
            except CannotOpen as error:
                self.not_spoken[revision] = str(error)
                self._unopened.append(talk)
            finally:
                await talk.close()

    async def _find_something_harmless(self, talk: Talk, revision: str, features: Features) -> None:
        if revision in MODERN:
            return  # it has answered server/discover
        with suppress(Unanswered):
            if (await talk.request("ping")).is_result:
                return
        for method, _, capability in _LISTS.values():
            if features.has(capability) and method not in features.failed:
                self.subject.harmless[revision] = method
                return

    # The probes

    def _groups(self, spoken: Sequence[str]) -> dict[tuple[str, str], list[Probe]]:
        groups: dict[tuple[str, str], list[Probe]] = {}
        for probe in self.probes:
            rules = [RULES[rule] for rule in probe.rules if rule in RULES and rule in self.wanted]
            for revision in revisions_for(rules, probe.revisions, spoken):
                groups.setdefault((probe.section, revision), []).append(probe)
        return groups

    async def _group(self, section: str, revision: str, probes: Sequence[Probe]) -> None:
        alone = [probe for probe in probes if probe.fresh]
        together = [probe for probe in probes if not probe.fresh]
        waiting = [self._fresh(probe, revision) for probe in alone]
        await _all_of([*waiting, *([self._shared(section, revision, together)] if together else [])])

    async def _shared(self, section: str, revision: str, probes: Sequence[Probe]) -> None:
        async with self._room, AsyncExitStack() as stack:
            self.on_progress(f"{section} in {revision}")
            talk: Talk | None = None
            renewed = 0
            for probe in probes:
                case = self._case(probe, revision)
                reason = self._missing(probe, revision)
                if talk is not None and talk.unanswered >= _PATIENT_FOR:
                    renewed += 1
                    talk = None
                if not reason and renewed > _RENEWALS:
                    reason = "the server has left too many requests of this section without an answer"
                if not reason and (talk is None or not talk.is_usable):
                    try:
                        talk = await self.subject.open()
                        stack.push_async_callback(talk.close)
                        await talk.open(revision)
                    except (CannotOpen, ChannelBroken, StartFailed) as error:
                        reason = str(error)
                        talk = None
                await self._try(probe, case, talk, reason)

    async def _fresh(self, probe: Probe, revision: str) -> None:
        async with self._room:
            self.on_progress(f"{probe.section} in {revision}: {probe.name}")
            case = self._case(probe, revision)
            reason = self._missing(probe, revision)
            talk: Talk | None = None
            if not reason:
                try:
                    talk = await case.fresh_talk(can=probe.can, judged=probe.judged)
                except (CannotOpen, ChannelBroken, StartFailed) as error:
                    reason = str(error)
            await self._try(probe, case, talk, reason)

    def _case(self, probe: Probe, revision: str) -> Case:
        case = Case(probe, subject=self.subject, revision=revision, features=self.features[revision], permissions=self.permissions)
        case.keep_to(self.wanted)
        return case

    async def _try(self, probe: Probe, case: Case, talk: Talk | None, reason: str) -> None:
        try:
            if reason or talk is None:
                reason = reason or "there is no conversation"
            else:
                case.use(talk)
                await probe.body(case)
                reason = "the probe found nothing to judge it by"
        except Skip as skip:
            reason = str(skip)
        except TwopipesError as error:
            if not isinstance(error, ChannelBroken | StartFailed):
                raise
            reason = f"the server could not be reached any more: {error}"
        except Exception as error:  # noqa: BLE001 - one probe that breaks must not cost what all others find
            reason = defect(error)
        finally:
            await case.close()
        case.skip_the_rest(reason)
        self.verdicts += case.verdicts

    def _missing(self, probe: Probe, revision: str) -> str:
        """Why a probe cannot be run, or nothing."""
        features = self.features[revision]
        for need in probe.needs:
            if need == "process":
                if not self.subject.is_process:
                    return "it needs a process that we start, to see how that ends"
            elif need == "socket":
                if self.subject.is_process:
                    return "it is about sockets"
            elif need == "call":
                if not features.safe_calls(self.permissions):
                    return "no tool may be called: none is marked read-only or idempotent; name one by --allow-tool or --call"
            elif not features.has(need):
                return f"the server does not declare {need}"
        return ""

    def _account_for_the_rest(self, spoken: Sequence[str]) -> None:
        tried = {verdict.rule.id for verdict in self.verdicts}
        for rule in rules_for("server"):
            if rule.id in self.wanted and rule.id not in tried:
                self.verdicts.append(Verdict(rule=rule, outcome="skipped", why=_why_not(rule, spoken)))


def _why_not(rule: Rule, spoken: Sequence[str]) -> str:
    if reason := rule.why_untestable("server"):
        return reason
    if not any(rule.applies_in(revision) for revision in spoken):
        return f"the server does not speak a revision that has this rule ({rule.span})"
    return "nothing that was said has shown it"


async def _listed(talk: Talk) -> Features:
    features = Features(capabilities=talk.capabilities)
    for name, (method, member, capability) in _LISTS.items():
        if not features.has(capability):
            continue
        try:
            setattr(features, name, await _all_pages(talk, method, member))
        except Unanswered as error:
            features.failed[method] = str(error)
    return features


async def _all_pages(talk: Talk, method: str, member: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] | None = None
    for _ in range(_PAGES):
        answer = await talk.request(method, params)
        page = answer.result.get(member)
        found += [each for each in page if isinstance(each, dict)] if isinstance(page, list) else []
        cursor = answer.result.get("nextCursor")
        if not isinstance(cursor, str):
            break
        params = {"cursor": cursor}
    return found


async def _all_of(waiting: Sequence[Any]) -> None:
    """Awaits all of them side by side; the first that fails ends the others, and is what is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in waiting:
                group.create_task(each)
    except BaseExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
