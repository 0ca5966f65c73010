"""The examination: starts the server several times, one process at a time, because two may need the same port."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, structs

from twopipes._process.command import ServerCommand
from twopipes._process.environment import environment_of
from twopipes._protocol import types as protocol
from twopipes._protocol.dialect import dialect
from twopipes._protocol.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, META_SERVER_INFO, MODERN, is_modern
from twopipes._tools.doctor.clues import missing_variable
from twopipes._tools.doctor.display import TerminalReport
from twopipes._tools.doctor.listing import missing_members, request_lists
from twopipes._tools.doctor.observations import (
    Attempt,
    Listed,
    Observations,
    Outcome,
    Purpose,
    Reply,
    Resolution,
    StartFailure,
    StrayLine,
)
from twopipes._tools.doctor.resolve import resolve
from twopipes._tools.doctor.server_process import ServerProcess
from twopipes._tools.doctor.stdout_reader import ReceivedResponse, reply_to
from twopipes._tools.doctor.stray_lines import source_of, with_assembled
from twopipes._version import __version__
from twopipes.errors import McpError, RemoteProtocolError, StartFailed, UnsupportedRevision

DOCTOR = protocol.Implementation("twopipes-doctor", __version__)
# Lines of stderr to keep.
_STDERR_LINES = 100
_MAX_LOCATED = 30
# Seconds for every response after the handshake. Hosts that send server/discover first wait 3 to 10 s for it. A server that
# starts slowly gets three times as long as its handshake took, or as it took to fail.
_LATER_TIMEOUT = 5.0
_SLOW_FACTOR = 3
# Halvings in the search for a variable; enough for a thousand variables.
_MAX_HALVINGS = 10


class DoctorTimeouts(Struct, frozen=True, kw_only=True):
    """The time limits of an examination, in seconds."""

    answer: float = 15.0  # for the response to the handshake
    grace: float = 3.0  # for each step of a shutdown
    total: float = 120.0  # for the whole examination
    slow: float = 5.0  # a first response that takes longer is slow
    quick: bool = False  # skip the three older revisions


class Opening(NamedTuple):
    """The outcome of the first request, with what the response names."""

    outcome: Outcome
    reply: Reply
    chosen: tuple[str, ...] = ()
    name: str | None = None
    capabilities: protocol.ServerCapabilities | None = None


class Examination:
    """Examines one command, and prints each step to ``report``, if given."""

    def __init__(self, command: ServerCommand, timeouts: DoctorTimeouts, report: TerminalReport | None = None) -> None:
        self._command = command
        self._timeouts = timeouts
        self._report = report
        self._attempts: list[Attempt] = []
        self._skipped: list[str] = []
        self._response_timeout = timeouts.answer
        self._resolution = resolve(command)
        self._source = _read_source(self._resolution)

    async def run(self) -> Observations:
        """Run the examination. Cancelling is safe: a running server process is killed."""
        self._deadline = asyncio.get_running_loop().time() + self._timeouts.total
        resolution = self._resolution
        if self._report is not None:
            self._report.resolved(resolution)
        if resolution.found is not None and resolution.folder_exists:
            await self._run_attempts()
        given = self._command.child_environment()
        return Observations(
            resolution=resolution,
            attempts=tuple(self._attempts),
            environment=self._command.environment,
            withheld=tuple(sorted(name for name in os.environ if name not in given)),
            slow=self._timeouts.slow,
            out_of_time=tuple(self._skipped),
        )

    async def _run_attempts(self) -> None:
        first = await self._try("handshake", LATEST_LEGACY)
        if first is None or first.outcome == "not started":
            return
        needed = first.answered or first.lived or 0.0
        self._response_timeout = min(self._timeouts.answer, max(_LATER_TIMEOUT, _SLOW_FACTOR * needed))
        if first.outcome == "at eof":
            # Responses to other requests would come only at the end of its input as well.
            if self._resolution.runtime == "python":
                await self._try("unbuffered", LATEST_LEGACY, ending="SIGTERM", extra={"PYTHONUNBUFFERED": "1"})
            return
        probe = await self._try("discover", LATEST_MODERN, ending="SIGTERM")
        if probe is not None and "gone" in (first.outcome, probe.outcome) and not (first.works or probe.works):
            await self._try_environment()
        elif not first.works and probe is not None and not probe.works:
            await self._investigate_silence(first)
        # DE-09: a server of the stateless revision may refuse the handshake, and would refuse the older revisions as well.
        if first.works or (first.outcome in {"refused", "strange revision"} and not (probe is not None and probe.works)):
            for revision in reversed(LEGACY[:-1]):
                if not self._timeouts.quick:
                    await self._try("revision", revision)

    async def _investigate_silence(self, first: Attempt) -> None:
        if first.outcome != "silent" or first.held:
            return
        if not first.strays:
            framed = await self._try("content-length", LATEST_LEGACY)
            if framed is not None and any(stray.kind == "content-length" for stray in framed.strays):
                return
        if not any(stray.kind in {"content-length", "pretty-printed"} for stray in first.strays):
            await self._try_environment()

    async def _try_environment(self) -> None:
        """Try again with the whole environment of the user. If that helps, find out which variable makes the difference."""
        if self._command.environment != "minimal":
            return
        given = self._command.child_environment()
        more = {name: value for name, value in environment_of("inherit", {}).items() if name not in given}
        if not more:
            return
        full = await self._try("full environment", LATEST_LEGACY, extra=more)
        if full is None or not full.works:
            return
        clue = missing_variable([line for attempt in self._attempts[:2] for line in attempt.output])
        if clue is not None and clue.about in more:
            if await self._works_with({clue.about: more[clue.about]}):
                return
            more = {name: value for name, value in more.items() if name != clue.about} | {clue.about: more[clue.about]}
        # Bisect. If neither half is enough, the server needs several variables, and all that are left are reported.
        for _ in range(_MAX_HALVINGS):
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

    async def _try(
        self, purpose: Purpose, revision: str, *, ending: Literal["eof", "SIGTERM"] = "eof", extra: dict[str, str] | None = None
    ) -> Attempt | None:
        if asyncio.get_running_loop().time() >= self._deadline:
            self._skipped.append(f"{purpose} {revision}")
            return None
        if self._report is not None:
            self._report.begins(purpose, revision)
        command = self._command
        if extra:
            command = structs.replace(command, env={**extra, **(command.env or {})})
        attempt = await self._attempt(command, purpose, revision, ending, tuple(sorted(extra or ())))
        self._attempts.append(attempt)
        if self._report is not None:
            self._report.tried(attempt)
        return attempt

    async def _attempt(
        self, command: ServerCommand, purpose: Purpose, revision: str, how: Literal["eof", "SIGTERM"], variables: tuple[str, ...]
    ) -> Attempt:
        server = ServerProcess(command, deadline=self._deadline)
        listed: Listed | None = None
        try:
            async with server:
                response = await self._open(server, purpose, revision)
                ended = await server.early_exit()
                opened = interpret_opening(response, revision, gone=ended is not None or not server.is_stdout_open)
                replies = [opened.reply]
                if opened.capabilities is not None:
                    more = await self._use_like_a_host(server, purpose, revision, opened)
                    listed, replies = more[0], [*replies, *more[1]]
                    ended = await server.early_exit()
                processes = server.processes()
                lived = server.child.lived if ended is not None else None
                held = server.stdout.held
                finish = await server.end(how, grace=self._timeouts.grace)
        except StartFailed as failed:
            failure = StartFailure(failed.reason, failed.detail)
            return Attempt(purpose=purpose, revision=revision, outcome="not started", failure=failure, variables=variables)
        stdout, child = server.stdout, server.child
        outcome = opened.outcome
        if outcome == "silent" and stdout.response is not None:
            outcome = "at eof"
        first_stderr = child.stderr.first_at
        return Attempt(
            purpose=purpose,
            revision=revision,
            outcome=outcome,
            chosen=opened.chosen,
            variables=variables,
            started_in=server.started_in,
            first_byte=stdout.first_byte,
            first_stderr=None if first_stderr is None else first_stderr - child.started_at,
            answered=None if response is None else response.at,
            answers=tuple(replies),
            name=opened.name,
            listed=listed,
            strays=self._with_sources(with_assembled(stdout.strays)),
            stray_count=stdout.stray_count,
            carriage_returns=stdout.carriage_returns,
            byte_order_mark=stdout.byte_order_mark,
            echoes=stdout.echoes,
            held=held,
            stderr=tuple(child.stderr.lines(_STDERR_LINES)),
            exit=ended,
            lived=lived,
            processes=processes,
            ending=None if ended is not None and not finish.left_behind else finish,
        )

    async def _open(self, server: ServerProcess, purpose: Purpose, revision: str) -> ReceivedResponse | None:
        method, params = opening_request(revision)
        return await server.request(method, params, seconds=self._response_timeout, framed=purpose == "content-length")

    async def _use_like_a_host(
        self, server: ServerProcess, purpose: Purpose, revision: str, opened: Opening
    ) -> tuple[Listed | None, list[Reply]]:
        """Send what a host sends after connecting, without calling anything."""
        seconds = self._response_timeout
        replies = []
        if not is_modern(revision):
            server.notify("notifications/initialized")  # LC-04
            response = await server.request("ping", {}, seconds=seconds)
            replies.append(reply_to("ping", response))
            if response is None:
                return None, replies
        if purpose not in {"handshake", "discover"} or opened.capabilities is None:
            return None, replies
        spoken = dialect(revision if is_modern(revision) else opened.chosen[0])
        listed, more = await request_lists(server, spoken, opened.capabilities, DOCTOR, seconds=seconds)
        return listed, [*replies, *more]

    def _with_sources(self, strays: tuple[StrayLine, ...]) -> tuple[StrayLine, ...]:
        """Return the lines, the first of them with the place in the server's script that prints them."""
        if self._source is None or self._resolution.script is None:
            return strays
        name = Path(self._resolution.script).name
        first = [structs.replace(stray, source=source_of(stray.text, name, self._source)) for stray in strays[:_MAX_LOCATED]]
        return (*first, *strays[_MAX_LOCATED:])


def opening_request(revision: str) -> tuple[str, Any]:
    """Return the method and the params of the first request."""
    spoken = dialect(revision)
    if is_modern(revision):
        meta = dict(spoken.client_meta(DOCTOR, protocol.ClientCapabilities()))
        return "server/discover", protocol.EmptyParams(meta=meta)
    params = protocol.InitializeParams(protocol_version=revision, capabilities=protocol.ClientCapabilities(), client_info=DOCTOR)
    return "initialize", spoken.fit(params)


def interpret_opening(response: ReceivedResponse | None, revision: str, *, gone: bool) -> Opening:
    """Interpret the response to the first request."""
    method = "server/discover" if is_modern(revision) else "initialize"
    reply = reply_to(method, response)
    if response is None:
        return Opening("gone" if gone else "silent", reply)
    if response.error is not None:
        error = dialect(revision).read_error(response.error, method=method)
        return Opening("refused", reply, _named_versions(error))
    if response.result is None:
        return Opening("wrong id" if response.wrong_id is not None else "unusable", reply)
    try:
        result = dialect(revision).read_result(method, response.result)
    except RemoteProtocolError as error:
        return Opening("unusable", structs.replace(reply, usable=False, message=error.what))
    if isinstance(result, protocol.DiscoverResult):
        reply = structs.replace(reply, missing=missing_members(dialect(revision), response.result))
        chosen = tuple(result.supported_versions)
        agreed = any(version in MODERN for version in chosen)
        name = _name((result.meta or {}).get(META_SERVER_INFO))
        return Opening("agreed" if agreed else "refused", reply, chosen, name, result.capabilities if agreed else None)
    if isinstance(result, protocol.InitializeResult):
        version = result.protocol_version
        if version not in LEGACY:
            return Opening("strange revision", reply, (version,))
        return Opening("agreed", reply, (version,), _name(result.server_info), result.capabilities)
    return Opening("unusable", reply)  # pragma: no cover - the two methods have these two results


def _named_versions(error: McpError) -> tuple[str, ...]:
    if isinstance(error, UnsupportedRevision):
        return tuple(error.supported)
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()


def _name(info: Any) -> str | None:
    try:
        found = msgspec.convert(info, protocol.Implementation) if isinstance(info, dict) else info
    except msgspec.ValidationError:
        return None
    return None if found is None else f"{found.name} {found.version}".strip()


def _read_source(resolution: Resolution) -> str | None:
    if resolution.script is None:
        return None
    try:
        return (Path(resolution.folder) / resolution.script).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
