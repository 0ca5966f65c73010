"""The params of the requests and notifications that :mod:`twopipes._protocol.input_requests` does not have."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, field

from twopipes._protocol.base import OptionalRaw, Params
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


class InitializeParams(Params, frozen=True, kw_only=True):
    """Opens a legacy connection. Capabilities that are missing are read as none (LC-02), and always written."""

    protocol_version: str
    # A factory, because a plain default would be left out on the way out.
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)
    client_info: Implementation


class ListParams(Params, frozen=True):
    """Asks for one page of a list; the cursor is the server's own and opaque (PG-02)."""

    cursor: str | None = None


class AnsweringParams(Params, frozen=True, kw_only=True):
    """Params of the three methods that may be answered by a question, and sent again with the answer (MR-01).

    Attributes:
        input_responses: Bare results by the question's key, read when their kind is known (MR-06).
        request_state: What the server gave with the questions, untouched (MR-07).
    """

    input_responses: dict[str, Raw] | None = None
    request_state: str | None = None


class CallToolParams(AnsweringParams, frozen=True):
    """Calls a tool. The arguments stay raw, so that they are read once, straight into the tool's own types."""

    name: str
    arguments: OptionalRaw = None


class ReadResourceParams(AnsweringParams, frozen=True):
    """Reads a resource."""

    uri: str


class GetPromptParams(AnsweringParams, frozen=True):
    """Asks for a prompt with its arguments filled in."""

    name: str
    arguments: dict[str, str] | None = None


class SubscribeParams(Params, frozen=True):
    """Asks to hear of changes of one resource; legacy only (RS-05)."""

    uri: str


class UnsubscribeParams(Params, frozen=True):
    """Ends what :class:`SubscribeParams` began."""

    uri: str


class CompleteParams(Params, frozen=True):
    """Asks for suggestions while the user types an argument (CM-01)."""

    ref: PromptReference | ResourceReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class SetLevelParams(Params, frozen=True):
    """Sets the least level to log for the session; legacy only (LG-03)."""

    level: LoggingLevel


class ListenParams(Params, frozen=True):
    """Opens a subscription, from 2026-07-28 on (SU-01)."""

    notifications: SubscriptionFilter


class CancelledParams(Params, frozen=True):
    """Gives up a request. An id that is missing is read, so that it can be ignored (CA-05), but never written (CA-12)."""

    request_id: RequestId | None = None
    reason: str | None = None


class ProgressParams(Params, frozen=True):
    """Tells how far a request has come."""

    progress_token: RequestId
    progress: int | float
    total: int | float | None = None
    message: str | None = None


class LogParams(Params, frozen=True):
    """A log message; ``data`` is anything JSON can hold (LG-02)."""

    level: LoggingLevel
    data: Any
    logger: str | None = None


class ResourceUpdatedParams(Params, frozen=True):
    """A resource has changed."""

    uri: str


class AcknowledgedParams(Params, frozen=True):
    """Opens the stream of a subscription and lists what will be reported (SU-06)."""

    notifications: SubscriptionFilter


class ElicitationCompleteParams(Params, frozen=True):
    """The user has finished at the URL; in 2025-11-25 alone (EL-12)."""

    elicitation_id: str


ListChangedParams = EmptyParams
"""A list has changed; which one, the method says."""
