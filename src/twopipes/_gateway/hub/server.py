"""The front of a hub: one server that offers what many servers offer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from msgspec import Raw, structs
from msgspec import json as msgspec_json

from twopipes._client.connect import Given
from twopipes._gateway import translate
from twopipes._gateway.asker import bind_questions, own_state
from twopipes._gateway.back import Back
from twopipes._gateway.front_call import FrontCall
from twopipes._gateway.hub.catalogue import Catalogue
from twopipes._gateway.hub.clients import carried_extensions, carried_meta, client_of
from twopipes._gateway.hub.introduction import CAPABILITIES, instructions_of
from twopipes._gateway.hub.member import Member, MemberSettings, ReportLevel
from twopipes._gateway.hub.reports import Reports
from twopipes._gateway.hub.router import Router
from twopipes._gateway.hub.watching import Watching
from twopipes._gateway.manifest import LISTS
from twopipes._gateway.passing import PassingServer, Rewrite
from twopipes._host.config import ServerConfig
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.methods import PARAMS
from twopipes._protocol.passed_questions import asks_for_input
from twopipes._protocol.types import (
    LOGGING_LEVELS,
    CompleteResult,
    Completion,
    LogParams,
    Params,
    PromptReference,
    Result,
)
from twopipes._server.call_runner import CallRunner
from twopipes._server.context import Context, Next
from twopipes._session.events import NotificationReceived
from twopipes._session.identity import ServerProfile
from twopipes._session.subscriptions import LIST_CHANGED, Change, ListKind, honoured
from twopipes.errors import ClientClosed, InternalError, LocalProtocolError, McpError, MethodNotFound, TwopipesError

# Seconds that a list waits for a server, from the start of its opening. Many hosts wait 30 or 60 s. The first run of npx or uvx
# takes longer; hosts are notified when such a server is ready.
_START_TIMEOUT: Final = 25.0
# Seconds that the introduction waits, likewise: a server that is not ready then only lacks its instructions.
_INTRODUCTION: Final = 5.0
# Items in one page of a list. Some hosts read only the first page.
_PAGE_SIZE: Final = 1000
_OWN_LISTS: Final = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "described"),
    "resources/templates/list": ("templates", "described"),
}


class HubServer(PassingServer):
    """A server in front of many. Its own tools and resources are those that are registered as with any server.

    Nothing is started before the first request of a host.

    Args:
        servers: The servers, by the names that the user gave them, in the user's order.
        settings: What applies to each of them.
        is_lazy: Whether servers are started by the first request that needs them, and not by the first request of a host.
        is_shared: Whether several hosts may use the hub. Servers are then opened with all the capabilities that a host may have.
        separator: What comes between the name of a server and that of a tool.
        start_timeout: Seconds that a list waits for each server, from the start of its opening.
        page_size: How many items a page of a list has.
        options: As for :class:`PassingServer`.

    Attributes:
        members: The servers, by name.
        catalogue: Their merged lists.
        handlers: Handlers of the hub's own tools, by name, that pass the call on: see :meth:`call_tool`. Such a tool must also be
            registered, so that it is listed.
        on_state: Called with each server whose state or lists have changed.
        reports: Reports to people.
        jobs: Run while the hub is served, and are cancelled before its servers are ended.
    """

    def __init__(
        self,
        servers: Mapping[str, ServerConfig | Given] | None = None,
        *,
        members: MemberSettings | None = None,
        is_lazy: bool = False,
        is_shared: bool = False,
        separator: str = "__",
        start_timeout: float = _START_TIMEOUT,
        page_size: int = _PAGE_SIZE,
        **options: Any,
    ) -> None:
        super().__init__(**{"name": "twopipes-hub", **options})
        self.members: dict[str, Member] = {}
        self.handlers: dict[str, Callable[[Context], Awaitable[Result]]] = {}
        self.on_state: list[Callable[[Member], None]] = []
        self.jobs: list[Callable[[], Coroutine[Any, Any, None]]] = []
        own = {method: partial(self._own_items, *where) for method, where in _OWN_LISTS.items()}
        self.catalogue = Catalogue(self.members, own, separator=separator, page_size=page_size)
        self.reports = Reports(self.log)
        self._member_settings = members or MemberSettings()
        self._is_shared = is_shared
        self._router = Router(self.members, self.catalogue, is_lazy=is_lazy, start_timeout=start_timeout)
        self._listed: set[str] = set()  # the lists that hosts have read, or want to know the changes of
        self._watching = Watching(self.catalogue.owner_of, lambda member, text: self.report(member, "warning", text))
        self._closing: set[asyncio.Task[None]] = set()  # servers that were removed
        for name, config in (servers or {}).items():
            self._join(name, config)

    # Servers that come and go

    def add(self, name: str, config: ServerConfig | Given) -> Member:
        """Add a server. It is started at once if hosts are connected, unless the hub is lazy.

        Raises:
            LocalProtocolError: There is a server of that name.
        """
        member = self._join(name, config)
        self._router.added(member)
        self._tell(member)
        return member

    async def remove(self, name: str) -> None:
        """End a server, and take what it offers out of the lists. Its calls in flight fail.

        Raises:
            KeyError: There is no server of that name.
        """
        await asyncio.shield(self._leave(name))  # the end of a server is never abandoned, even if the caller is cancelled

    async def replace(self, name: str, config: ServerConfig | Given) -> Member:
        """End a server and start it again with another configuration. Requests that come meanwhile wait for it."""
        order = list(self.members)
        closing = self._leave(name)
        member = self._join(name, config)
        member.after = closing
        self.arrange(order)
        self._router.added(member)
        self._tell(member)
        await asyncio.shield(closing)
        return member

    def arrange(self, names: Sequence[str]) -> None:
        """Put the servers into this order, which decides who owns a URI that several offer."""
        for name in (*names, *(name for name in list(self.members) if name not in names)):
            if name in self.members:
                self.members[name] = self.members.pop(name)
        self.catalogue.rearranged()

    def _join(self, name: str, config: ServerConfig | Given) -> Member:
        if name in self.members:
            raise LocalProtocolError(f"the hub already has a server {name!r}; remove it first")
        member = self.members[name] = Member(name, config, self._member_settings, self)
        self.catalogue.add(member)
        self._set_level(member)
        return member

    def _leave(self, name: str) -> asyncio.Task[None]:
        member = self.members.pop(name)
        self.catalogue.remove(member)
        self._watching.renew()
        for method, (_, kind) in LISTS.items():
            if member.lists.get(method):
                self._announce_list(kind)
        self._tell(member)
        closing = asyncio.create_task(member.close(), name=f"end {name}")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing

    # What Server does for its own tools

    @property
    def _profile(self) -> ServerProfile:
        extensions: dict[str, Any] = {}
        for member in self.members.values():
            declared = None if member.opened is None else member.opened.capabilities.extensions
            extensions |= carried_extensions(declared)
        return ServerProfile(
            info=self.info,
            capabilities=structs.replace(CAPABILITIES, extensions=extensions or None),
            instructions=instructions_of(
                self.members.values(), self.catalogue.tools.separator, is_searched=self.catalogue.hides_tools
            ),
            revisions=self._revisions,
        )

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        named = self.catalogue.tools.find(name)
        if named is None or name in self.tools.entries:
            return super()._input_schema(name)
        back = self.members[named.server].back
        return None if back is None else back.tools.header_schema_of(named.name)

    def _changed(self, kind: ListKind) -> None:
        self.catalogue.forget(kind)
        super()._changed(kind)

    def _own_items(self, registry: str, member: str, target: Dialect) -> Iterator[tuple[str, Raw]]:
        for key, entry in getattr(self, registry).entries.items():
            yield key, Raw(msgspec_json.encode(target.fit(getattr(entry, member))))

    def _is_own(self, uri: str) -> bool:
        if uri in self.resources.entries:
            return True
        return any(entry.matcher is not None and entry.matcher.match(uri) is not None for entry in self.templates)

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[Any]:
        async with super()._running() as lifespan:
            jobs = [asyncio.create_task(job()) for job in self.jobs]
            try:
                yield lifespan
            finally:
                for job in jobs:
                    job.cancel()
                await asyncio.gather(*jobs, return_exceptions=True)
                await self._watching.close()
                await asyncio.gather(*self._closing, *(member.close() for member in self.members.values()))

    # Requests of hosts

    async def _forward(self, context: Context) -> Result:
        self._router.meet(context)
        method = context.call.method
        if method in LISTS:
            return await self._list(context)
        match method:
            case "tools/call":
                return await self._call_tool(context)
            case "prompts/get":
                return await self._get_prompt(context)
            case "resources/read":
                return await self._read_resource(context)
            case "completion/complete":
                return await self._complete(context)
        raise MethodNotFound(f"unknown method {method}: nothing in it names one of the servers behind this hub")

    async def _list(self, context: Context) -> Result:
        call = context.call
        params = _params(context)
        if call.method != "tools/list" or not self.catalogue.hides_tools:
            await self.until_listed(call.method)
        self._listed.add(LISTS[call.method][1])
        for member in self.members.values():
            member.refresh_unannounced(call.method)
        await self.catalogue.prepare(call.method, call.dialect)
        return self.catalogue.page(call.method, call.dialect, params.cursor, self.info)

    async def _call_tool(self, context: Context) -> Result:
        name = _params(context).name
        if name in self.handlers:
            return await self.handlers[name](context)
        if name in self.tools.entries:
            return await self._methods.serve(context)
        return await self.call_tool(context, name)

    async def until_listed(self, method: str = "tools/list") -> None:
        """Start the servers, and wait until this list of each is known, or it had its time."""
        self._router.start_all()
        await self._router.until_known(method)

    async def find_tool(self, name: str) -> tuple[Member, str]:
        """Return the server of a tool, and its own name there. Raises ``NotFound``, with similar names."""
        return await self._router.find(self.catalogue.tools, "tool", name)

    def missing_tools(self) -> list[str]:
        """Return the names of the servers whose tools are not known."""
        return self._router.missing("tools/list")

    async def call_tool(self, context: Context, name: str, arguments: Any = None) -> Result:
        """Call a tool of a server by its public name, with progress, questions and cancellation of this request.

        Args:
            context: The request of the host: a ``tools/call`` of any tool of the hub.
            name: The public name of the tool.
            arguments: The arguments, instead of those of the request.

        Raises:
            NotFound: There is no such tool.
            McpError: The server refused it, or cannot be reached.
        """
        member, own = await self.find_tool(name)

        def rewrite(params: dict[str, Any], _: FrontCall) -> None:
            params["name"] = own
            if arguments is not None:
                params["arguments"] = arguments

        return await self._call(member, context, rewrite)

    async def _get_prompt(self, context: Context) -> Result:
        name = _params(context).name
        if name in self.prompts.entries:
            return await self._methods.serve(context)
        member, own = await self._router.find(self.catalogue.prompts, "prompt", name)

        def rewrite(params: dict[str, Any], _: FrontCall) -> None:
            params["name"] = own

        return await self._call(member, context, rewrite)

    async def _read_resource(self, context: Context) -> Result:
        uri = _params(context).uri
        if self._is_own(uri):
            return await self._methods.serve(context)
        return await self._call(await self._router.owner_of(uri), context)

    async def _complete(self, context: Context) -> Result:
        ref = _params(context).ref
        changed = {}
        if isinstance(ref, PromptReference):
            if ref.name in self.prompts.entries:
                return await self._methods.serve(context)
            member, own = await self._router.find(self.catalogue.prompts, "prompt", ref.name)
            changed = {"name": own}
        else:
            if self._is_own(ref.uri):
                return await self._methods.serve(context)
            member = await self._router.owner_of(ref.uri)
        _, opened = await member.ready(client_of(context))
        if not opened.capabilities.allows("completions") and dialect(opened.revision).revision != "2024-11-05":
            return CompleteResult(Completion([]))  # it is the hub that declares completions

        def rewrite(params: dict[str, Any], _: FrontCall) -> None:
            params["ref"] = {**translate.decode_members(params["ref"]), **changed}

        return await self._call(member, context, rewrite)

    async def _call(self, member: Member, context: Context, rewrite: Rewrite | None = None) -> Result:
        """Pass a request to a server. What fails on the way to it names the server."""

        def prepare(params: dict[str, Any], call: FrontCall) -> None:
            if rewrite is not None:
                rewrite(params, call)
            if "requestState" in params:
                params["requestState"] = own_state(params["requestState"], member.name)
            call.client_meta = carried_meta(call)

        try:
            with member.used():
                back, opened = member.running or await member.ready(client_of(context))
                result = await self._pass_on(back, opened, context, prepare)
        except McpError:
            raise
        except ClientClosed as error:
            ended = "was removed from the hub" if member.name not in self.members else "was stopped"
            raise InternalError(f"the server {member.name!r} {ended} before it answered {context.call.method}") from error
        except TwopipesError as error:
            failure = translate.failure(error, context.call, self._option_names)
            raise InternalError(f"server {member.name!r}: {failure.message}") from error
        if isinstance(result, RawResult):
            self.catalogue.links.add(member.name, result.raw)
        if isinstance(result, RawResult) and context.call.dialect.modern and asks_for_input(context.call.method, result.raw):
            return RawResult(bind_questions(result.raw, member.name))
        return result

    # What the session handles itself

    async def _perform(self, context: Context, call_next: Next) -> Result:
        self._router.meet(context)
        runner = FrontCall(context).runner
        match context.call.method:
            case "initialize" | "server/discover":
                await self._router.until_known(None, _INTRODUCTION)
                runner.session.profile = self._profile
            case "logging/setLevel":
                self._levels[runner] = context.call.params.level
                for member in self.members.values():
                    self._set_level(member)
            case "resources/subscribe":
                uri = context.call.params.uri
                if not self._is_own(uri):
                    await self._router.owner_of(uri)
                    await self._watching.subscribe(runner, uri)
            case "resources/unsubscribe":
                self._watching.unsubscribe(runner, context.call.params.uri)
            case "subscriptions/listen":
                return await self._listen(context, call_next)
        return await call_next(context)

    def _set_level(self, member: Member) -> None:
        """Set the level that the most verbose host wants."""
        if self._levels:
            member.set_level(min(self._levels.values(), key=LOGGING_LEVELS.index))

    async def _listen(self, context: Context, call_next: Next) -> Result:
        wanted = honoured(context.call.params.notifications, CAPABILITIES)
        self._listed.update(kind for kind in LIST_CHANGED if getattr(wanted, f"{kind}_list_changed"))
        watched = [uri for uri in wanted.resource_subscriptions or () if not self._is_own(uri)]
        if watched:
            self._router.start_all()
        await self._watching.add_all(watched)
        try:
            return await call_next(context)
        finally:
            for uri in watched:
                self._watching.remove(uri)

    def _from_host(self, runner: CallRunner, event: NotificationReceived) -> None:
        """Pass changes of the roots to every server. Nothing in another notification names a server."""
        if event.method != "notifications/roots/list_changed":
            return
        for member in self.members.values():
            back = member.back
            spoken = None if back is None or back.opened is None else dialect(back.opened.revision)
            if back is not None and spoken is not None and spoken.knows_notification(event.method, sender="client"):
                back.notify(event.method, event.raw)

    async def _stopped(self, runner: CallRunner) -> None:
        self._levels.pop(runner, None)
        self._watching.forget(runner)

    # Called by members

    def observe(self, member: Member, back: Back) -> None:
        """Connect the callbacks of a server that is about to be opened."""
        questions = back.questions
        questions.is_shared = self._is_shared
        questions.how_to_isolate = "serve the hub with twopipes bridge --isolate"
        questions.hosts = lambda: list(self._connections)
        back.on_changed.append(partial(self._resource_changed, back))
        back.on_log.append(partial(self._log_behind, member, back))
        back.on_notification.append(lambda method, raw: self._notify_hosts(list(self._connections), back, method, raw))

    def state_changed(self, member: Member) -> None:
        """Handle another state of a server."""
        if member.state == "ready":
            self._watching.renew()
        self._tell(member)

    def list_changed(self, member: Member, method: str, *, is_first: bool) -> None:
        """Use a list of a server, and announce the merged list; the first one only if hosts have read the list without it."""
        if self.members.get(member.name) is not member:
            return
        self.catalogue.update(member, method)
        if LISTS[method][1] == "resources":
            self._watching.renew()
        if not is_first or LISTS[method][1] in self._listed:
            self._announce_list(LISTS[method][1])
        self.reports.problems(self.catalogue.problems())
        self._tell(member)

    def report(self, member: Member, level: ReportLevel, text: str) -> None:
        """Report to people what happened to a server: on stderr, and in the log messages of hosts."""
        self.reports.add(level, f"Server {member.name!r}: {text}")

    def _announce_list(self, kind: ListKind) -> None:
        is_hidden = kind == "tools" and self.catalogue.hides_tools
        if not is_hidden:
            self._announce(Change(kind))

    def _tell(self, member: Member) -> None:
        self._router.updated()
        for callback in self.on_state:
            callback(member)

    def _resource_changed(self, back: Back, change: Change) -> None:
        if change.kind == "resource" and self._watching.concerns(back, change.uri):
            self._announce(change)

    def _log_behind(self, member: Member, back: Back, params: LogParams, raw: Raw) -> None:
        """Pass a log message on, with the name of its server before that of its logger."""
        named = f"{member.name}.{params.logger}" if params.logger else member.name
        hosts = self._hosts_for_log(back, list(self._connections))
        self._log_to(hosts, back, params.level, {**translate.decode_members(raw), "logger": named})


def _params(context: Context) -> Any:
    """Return the params of a request. The session has not checked them, because it leaves that to the server behind it."""
    call = context.call
    kind: type[Params] | None = PARAMS.get(call.method)
    assert kind is not None
    return call.params if isinstance(call.params, kind) else call.dialect.read_params(call.method, call.raw_params)
