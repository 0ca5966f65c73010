"""The examination: which processes are started, in which order, and what each is for. One at a time: two may want the same port."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct, structs

from twopipes._process.command import ServerCommand
from twopipes._process.environment import environment_of
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, META_SERVER_INFO, MODERN, is_modern
from twopipes._protocol.types import (
    ClientCapabilities,
    DiscoverResult,
    EmptyParams,
    Implementation,
    InitializeParams,
    InitializeResult,
    ServerCapabilities,
)
from twopipes._tools.doctor.clues import names_variable
from twopipes._tools.doctor.listing import ask_for_lists, missing_members
from twopipes._tools.doctor.observations import (
    Answer,
    Attempt,
    Listed,
    Observations,
    Outcome,
    Process,
    Purpose,
    Resolution,
    StartFailure,
    StrayLine,
)
from twopipes._tools.doctor.resolve import resolve
from twopipes._tools.doctor.stdout_reader import Heard
from twopipes._tools.doctor.stray_lines import source_of, with_assembled
from twopipes._tools.doctor.visit import Visit
from twopipes._version import __version__
from twopipes.errors import McpError, RemoteProtocolError, StartFailed, UnsupportedRevision

__all__ = ["DoctorTimeouts", "Examination", "Listener"]

_DOCTOR = Implementation("twopipes-doctor", __version__)
# Lines of stderr that are kept.
_STDERR_LINES = 100
_MOST_SHOWN = 30
# Seconds for the answer to anything but the handshake. Hosts that ask server/discover first wait 3 to 10 for it. A server that
# starts slowly gets three times what its handshake took, or what it took to fail.
_AFTERWARDS = 5.0
_TIMES = 3
# Halvings when a variable is looked for; more would mean more than a thousand of them.
_MOST_HALVINGS = 10


class DoctorTimeouts(Struct, frozen=True, kw_only=True):
    """How long anything may take, in seconds.

    Attributes:
        answer: For one answer.
        grace: For each step of an end.
        total: For all of it.
        slow: After so many, a first answer is late.
        quick: Leave the three older revisions out.
    """

    answer: float = 15.0
    grace: float = 3.0
    total: float = 120.0
    slow: float = 5.0
    quick: bool = False


class Listener(Protocol):
    """Is told of each step when it is over, and of each process before it is started."""

    def resolved(self, resolution: Resolution) -> None:
        """The command was looked for."""

    def begins(self, purpose: Purpose, revision: str) -> None:
        """A process is about to be started."""

    def tried(self, attempt: Attempt) -> None:
        """It is over."""


class _Opened(NamedTuple):
    outcome: Outcome
    answer: Answer
    chosen: tuple[str, ...] = ()
    name: str | None = None
    capabilities: ServerCapabilities | None = None


class Examination:
    """Examines one command.

    Args:
        command: What to start.
        patience: How long to wait.
        listener: Is told as it goes.
    """

    def __init__(self, command: ServerCommand, *, patience: DoctorTimeouts, listener: Listener) -> None:
        self._command = command
        self._patience = patience
        self._listener = listener
        self._attempts: list[Attempt] = []
        self._skipped: list[str] = []
        self._answer_within = patience.answer
        self._resolution = resolve(command)
        self._source = _read_source(self._resolution)

    async def run(self) -> Observations:
        """Does it. Cancelling is safe: the process that is there at the time is killed."""
        self._deadline = asyncio.get_running_loop().time() + self._patience.total
        resolution = self._resolution
        self._listener.resolved(resolution)
        if resolution.found is not None and resolution.folder_exists:
            await self._start_it()
        theirs = self._command.child_environment()
        return Observations(
            resolution=resolution,
            attempts=tuple(self._attempts),
            environment=self._command.environment,
            withheld=tuple(sorted(name for name in os.environ if name not in theirs)),
            slow=self._patience.slow,
            out_of_time=tuple(self._skipped),
        )

    async def _start_it(self) -> None:
        first = await self._try("handshake", LATEST_LEGACY)
        if first is None or first.outcome == "not started":
            return
        needed = first.answered or first.lived or 0.0
        self._answer_within = min(self._patience.answer, max(_AFTERWARDS, _TIMES * needed))
        if first.outcome == "at eof":
            # Whatever else it is asked waits for the end of its input as well.
            if self._resolution.runtime == "python":
                await self._try("unbuffered", LATEST_LEGACY, ending="SIGTERM", extra={"PYTHONUNBUFFERED": "1"})
            return
        probe = await self._try("discover", LATEST_MODERN, ending="SIGTERM")
        if probe is not None and "gone" in (first.outcome, probe.outcome) and not (first.works or probe.works):
            await self._with_more_environment()
        elif not first.works and probe is not None and not probe.works:
            await self._why_it_is_silent(first)
        # DE-09: who speaks the stateless revision may refuse the handshake as such; the older ones would be refused as well.
        if first.works or (first.outcome in {"refused", "strange revision"} and not (probe is not None and probe.works)):
            for revision in reversed(LEGACY[:-1]):
                if not self._patience.quick:
                    await self._try("revision", revision)

    async def _why_it_is_silent(self, first: Attempt) -> None:
        if first.outcome != "silent" or first.held:
            return
        if not first.strays:
            framed = await self._try("content-length", LATEST_LEGACY)
            if framed is not None and any(stray.kind == "content-length" for stray in framed.strays):
                return
        if not any(stray.kind in {"content-length", "pretty-printed"} for stray in first.strays):
            await self._with_more_environment()

    # The environment

    async def _with_more_environment(self) -> None:
        """Tries again with all of ours, and if that helps, finds out which variable does it."""
        if self._command.environment != "minimal":
            return
        given = self._command.child_environment()
        more = {name: value for name, value in environment_of("inherit", {}).items() if name not in given}
        if not more:
            return
        full = await self._try("full environment", LATEST_LEGACY, extra=more)
        if full is None or not full.works:
            return
        clue = names_variable([line for attempt in self._attempts[:2] for line in _words(attempt)])
        if clue is not None and clue.about in more:
            if await self._works_with({clue.about: more[clue.about]}):
                return
            more = {name: value for name, value in more.items() if name != clue.about} | {clue.about: more[clue.about]}
        # Half of them, and half of that half. Where no half is enough, it takes several, and all that are left are told.
        for _ in range(_MOST_HALVINGS):
            if len(more) == 1:
                break
            names = sorted(more)
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                fewer = {name: more[name] for name in half}
                if await self._works_with(fewer):
                    more = fewer
                    break
            else:
                break

    async def _works_with(self, variables: dict[str, str]) -> bool:
        attempt = await self._try("variables", LATEST_LEGACY, extra=variables)
        return attempt is not None and attempt.works

    # One process

    async def _try(
        self,
        purpose: Purpose,
        revision: str,
        *,
        ending: Literal["eof", "SIGTERM"] = "eof",
        extra: dict[str, str] | None = None,
    ) -> Attempt | None:
        if asyncio.get_running_loop().time() >= self._deadline:
            self._skipped.append(f"{purpose} {revision}")
            return None
        self._listener.begins(purpose, revision)
        command = self._command
        if extra:
            command = structs.replace(command, env={**extra, **(command.env or {})})
        attempt = await self._visit(command, purpose, revision, ending, tuple(sorted(extra or ())))
        self._attempts.append(attempt)
        self._listener.tried(attempt)
        return attempt

    async def _visit(
        self, command: ServerCommand, purpose: Purpose, revision: str, how: Literal["eof", "SIGTERM"], variables: tuple[str, ...]
    ) -> Attempt:
        visit = Visit(command, deadline=self._deadline)
        listed: Listed | None = None
        processes: tuple[Process, ...] = ()
        try:
            async with visit:
                heard = await self._open(visit, purpose, revision)
                ended = await visit.has_ended()
                opened = _opened(heard, revision, gone=ended is not None or not visit.is_talking)
                answers = [opened.answer]
                if opened.capabilities is not None:
                    more = await self._converse(visit, purpose, revision, opened)
                    listed, answers = more[0], [*answers, *more[1]]
                    ended = await visit.has_ended()
                processes = visit.processes()
                lived = visit.child.lived if ended is not None else None
                held = visit.hearing.held
                finish = await visit.end(how, grace=self._patience.grace)
        except StartFailed as failed:
            failure = StartFailure(failed.reason, failed.detail)
            return Attempt(purpose=purpose, revision=revision, outcome="not started", failure=failure, variables=variables)
        hearing, child = visit.hearing, visit.child
        outcome = opened.outcome
        if outcome == "silent" and hearing.heard is not None:
            outcome = "at eof"
        first_stderr = child.stderr.first_at
        return Attempt(
            purpose=purpose,
            revision=revision,
            outcome=outcome,
            chosen=opened.chosen,
            variables=variables,
            started_in=visit.started_in,
            first_byte=hearing.first_byte,
            first_stderr=None if first_stderr is None else first_stderr - child.started_at,
            answered=None if heard is None else heard.at,
            answers=tuple(answers),
            name=opened.name,
            listed=listed,
            strays=self._placed(with_assembled(hearing.strays)),
            stray_count=hearing.stray_count,
            carriage_returns=hearing.carriage_returns,
            byte_order_mark=hearing.byte_order_mark,
            echoes=hearing.echoes,
            held=held,
            stderr=tuple(child.stderr.lines(_STDERR_LINES)),
            exit=ended,
            lived=lived,
            processes=processes,
            ending=None if ended is not None and not finish.left_behind else finish,
        )

    async def _open(self, visit: Visit, purpose: Purpose, revision: str) -> Heard | None:
        spoken = dialect(revision)
        patience = self._answer_within
        if is_modern(revision):
            meta = spoken.request_meta(client_info=_DOCTOR, capabilities=ClientCapabilities())
            return await visit.ask("server/discover", EmptyParams(meta=meta), patience=patience)
        params = spoken.fit(InitializeParams(protocol_version=revision, capabilities=ClientCapabilities(), client_info=_DOCTOR))
        return await visit.ask("initialize", params, patience=patience, framed=purpose == "content-length")

    async def _converse(self, visit: Visit, purpose: Purpose, revision: str, opened: _Opened) -> tuple[Listed | None, list[Answer]]:
        """What a host does when it is connected, short of calling anything."""
        patience = self._answer_within
        answers = []
        if not is_modern(revision):
            visit.tell("notifications/initialized")  # LC-04
            asked_at = visit.elapsed
            heard = await visit.ask("ping", {}, patience=patience)
            answers.append(_plain_answer("ping", heard, asked_at))
            if heard is None:
                return None, answers
        if purpose not in {"handshake", "discover"} or opened.capabilities is None:
            return None, answers
        spoken = dialect(revision if is_modern(revision) else opened.chosen[0])
        listed, more = await ask_for_lists(visit, spoken, opened.capabilities, _DOCTOR, patience=patience)
        return listed, [*answers, *more]

    def _placed(self, strays: tuple[StrayLine, ...]) -> tuple[StrayLine, ...]:
        """The lines again, those among the first that stand in the server's script with their places."""
        if self._source is None or self._resolution.script is None:
            return strays
        name = Path(self._resolution.script).name
        first = [structs.replace(stray, source=source_of(stray.text, name, self._source)) for stray in strays[:_MOST_SHOWN]]
        return (*first, *strays[_MOST_SHOWN:])


def _plain_answer(method: str, heard: Heard | None, asked_at: float) -> Answer:
    if heard is None:
        return Answer(method=method, message="no response")
    if heard.error is not None:
        return Answer(method=method, took=heard.at - asked_at, code=heard.error.code, message=heard.error.message)
    return Answer(method=method, took=heard.at - asked_at, usable=heard.result is not None, message=heard.fault or "")


def _opened(heard: Heard | None, revision: str, *, gone: bool) -> _Opened:
    """What the answer to the first request means."""
    method = "server/discover" if is_modern(revision) else "initialize"
    answer = _plain_answer(method, heard, 0.0)
    if heard is None:
        return _Opened("gone" if gone else "silent", answer)
    if heard.error is not None:
        error = dialect(revision).read_error(heard.error, method=method)
        return _Opened("refused", answer, _named_versions(error))
    if heard.result is None:
        return _Opened("wrong id" if heard.wrong_id is not None else "unusable", answer)
    try:
        result = dialect(revision).read_result(method, heard.result)
    except RemoteProtocolError as error:
        return _Opened("unusable", structs.replace(answer, usable=False, message=error.what))
    if isinstance(result, DiscoverResult):
        answer = structs.replace(answer, missing=missing_members(dialect(revision), heard.result))
        chosen = tuple(result.supported_versions)
        agreed = any(version in MODERN for version in chosen)
        name = _name((result.meta or {}).get(META_SERVER_INFO))
        return _Opened("agreed" if agreed else "refused", answer, chosen, name, result.capabilities if agreed else None)
    if isinstance(result, InitializeResult):
        version = result.protocol_version
        if version not in LEGACY:
            return _Opened("strange revision", answer, (version,))
        return _Opened("agreed", answer, (version,), _name(result.server_info), result.capabilities)
    return _Opened("unusable", answer)  # pragma: no cover - the two methods have these two results


def _named_versions(error: McpError) -> tuple[str, ...]:
    if isinstance(error, UnsupportedRevision):
        return tuple(error.supported)
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()


def _name(info: Any) -> str | None:
    try:
        found = msgspec.convert(info, Implementation) if isinstance(info, dict) else info
    except msgspec.ValidationError:
        return None
    return None if found is None else f"{found.name} {found.version}".strip()


def _words(attempt: Attempt) -> list[str]:
    return [*(stray.text for stray in attempt.strays), *attempt.stderr]


def _read_source(resolution: Resolution) -> str | None:
    if resolution.script is None:
        return None
    try:
        return (Path(resolution.folder) / resolution.script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
