"""Tools, resources, prompts, capabilities and related types."""

from __future__ import annotations

from typing import Any, Literal

from twopipes._protocol.base import MetaModel, Model, Role
from twopipes._protocol.content import Annotations, ContentBlock, Icon

LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""The severity of a log message, as in syslog (LG-02)."""

LOGGING_LEVELS: tuple[LoggingLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels, from the lowest severity to the highest."""


class Implementation(Model, frozen=True):
    """The name and version of a client or a server. They do not affect behaviour (VN-14)."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class _Capabilities(Model, frozen=True):
    def allows(self, name: str, *details: str) -> bool:
        """Return whether a capability is declared: ``allows("tools")``, ``allows("resources", "subscribe")``."""
        declared = getattr(self, name, None)
        for detail in details:
            declared = declared.get(detail) if isinstance(declared, dict) else None
        # False declares nothing; an empty object declares the capability (CP-03).
        return declared is not None and declared is not False


class ClientCapabilities(_Capabilities, frozen=True):
    """The capabilities of a client, as JSON objects; ``{}`` declares a capability without details (CP-03).

    Unknown capabilities are ignored (CP-09).
    """

    roots: dict[str, Any] | None = None
    sampling: dict[str, Any] | None = None
    elicitation: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None

    def allows(self, name: str, *details: str) -> bool:
        """Return whether a capability is declared: ``allows("sampling")``, ``allows("sampling", "tools")``.

        ``allows("elicitation", "form")`` is also true for ``{"elicitation": {}}``, which means forms only (CP-04).
        """
        if name == "elicitation" and details == ("form",):
            declared = self.elicitation
            return declared is not None and ("form" in declared or "url" not in declared)
        return super().allows(name, *details)


class ServerCapabilities(_Capabilities, frozen=True):
    """The capabilities of a server, as JSON objects; ``{}`` declares a capability without details (CP-03).

    Unknown capabilities are ignored (CP-09).
    """

    tools: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    prompts: dict[str, Any] | None = None
    completions: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None


class ToolAnnotations(Model, frozen=True):
    """Hints about what a tool does. They come from the server and are not trustworthy (TL-08)."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Model, frozen=True):
    """Whether a tool may run as a task; only in 2025-11-25 (TL-21)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(MetaModel, frozen=True):
    """A function that the model may call.

    Attributes:
        name: The name to call it by.
        input_schema: The JSON Schema of the arguments; its root is an object (TL-01).
        description: What it does, for the model.
        title: The name to show.
        output_schema: The JSON Schema of ``structured_content``. Before 2026-07-28 its root must be an object (TL-11).
        annotations: Hints about what it does.
        icons: Icons to show.
        execution: Whether it may run as a task; only in 2025-11-25.
    """

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    title: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    execution: ToolExecution | None = None

    @property
    def display_name(self) -> str:
        """The name to show: the title, the annotations' title, or the name (TL-09)."""
        return self.title or (self.annotations and self.annotations.title) or self.name

    @property
    def hints(self) -> ToolAnnotations:
        """The annotations, with the defaults of the specification for missing hints (TL-08)."""
        given = self.annotations or ToolAnnotations()
        return ToolAnnotations(
            title=given.title,
            read_only_hint=bool(given.read_only_hint),
            destructive_hint=given.destructive_hint is not False,
            idempotent_hint=bool(given.idempotent_hint),
            open_world_hint=given.open_world_hint is not False,
        )


class Resource(MetaModel, frozen=True):
    """Data that a client can read from a server.

    Attributes:
        uri: Its address.
        name: Its name.
        title: The name to show.
        description: What it is, for the model.
        mime_type: The type of its contents.
        annotations: Its audience and priority.
        size: Its size in bytes before any encoding.
        icons: Icons to show.
    """

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    size: int | None = None
    icons: list[Icon] | None = None


class ResourceTemplate(MetaModel, frozen=True):
    """A family of resources with a URI template (RFC 6570)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None


class PromptArgument(Model, frozen=True):
    """An argument of a prompt. Its value is always a string (PM-02)."""

    name: str
    description: str | None = None
    required: bool | None = None
    title: str | None = None


class Prompt(MetaModel, frozen=True):
    """A text or a conversation that the user can choose."""

    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: str | None = None
    icons: list[Icon] | None = None


class PromptMessage(Model, frozen=True):
    """One turn of a prompt, with exactly one block (PM-03)."""

    role: Role
    content: ContentBlock


class PromptReference(Model, frozen=True, tag="ref/prompt"):
    """The prompt whose argument is completed."""

    name: str
    title: str | None = None


class ResourceReference(Model, frozen=True, tag="ref/resource"):
    """The resource template whose variable is completed."""

    uri: str


class CompletionArgument(Model, frozen=True):
    """The argument to complete, with the text typed so far."""

    name: str
    value: str


class CompletionContext(Model, frozen=True):
    """The arguments that already have values, from 2025-06-18 (CM-04)."""

    arguments: dict[str, str] | None = None


class Completion(Model, frozen=True):
    """Suggestions, the best first; at most 100 are sent (CM-02)."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class SubscriptionFilter(Model, frozen=True):
    """The changes that a client asks for, or that a server agreed to report; from 2026-07-28 (SU-01)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class Root(MetaModel, frozen=True):
    """A folder on the client's machine that a server may access; the URI starts with ``file://`` (RT-01)."""

    uri: str
    name: str | None = None
