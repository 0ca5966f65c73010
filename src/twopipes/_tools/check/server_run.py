"""The check of a server: finds out which revisions it speaks, runs the probes in groups, and judges all messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from twopipes._codes import HEADER_MISMATCH
from twopipes._protocol.revisions import ALL, MODERN
from twopipes._rules.table import RULES, over
from twopipes._tools.check.conversation import LiveConversation
from twopipes._tools.check.explore import explored
from twopipes._tools.check.idle import IdleControl
from twopipes._tools.check.messages import CannotOpen, NoResponse
from twopipes._tools.check.passive import judged, judged_in_any
from twopipes._tools.check.probe import Case, Features, Permissions, Probe, all_probes, no_call, no_such_tool, revisions_for
from twopipes._tools.check.server_source import ServerTarget
from twopipes._tools.check.sharing import ProbeGroup, SharedConversation, plan_groups
from twopipes._tools.check.verdict import CheckResult, Skip, Verdict, defect
from twopipes.errors import ChannelBroken, StartFailed, TwopipesError

# Concurrent conversations, each with its own process. A server uses about one core while it starts, and little afterwards.
_AT_ONCE = 6
# Requests without a response, of one section in one revision and in total, after which the other probes are skipped: a server that
# does not respond must not cost minutes.
_MAX_UNANSWERED = 8
_MAX_UNANSWERED_IN_ALL = 40
# What a probe may need besides a capability of the server.
_NEEDS = {"process", "socket", "stream", "http", "call", "tool", "question"}
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
    on_progress: Callable[[str], object] | None = None,
    probes: Sequence[Probe] | None = None,
) -> CheckResult:
    """Check a server.

    Args:
        target: The server.
        revisions: The revisions to try.
        wanted: The ids of the rules to judge; all by default.
        permissions: The tools that may be called.
        on_progress: Called with a short text for each step.
        probes: The probes to run instead of all.

    Raises:
        StartFailed: The command cannot be started.
        ChannelBroken: The address refuses connections.
    """
    run = _Run(
        target,
        revisions=[each for each in ALL if each in revisions],
        wanted=over("http" if target.is_http else "stream", RULES if wanted is None else wanted),
        permissions=permissions or Permissions(),
        on_progress=on_progress or (lambda _text: None),
    )
    return await run.run(all_probes() if probes is None else probes)


class _Run:
    def __init__(
        self,
        target: ServerTarget,
        *,
        revisions: Sequence[str],
        wanted: set[str],
        permissions: Permissions,
        on_progress: Callable[[str], object],
    ) -> None:
        self.target = target
        self.revisions = revisions
        self.wanted = wanted
        self.permissions = permissions
        self.on_progress = on_progress
        self.features: dict[str, Features] = {}
        self.outcome = CheckResult(peer=target.description, side="server")
        self._unopened: list[LiveConversation] = []
        self._unanswered: Counter[tuple[str, str]] = Counter()
        self._idle = IdleControl(target)
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._unknown = set(revisions)
        self._planned = asyncio.Event()
        self._first_groups: dict[str, ProbeGroup] = {}
        self._other_groups: list[ProbeGroup] = []

    async def run(self, probes: Sequence[Probe]) -> CheckResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.on_progress("detecting revisions")
        if self.revisions:
            await _all_of([*(self._run_revision(each, probes) for each in self.revisions), self._run_other_groups()])
        outcome = self.outcome
        outcome.revisions = [each for each in self.revisions if each in self.features]
        opened = [each for each in self.target.conversations if each.judged and each not in self._unopened]
        outcome.verdicts += judged([(each.entries, each.revision) for each in opened], side="server", wanted=self.wanted)
        outcome.verdicts += judged_in_any([each.entries for each in self._unopened], side="server", wanted=self.wanted)
        if self.target.is_http:
            outcome.verdicts = [each for each in outcome.verdicts if not _is_about_headers(each)]
        outcome.finish(self.wanted)
        outcome.took = loop.time() - began
        return outcome

    # Revisions and features

    async def _run_revision(self, revision: str, probes: Sequence[Probe]) -> None:
        """Try to open one revision. When all are known, continue in the same conversation with a group that can share it."""
        async with self._room:
            conversation = await self._open_revision(revision)
        try:
            self._unknown.discard(revision)
            if not self._unknown:
                self._plan(probes)
            await self._planned.wait()
            if group := self._first_groups.get(revision):
                await self._run_group(group, conversation)
        finally:
            await conversation.close()

    def _plan(self, probes: Sequence[Probe]) -> None:
        spoken = [each for each in self.revisions if each in self.features]
        tries: list[tuple[Probe, str]] = []
        for probe in probes:
            rules = [RULES[rule] for rule in probe.rules if rule in RULES and rule in self.wanted]
            tries += [(probe, revision) for revision in revisions_for(rules, probe.revisions, spoken)]
        for group in plan_groups(tries):
            if not group.is_common or self._first_groups.setdefault(group.revision, group) is not group:
                self._other_groups.append(group)
        self._planned.set()

    async def _run_other_groups(self) -> None:
        await self._planned.wait()
        await _all_of([self._run_group(group) for group in self._other_groups])

    async def _open_revision(self, revision: str) -> LiveConversation:
        conversation = self.target.attempts[revision] = await self.target.open()
        try:
            await conversation.open(revision)
            features = await _listed(conversation)
            await self._find_harmless_method(conversation, revision, features)
            self.features[revision] = features
        except CannotOpen as error:
            self.outcome.not_spoken[revision] = str(error)
            self._unopened.append(conversation)
            await conversation.close()
        except BaseException:
            await conversation.close()
            raise
        return conversation

    async def _find_harmless_method(self, conversation: LiveConversation, revision: str, features: Features) -> None:
        if revision in MODERN:
            return  # the server has answered server/discover
        with suppress(NoResponse):
            if (await conversation.request("ping")).is_result:
                return
        for method, _, capability in _LISTS.values():
            if features.has(capability) and method not in features.failed:
                self.target.harmless[revision] = method
                return

    # Probes

    async def _run_group(self, group: ProbeGroup, conversation: LiveConversation | None = None) -> None:
        shared = SharedConversation(self.target, group, conversation)
        async with self._room:
            try:
                await self._run_probes(group, shared)
            finally:
                await shared.renew()

    async def _run_probes(self, group: ProbeGroup, shared: SharedConversation) -> None:
        """Run the probes of a group. A failure in a reused conversation counts only if a fresh one shows it, too."""
        doubtful: list[tuple[Probe, Case]] = []
        for probe in group.probes:
            self.on_progress(f"{probe.section} in {group.revision}: {probe.name}")
            case, is_doubtful = await self._try(probe, group.revision, shared)
            if is_doubtful and shared.is_reused:
                doubtful.append((probe, case))
            else:
                self.outcome.verdicts += case.verdicts
            if doubtful and not group.judged:
                # These probes break rules themselves, so one may disturb the next: retry at once.
                await self._retry(doubtful, shared)
                doubtful = []
        await self._retry(doubtful, shared)

    async def _retry(self, doubtful: Sequence[tuple[Probe, Case]], shared: SharedConversation) -> None:
        if doubtful:
            await shared.renew()
        for probe, case in doubtful:
            again = case if self._why_stop(probe, case.revision) else (await self._try(probe, case.revision, shared))[0]
            self.outcome.verdicts += again.verdicts

    def _why_stop(self, probe: Probe, revision: str) -> str:
        """Return why no more requests are sent, or nothing."""
        if self._unanswered[probe.section, revision] >= _MAX_UNANSWERED:
            return "the server left too many requests of this section without a response"
        return "the server left too many requests without a response" if self._unanswered.total() >= _MAX_UNANSWERED_IN_ALL else ""

    async def _try(self, probe: Probe, revision: str, shared: SharedConversation) -> tuple[Case, bool]:
        """Run a probe. Return the case, and whether something other than the server may be the cause of its outcome."""
        case = Case(probe, target=self.target, revision=revision, features=self.features[revision], permissions=self.permissions)
        case.restrict_to(self.wanted)
        try:
            reason = self._missing(probe, revision) or self._why_stop(probe, revision)
            if not reason:
                if "question" in probe.needs and not (await explored(case)).questions:
                    case.give_up("no tool that may be called asks its client anything; name one with --allow-tool")
                if not probe.opens_own:
                    case.use(await shared.acquire(probe))
                await probe.body(case)
                reason = "the probe found nothing to judge the rule by"
        except NoResponse as silence:
            reason = str(silence)
            if probe.silence_fails and await case.was_ignored(silence):
                fix = "Respond to every request; reject an invalid one with an error."
                case.fail_the_rest(f"{reason}, and a later one was answered", fix=fix)
        except Skip as skip:
            reason = str(skip)
        except StartFailed as error:
            reason = f"the server could no longer be started: {error}"
        except ChannelBroken as error:
            reason = f"the server could no longer be reached: {error}"
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
            await self._compare_with_idle(case, silent_for)
        return case, bool(unanswered) or case.has_failed

    async def _compare_with_idle(self, case: Case, silent_for: float | None) -> None:
        """Withdraw failures of a server that exits by itself, or that had not started yet."""
        if (lived := case.left_after) is not None and await self._idle.exits_by_itself(case.revision, lived):
            case.withdraw("the server exits by itself, even if it gets no requests")
        if silent_for is not None and await self._idle.starts_slowly(case.revision, silent_for):
            case.withdraw("the server starts too slowly to know whether it would have responded; see --timeout")

    def _missing(self, probe: Probe, revision: str) -> str:
        """Return why a probe cannot run, or nothing."""
        features = self.features[revision]
        callable_tools = {call.name for call in features.safe_calls(self.permissions)}
        for need in probe.needs:
            kind, _, name = need.partition(":")
            if kind == "process" and not self.target.is_process:
                return "it needs a process that the check starts, to see how it exits"
            if kind == "socket" and (self.target.is_process or self.target.is_http):
                return "it applies to sockets only"
            if kind == "stream" and self.target.is_http:
                return "it applies to streams of lines only, not to HTTP"
            if kind == "http" and not self.target.is_http:
                return "it applies to HTTP only"
            if kind == "call" and not callable_tools:
                return no_call()
            if kind == "tool" and name not in callable_tools:
                return no_such_tool(name)
            if kind not in _NEEDS and not features.has(need):
                return f"the server does not declare {need}"
        return ""


def _is_about_headers(verdict: Verdict) -> bool:
    """Return whether a verdict forbids -32020, which a recording cannot know to come over HTTP."""
    return verdict.outcome == "failed" and verdict.rule.id == "ER-06" and str(HEADER_MISMATCH) in verdict.why


async def _listed(conversation: LiveConversation) -> Features:
    features = Features(capabilities=conversation.capabilities)
    for name, (method, member, capability) in _LISTS.items():
        if features.has(capability):
            try:
                pages = [page async for page in conversation.pages(method)]
                setattr(features, name, [item for page in pages for item in page.items(member)])
                if not pages[0].is_result:
                    features.failed[method] = f"{method} got {pages[0].summary}"
            except NoResponse as error:
                features.failed[method] = str(error)
    return features


async def _all_of(waiting: Sequence[Any]) -> None:
    """Await all concurrently. The first failure cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for each in waiting:
                group.create_task(each)
    except BaseExceptionGroup as failures:
        first: BaseException = failures
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
