"""The options of a client, and those of a single request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from twopipes._client.era_cache import EraCache
from twopipes._client.input_handlers import QuestionHandler
from twopipes._client.stray_output import StrayOutput
from twopipes._client.targets import Target
from twopipes._process.shutdown import ShutdownPlan
from twopipes._process.stderr import StderrLine
from twopipes._protocol.types import Implementation, InputRequiredResult, LoggingLevel, LogParams, ProgressParams
from twopipes._session.identity import ClientProfile
from twopipes.errors import TwopipesError
from twopipes.settings import Limits, RestartPolicy, Timeouts

OnProgress = Callable[[ProgressParams], Any]
AnswerAll = Callable[[InputRequiredResult, str], Awaitable[Mapping[str, Any]]]
"""Answers the questions of a result: a result for each key. It also gets the method of the request."""
Validate = Literal["flag", "raise", "off"]
"""What to do about a result that breaks its tool's schema: flag the result, raise ``InvalidOutput``, or do not check."""
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


class ClientConfig(Struct, frozen=True, kw_only=True):
    """The arguments of :func:`twopipes.connect`, checked and with all defaults. Several objects of a client read them."""

    target: Target
    profile: ClientProfile
    questions: QuestionHandler
    timeouts: Timeouts
    limits: Limits
    restart: RestartPolicy
    shutdown: ShutdownPlan
    era_cache: EraCache
    validate: Validate
    undeclared: Undeclared
    on_log: Callable[[LogParams], Any] | None
    on_notification: Callable[[str, Any], Any] | None
    on_stderr: Callable[[StderrLine], Any] | None
    on_stray_output: Callable[[StrayOutput], Any] | None
    on_restart: Callable[[TwopipesError], Any] | None


class RequestOptions(Struct, frozen=True, kw_only=True):
    """Options of one request, passed unchanged from the client to the connection; see :meth:`Client.call_tool`."""

    timeouts: Timeouts | None = None
    on_progress: Callable[[Any], Any] | None = None
    log_level: LoggingLevel | None = None
    meta: Mapping[str, Any] | None = None
    return_questions: bool = False  # to the caller, instead of passing them to the callbacks
    on_questions: Callable[[], None] | None = None  # called when the server asks for input
    answer_all: AnswerAll | None = None  # answers these questions instead of the callbacks of the client
    origin: Any = None  # for the object that answers the questions of a legacy server: what this request was made for
    # For the request of another client that is passed on: the result is returned and progress is reported as msgspec.Raw, there is
    # progress only with on_progress, and client_meta replaces what this client puts into _meta about itself.
    raw: bool = False
    client_meta: Mapping[str, Any] | None = None
