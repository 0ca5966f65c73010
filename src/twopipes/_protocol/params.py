"""The params of requests and notifications, except those in :mod:`twopipes._protocol.input_requests`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw, field

from twopipes._protocol.base import Params
from twopipes._protocol.features import (
    ClientCapabilities,
    CompletionArgument,
    CompletionContext,
    Implementation,
    LoggingLevel,
    PromptReference,
    ResourceReference,
    SubscriptionFilter,
)
from twopipes._protocol.input_requests import EmptyParams
from twopipes.errors import RequestId

if TYPE_CHECKING:
    _OptionalRaw = Raw | None
else:
    # msgspec rejects Raw in a union. An absent member is still None; a null becomes Raw(b"null").
    _OptionalRaw = Raw


class InitializeParams(Params, frozen=True, kw_only=True):
    """Params of ``initialize``. Missing capabilities are read as an empty object (LC-02), and always written."""

    protocol_version: str
    # A factory, because a plain default would be omitted when it is written.
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)
    client_info: Implementation


class ListParams(Params, frozen=True):
    """Params to get one page of a list; the cursor is opaque to the client (PG-02)."""

    cursor: str | None = None


class AnsweringParams(Params, frozen=True, kw_only=True):
    """Params of the three methods whose response may contain questions; the request is then sent again with the answers (MR-01).

    Attributes:
        input_responses: The answers by the keys of the questions, raw until their type is known (MR-06).
        request_state: The state that the server sent with the questions, unchanged (MR-07).
    """

    input_responses: dict[str, Raw] | None = None
    request_state: str | None = None


class CallToolParams(AnsweringParams, frozen=True):
    """Params of ``tools/call``. The arguments stay raw and are decoded once, directly to the types of the tool."""

    name: str
    arguments: _OptionalRaw = None


class ReadResourceParams(AnsweringParams, frozen=True):
    """Params of ``resources/read``."""

    uri: str


class GetPromptParams(AnsweringParams, frozen=True):
    """Params of ``prompts/get``."""

    name: str
    arguments: dict[str, str] | None = None


class SubscribeParams(Params, frozen=True):
    """Params to subscribe to the changes of one resource; legacy only (RS-05)."""

    uri: str


class UnsubscribeParams(Params, frozen=True):
    """Params to end such a subscription; legacy only."""

    uri: str


class CompleteParams(Params, frozen=True):
    """Params to get suggestions while the user types an argument (CM-01)."""

    ref: PromptReference | ResourceReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class SetLevelParams(Params, frozen=True):
    """Params to set the minimum log level of the session; legacy only (LG-03)."""

    level: LoggingLevel


class ListenParams(Params, frozen=True):
    """Params to open a subscription; from 2026-07-28 (SU-01)."""

    notifications: SubscriptionFilter


class CancelledParams(Params, frozen=True):
    """Params of a cancellation. A missing id is accepted so that it can be ignored (CA-05), but never written (CA-12)."""

    request_id: RequestId | None = None
    reason: str | None = None


class ProgressParams(Params, frozen=True):
    """The progress of a request."""

    progress_token: RequestId
    progress: int | float
    total: int | float | None = None
    message: str | None = None


class LogParams(Params, frozen=True):
    """A log message; ``data`` is any JSON value (LG-02)."""

    level: LoggingLevel
    data: Any
    logger: str | None = None


class ResourceUpdatedParams(Params, frozen=True):
    """A resource has changed."""

    uri: str


class AcknowledgedParams(Params, frozen=True):
    """The first notification of a subscription, with the changes that will be reported (SU-06)."""

    notifications: SubscriptionFilter


class ElicitationCompleteParams(Params, frozen=True):
    """The user has finished at the URL; only in 2025-11-25 (EL-12)."""

    elicitation_id: str


ListChangedParams = EmptyParams
"""A list has changed; the method names it."""
