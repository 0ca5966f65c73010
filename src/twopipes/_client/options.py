"""Options of a client that are rarely set, and the options of a single request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from twopipes._client.era_cache import EraCache
from twopipes._client.output_check import Validate
from twopipes._protocol.types import Implementation, LoggingLevel, ProgressParams
from twopipes.settings import Timeouts

__all__ = ["ClientOptions", "OnProgress", "RequestOptions", "Undeclared"]

OnProgress = Callable[[ProgressParams], Any]
Undeclared = Literal["empty", "raise"]
"""What to do about a list of something that the server did not declare: return an empty one, or raise ``CapabilityMissing``."""


class ClientOptions(Struct, frozen=True, kw_only=True):
    """Rarely needed options of :func:`twopipes.connect`.

    Attributes:
        client_info: The name and version that this client reports; by default those of twopipes.
        experimental: Experimental capabilities to declare.
        extensions: Extensions to declare, by name.
        sample_tools: Whether ``on_sample`` can pass tools to the model.
        on_notification: Called with the method and params of each notification that has no callback of its own.
        validate: What to do about a result that breaks its tool's output schema: ``flag`` it, ``raise``, or do not check (``off``).
        undeclared: What lists and completions do if the server did not declare them: return ``empty`` results, or ``raise``
            ``CapabilityMissing``. Nothing is sent in either case.
        era_cache: Where the era of each command is remembered; by default in memory, for this process.
    """

    client_info: Implementation | None = None
    experimental: Mapping[str, Any] | None = None
    extensions: Mapping[str, Any] | None = None
    sample_tools: bool = False
    on_notification: Callable[[str, Any], Any] | None = None
    validate: Validate = "flag"
    undeclared: Undeclared = "empty"
    era_cache: EraCache | None = None


class RequestOptions(Struct, frozen=True, kw_only=True):
    """Options of one request, passed unchanged from the client to the connection.

    Attributes:
        timeouts: Used instead of the client's.
        on_progress: Called with each progress report.
        log_level: On the stateless wire, the lowest level of log messages to send during this request.
        meta: Additional keys for ``_meta``.
        return_questions: Return questions of the server to the caller instead of passing them to the callbacks.
        on_questions: Called when the server asks for input.
    """

    timeouts: Timeouts | None = None
    on_progress: OnProgress | None = None
    log_level: LoggingLevel | None = None
    meta: Mapping[str, Any] | None = None
    return_questions: bool = False
    on_questions: Callable[[], None] | None = None
