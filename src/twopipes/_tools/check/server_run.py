"""The check of a server: finds out what it speaks, runs the probes in groups side by side, and judges all that was said."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from twopipes._protocol.revisions import ALL, MODERN
from twopipes._rules.rule import Rule
from twopipes._rules.table import RULES, rules_for
from twopipes._tools.check.conversation import CannotOpen, LiveConversation, NoResponse
from twopipes._tools.check.explore import explored
from twopipes._tools.check.idle import IdleControl
from twopipes._tools.check.outcome import CheckResult
from twopipes._tools.check.passive import judged, judged_in_any
from twopipes._tools.check.probe import Case, Features, Permissions, Probe, all_probes, no_call, no_such_tool, revisions_for
from twopipes._tools.check.server_source import ServerTarget
from twopipes._tools.check.sharing import ProbeGroup, SharedConversation, plan_groups
from twopipes._tools.check.verdict import Skip, Verdict, defect
from twopipes.errors import ChannelBroken, StartFailed, TwopipesError

__all__ = ["CheckResult", "check_server"]

# Conversations at a time. A server costs about one core while it starts, and next to nothing afterwards.
AT_ONCE = 6
# Requests of one section in one revision, and of all, that are waited for in vain before the rest is left alone: a server that
# does not answer must not cost minutes.
_PATIENT_FOR = 8
_PATIENT_IN_ALL = 40
# Pages of a list that are asked for. A server whose list has no end is not worth more.
_PAGES = 20
_LISTS = {
    "tools": ("tools/list", "tools", "tools"),
    "resources": ("resources/list", "resources", "resources"),
    "templates": ("resources/templates/list", "resourceTemplates", "resources"),
    "prompts": ("prompts/list", "prompts", "prompts"),
}


async def check_server(
    target: ServerTarget,
    *,
    revisions: Sequence[str] = ALL,
    wanted: Iterable[str] | None = None,
    permissions: Permissions | None = None,
    at_once: int = AT_ONCE,
    on_progress: Callable[[str], object] | None = None,
    probes: Sequence[Probe] | None = None,
) -> CheckResult:
    """Checks a server.

    Args:
        target: The server.
        revisions: Try these alone.
        wanted: The ids of the rules to judge; all unless given.
        permissions: Which tools may be called.
        at_once: How many conversations there are at a time, each with a process of its own.
        on_progress: Told what is done, in a few words.
        probes: Instead of those of the table.

    Raises:
        StartFailed: The command cannot be started.
        ChannelBroken: Nobody listens there.
    """
    run = _Run(
        target,
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
        target: ServerTarget,
        *,
        revisions: Sequence[str],
        wanted: set[str],
        permissions: Permissions,
        at_once: int,
        on_progress: Callable[[str], object],
        probes: Sequence[Probe],
    ) -> None:
        self.target = target
        self.revisions = revisions
        self.wanted = wanted
        self.permissions = permissions
        self.on_progress = on_progress
        self.probes = [each for each in probes if wanted & set(each.rules)]
        self.features: dict[str, Features] = {}
        self.not_spoken: dict[str, str] = {}
        self.verdicts: list[Verdict] = []
        self._unopened: list[LiveConversation] = []
        self._unanswered: Counter[tuple[str, str]] = Counter()
        self._idle = IdleControl(target)
        self._room = asyncio.Semaphore(at_once)
        self._unknown = set(revisions)
        self._planned = asyncio.Event()
        self._first_groups: dict[str, ProbeGroup] = {}
        self._other_groups: list[ProbeGroup] = []

    async def run(self) -> CheckResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.on_progress("finding out what it speaks")
        if self.revisions:
            await _all_of([*map(self._attend, self.revisions), self._attend_to_the_rest()])
        spoken = [each for each in self.revisions if each in self.features]
        conversations = [
            conversation for conversation in self.target.conversations if conversation.judged and conversation not in self._unopened
        ]
        self.verdicts += judged(
            [(conversation.entries, conversation.revision) for conversation in conversations], side="server", wanted=self.wanted
        )
        self.verdicts += judged_in_any([conversation.entries for conversation in self._unopened], side="server", wanted=self.wanted)
        self._account_for_the_rest(spoken)
        order = list(RULES)
        self.verdicts.sort(key=lambda verdict: (order.index(verdict.rule.id), verdict.revision or ""))
        return CheckResult(
            peer=self.target.description,
            side="server",
            revisions=spoken,
            not_spoken=self.not_spoken,
            verdicts=self.verdicts,
            took=loop.time() - began,
        )

    # What it speaks, and what it has

    async def _attend(self, revision: str) -> None:
        """Finds out about one revision and, when all are known, goes on in the same conversation with what may share one."""
        async with self._room:
            conversation = await self._scout(revision)
        try:
            self._unknown.discard(revision)
            if not self._unknown:
                self._plan()
            await self._planned.wait()
            if group := self._first_groups.get(revision):
                await self._run_group(group, conversation)
        finally:
            await conversation.close()

    def _plan(self) -> None:
        for group in plan_groups(self._tries()):
            if not group.is_common or self._first_groups.setdefault(group.revision, group) is not group:
                self._other_groups.append(group)
        self._planned.set()

    async def _attend_to_the_rest(self) -> None:
        await self._planned.wait()
        await _all_of([self._run_group(group) for group in self._other_groups])

    async def _scout(self, revision: str) -> LiveConversation:
        conversation = self.target.attempts[revision] = await self.target.open()
        try:
            await conversation.open(revision)
            features = await _listed(conversation)
            await self._find_something_harmless(conversation, revision, features)
            self.features[revision] = features
        except CannotOpen as error:
            self.not_spoken[revision] = str(error)
            self._unopened.append(conversation)
            await conversation.close()
        except BaseException:
            await conversation.close()
            raise
        return conversation

    async def _find_something_harmless(self, conversation: LiveConversation, revision: str, features: Features) -> None:
        if revision in MODERN:
            return  # it has answered server/discover
        with suppress(NoResponse):
            if (await conversation.request("ping")).is_result:
                return
        for method, _, capability in _LISTS.values():
            if features.has(capability) and method not in features.failed:
                self.target.harmless[revision] = method
                return

    # The probes

    def _tries(self) -> list[tuple[Probe, str]]:
        spoken = [each for each in self.revisions if each in self.features]
        found = []
        for probe in self.probes:
            rules = [RULES[rule] for rule in probe.rules if rule in RULES and rule in self.wanted]
            found += [(probe, revision) for revision in revisions_for(rules, probe.revisions, spoken)]
        return found

    async def _run_group(self, group: ProbeGroup, conversation: LiveConversation | None = None) -> None:
        shared = SharedConversation(self.target, group, conversation)
        async with self._room:
            try:
                await self._run_probes(group, shared)
            finally:
                await shared.renew()

    async def _run_probes(self, group: ProbeGroup, shared: SharedConversation) -> None:
        """What is held against a server that others have spoken to before counts only if it is found in a fresh one, too."""
        doubtful: list[tuple[Probe, Case]] = []
        for probe in group.probes:
            self.on_progress(f"{probe.section} in {group.revision}: {probe.name}")
            case, is_shaken = await self._try(probe, group.revision, shared)
            if is_shaken and shared.is_reused:
                doubtful.append((probe, case))
            else:
                self.verdicts += case.verdicts
            if doubtful and not group.judged:
                # What the probes break here themselves may well be what the next one stumbles over.
                await self._look_again(doubtful, shared)
                doubtful = []
        await self._look_again(doubtful, shared)

    async def _look_again(self, doubtful: Sequence[tuple[Probe, Case]], shared: SharedConversation) -> None:
        if doubtful:
            await shared.renew()
        for probe, case in doubtful:
            again = case if self._impatience(probe, case.revision) else (await self._try(probe, case.revision, shared))[0]
            self.verdicts += again.verdicts

    def _impatience(self, probe: Probe, revision: str) -> str:
        """Why no more is waited for, or nothing."""
        if self._unanswered[probe.section, revision] >= _PATIENT_FOR:
            return "the server has left too many requests of this section without an answer"
        return "the server has left too many requests without an answer" if self._unanswered.total() >= _PATIENT_IN_ALL else ""

    def _case(self, probe: Probe, revision: str) -> Case:
        case = Case(probe, target=self.target, revision=revision, features=self.features[revision], permissions=self.permissions)
        case.restrict_to(self.wanted)
        return case

    async def _try(self, probe: Probe, revision: str, shared: SharedConversation) -> tuple[Case, bool]:
        """The case, and whether there is anything in it that something else may be to blame for."""
        case = self._case(probe, revision)
        try:
            reason = self._missing(probe, revision) or self._impatience(probe, revision)
            if not reason:
                if "question" in probe.needs and not (await explored(case)).questions:
                    case.give_up("no tool that may be called asks its client anything; name one by --allow-tool")
                if not probe.opens_own:
                    case.use(await shared.acquire(probe))
                await probe.body(case)
                reason = "the probe found nothing to judge it by"
        except NoResponse as silence:
            reason = str(silence)
            if probe.silence_fails and await case.was_ignored(silence):
                fix = "Answer every request; one that is wrong, with an error."
                case.fail_the_rest(f"{reason}, and a later one was answered", fix=fix)
        except Skip as skip:
            reason = str(skip)
        except StartFailed as error:
            reason = f"the server could not be started any more: {error}"
        except ChannelBroken as error:
            reason = f"the server could not be reached any more: {error}"
        except TwopipesError:
            raise
        except Exception as error:
            reason = defect(error)
        finally:
            silent_for = case.silence
            await case.close()
            unanswered = shared.release()
        self._unanswered[probe.section, revision] += unanswered
        case.skip_the_rest(reason)
        if case.has_failed:
            await self._compare_with_an_idle_one(case, silent_for)
        return case, bool(unanswered) or case.has_failed

    async def _compare_with_an_idle_one(self, case: Case, silent_for: float | None) -> None:
        """Withdraws what was held against a server that exits by itself, or had not started yet."""
        if (lived := case.left_after) is not None and await self._idle.exits_by_itself(case.revision, lived):
            case.withdraw("the server exits by itself, also if nothing is asked of it")
        if silent_for is not None and await self._idle.starts_slowly(case.revision, silent_for):
            case.withdraw("the server starts too slowly to tell whether it would have answered; see --timeout")

    def _missing(self, probe: Probe, revision: str) -> str:
        """Why a probe cannot be run, or nothing."""
        features = self.features[revision]
        for need in probe.needs:
            if need == "process":
                if not self.target.is_process:
                    return "it needs a process that we start, to see how that ends"
            elif need == "socket":
                if self.target.is_process:
                    return "it is about sockets"
            elif need == "call":
                if not features.safe_calls(self.permissions):
                    return no_call()
            elif need.startswith("tool:"):
                name = need.removeprefix("tool:")
                if all(call.name != name for call in features.safe_calls(self.permissions)):
                    return no_such_tool(name)
            elif need != "question" and not features.has(need):
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


async def _listed(conversation: LiveConversation) -> Features:
    features = Features(capabilities=conversation.capabilities)
    for name, (method, member, capability) in _LISTS.items():
        if not features.has(capability):
            continue
        try:
            setattr(features, name, await _all_pages(conversation, method, member))
        except (NoResponse, _NotListed) as error:
            features.failed[method] = str(error)
    return features


class _NotListed(Exception):
    """A list was answered with an error."""


async def _all_pages(conversation: LiveConversation, method: str, member: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    params: dict[str, Any] | None = None
    for _ in range(_PAGES):
        response = await conversation.request(method, params)
        if params is None and not response.is_result:
            raise _NotListed(f"{method} got {response.summary}")
        page = response.result.get(member)
        found += [each for each in page if isinstance(each, dict)] if isinstance(page, list) else []
        cursor = response.result.get("nextCursor")
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
