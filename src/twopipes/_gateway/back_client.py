"""The client of the gateway: what the server sends without a request goes to the back as received."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, DecodeError, Raw, Struct
from msgspec import json as msgspec_json
from msgspec.json import Decoder

from twopipes._client.client import Client
from twopipes._client.connection import ClientConnection
from twopipes._client.options import RequestOptions
from twopipes._client.subscription import Subscription, Subscriptions
from twopipes._client.supervisor import Supervisor
from twopipes._protocol.types import LoggingLevel, SetLevelParams, SubscriptionFilter, ToolAnnotations
from twopipes._session.events import ClientOpened
from twopipes._session.subscriptions import LIST_CHANGED, RESOURCE_UPDATED, Change

if TYPE_CHECKING:
    from twopipes._gateway.back import Back

_CHANGES: Final = frozenset((*LIST_CHANGED.values(), RESOURCE_UPDATED))
# The keyword of a schema that asks for a header. A gateway without HTTP does not load its module.
_ANNOTATION: Final = b'"x-mcp-header"'
# Pages of the list of tools that are kept for their annotations.
_MAX_PAGES: Final = 64


class BackClient(Client):
    """A client whose caller is a gateway."""

    def __init__(self, supervisor: Supervisor, back: Back) -> None:
        self._back = back
        super().__init__(supervisor)

    @property
    def connection(self) -> ClientConnection | None:
        """The connection to the server; ``None`` while it is restarted."""
        return self._supervisor.connection

    @property
    def opened(self) -> ClientOpened:
        """What the server reported when it was opened last."""
        return self._supervisor.opened

    def request_raw(self, method: str, params: Mapping[str, Any] | None, options: RequestOptions) -> Coroutine[Any, Any, Raw]:
        """Send a request with raw options, and return the result as received."""
        return self._caller.call(method, params, options)

    def watch(self, wanted: SubscriptionFilter, on_change: Callable[[Change], None], *, may_have_changed: bool) -> Watch:
        """Return a subscription that is not started yet."""
        return Watch(wanted, self._subscriptions, on_change, may_have_changed=may_have_changed)

    def restore_level(self, level: LoggingLevel) -> None:
        """Set the log level of a fresh legacy server, if it was not set there. After a crash the client does it."""
        if self.era != "legacy" or self._caller.log_level is not None or not self.capabilities.allows("logging"):
            return
        self._caller.log_level = level
        if self.connection is not None:
            self.connection.send_and_forget("logging/setLevel", SetLevelParams(level))

    def _notified(self, method: str, params: Any, size: int, raw: Any = UNSET) -> None:
        if method in _CHANGES:
            self._subscriptions.notified(method, params)
        else:
            self._back.notified(method, params, raw)

    def _reopened(self, connection: ClientConnection) -> None:
        super()._reopened(connection)
        self._back.reopened()

    def _lost(self) -> None:
        super()._lost()
        self._back.lost()

    def _annotations_of(self, name: str) -> ToolAnnotations | None:
        return self._back.tools.annotations_of(name)


class Watch(Subscription):
    """A subscription whose changes are passed on at once, so that they keep their order among other messages."""

    def __init__(
        self,
        wanted: SubscriptionFilter,
        owner: Subscriptions,
        on_change: Callable[[Change], None],
        *,
        may_have_changed: bool = False,
    ) -> None:
        super().__init__(wanted, owner)
        self._on_change = on_change
        self._is_renewed = may_have_changed

    def begin(self) -> None:
        """Subscribe, without waiting for the acknowledgement."""
        self._start()

    def _add(self, change: Change) -> None:
        self._on_change(change)


class _Tool(Struct, rename="camel"):
    name: str = ""
    annotations: ToolAnnotations | None = None
    input_schema: Raw = Raw(b"null")


class _Page(Struct):
    tools: list[_Tool] = []


_decode_page = Decoder(_Page).decode


class ToolPages:
    """The list of tools as hosts saw it: its annotations tell which calls are safe to repeat, its schemas which have headers."""

    def __init__(self) -> None:
        self._pages: list[Raw] = []
        self._known: dict[str, _Tool] | None = None
        self._schemas: dict[str, Mapping[str, Any]] = {}  # decoded ones

    def add(self, params: Mapping[str, Any] | None, page: Raw) -> None:
        """Add a page; the first one replaces all others."""
        if not params or "cursor" not in params:
            self._pages.clear()
        if len(self._pages) < _MAX_PAGES:
            self._pages.append(page)
        self._known = None
        self._schemas.clear()

    def annotations_of(self, name: str) -> ToolAnnotations | None:
        """Return the annotations of a tool, if they are known."""
        tool = self._tools().get(name)
        return None if tool is None else tool.annotations

    def header_schema_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the input schema of a tool, if it asks for headers. The object is the same until the list is read again."""
        tool = self._tools().get(name)
        if tool is None or _ANNOTATION not in bytes(tool.input_schema):
            return None
        if name not in self._schemas:
            self._schemas[name] = msgspec_json.decode(tool.input_schema)
        return self._schemas[name]

    def _tools(self) -> Mapping[str, _Tool]:
        if self._known is None:
            self._known = {}
            for page in self._pages:
                try:
                    self._known |= {tool.name: tool for tool in _decode_page(page).tools}
                except (DecodeError, RecursionError):
                    continue  # without annotations, a call is not safe to repeat
        return self._known
