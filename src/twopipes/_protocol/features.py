"""What a server offers (tools, resources, prompts) and how both sides present themselves."""

from __future__ import annotations

from typing import Any, Literal

from twopipes._protocol.base import MetaModel, Model, Role
from twopipes._protocol.content import Annotations, ContentBlock, Icon

LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How grave a log message is, as in syslog (LG-02)."""

LOGGING_LEVELS: tuple[LoggingLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels, the least grave first."""


class Implementation(Model, frozen=True):
    """The name and version of a client or a server. It never steers behaviour (VN-14)."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class ClientCapabilities(Model, frozen=True):
    """What a client can do for a server. The values are the wire's own objects; ``{}`` declares without details (CP-03).

    The set is open: capabilities that twopipes does not know are ignored (CP-09).
    """

    roots: dict[str, Any] | None = None
    sampling: dict[str, Any] | None = None
    elicitation: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None

    def allows(self, name: str, *details: str) -> bool:
        """Tells whether a capability is declared: ``allows("sampling")``, ``allows("sampling", "tools")``.

        ``allows("elicitation", "form")`` also holds for ``{"elicitation": {}}``, which means forms only (CP-04).
        """
        if name == "elicitation" and details == ("form",):
            declared = self.elicitation
            return declared is not None and ("form" in declared or "url" not in declared)
        return _declares(self, name, details)


class ServerCapabilities(Model, frozen=True):
    """What a server offers. The values are the wire's own objects; ``{}`` declares without details (CP-03).

    The set is open: capabilities that twopipes does not know are ignored (CP-09).
    """

    tools: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None
    prompts: dict[str, Any] | None = None
    completions: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    tasks: dict[str, Any] | None = None
    experimental: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None

    def allows(self, name: str, *details: str) -> bool:
        """Tells whether a capability is declared: ``allows("tools")``, ``allows("resources", "subscribe")``."""
        return _declares(self, name, details)


def _declares(capabilities: ClientCapabilities | ServerCapabilities, name: str, details: tuple[str, ...]) -> bool:
    declared = getattr(capabilities, name, None)
    for detail in details:
        declared = declared.get(detail) if isinstance(declared, dict) else None
    # A flag set to false declares nothing; an empty object declares (CP-03).
    return declared is not None and declared is not False


class ToolAnnotations(Model, frozen=True):
    """Hints about what a tool does. They come from the server and prove nothing (TL-08)."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Model, frozen=True):
    """How a tool may be run as a task; a member of 2025-11-25 alone (TL-21)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


class Tool(MetaModel, frozen=True):
    """A function that the model may call.

    Attributes:
        name: The name to call it by.
        input_schema: The JSON Schema of the arguments; its root is an object (TL-01).
        description: What it does, for the model.
        title: The name to show.
        output_schema: The JSON Schema of ``structured_content``. Any root from 2026-07-28 on, an object before (TL-11).
        annotations: Hints about what it does.
        icons: Pictures to show beside it.
        execution: Whether it may run as a task; in 2025-11-25 alone.
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
        """The annotations with nothing left open: what the server does not say is what the specification assumes (TL-08)."""
        given = self.annotations or ToolAnnotations()
        return ToolAnnotations(
            title=given.title,
            read_only_hint=bool(given.read_only_hint),
            destructive_hint=given.destructive_hint is not False,
            idempotent_hint=bool(given.idempotent_hint),
            open_world_hint=given.open_world_hint is not False,
        )


class Resource(MetaModel, frozen=True):
    """Something a server can be asked to read.

    Attributes:
        uri: Its address.
        name: Its name.
        title: The name to show.
        description: What it is, for the model.
        mime_type: The type of its contents.
        annotations: For whom it is, and how important.
        size: How many bytes it has before any encoding.
        icons: Pictures to show beside it.
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
    """A family of resources, by a URI template (RFC 6570)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None


class PromptArgument(Model, frozen=True):
    """An argument that a prompt takes. Its value is always a string (PM-02)."""

    name: str
    description: str | None = None
    required: bool | None = None
    title: str | None = None


class Prompt(MetaModel, frozen=True):
    """A text, or a conversation, that a server offers for the user to choose."""

    name: str
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    title: str | None = None
    icons: list[Icon] | None = None


class PromptMessage(Model, frozen=True):
    """One turn of a prompt: always exactly one block (PM-03)."""

    role: Role
    content: ContentBlock


class PromptReference(Model, frozen=True, tag="ref/prompt"):
    """Names the prompt whose argument is to be completed."""

    name: str
    title: str | None = None


class ResourceReference(Model, frozen=True, tag="ref/resource"):
    """Names the resource template whose variable is to be completed."""

    uri: str


class CompletionArgument(Model, frozen=True):
    """The argument to be completed and what has been typed of it."""

    name: str
    value: str


class CompletionContext(Model, frozen=True):
    """The arguments that are settled already, from 2025-06-18 on (CM-04)."""

    arguments: dict[str, str] | None = None


class Completion(Model, frozen=True):
    """Suggestions, the best first; at most 100 travel (CM-02)."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class SubscriptionFilter(Model, frozen=True):
    """Which changes a client wants to hear of, or a server agreed to report; from 2026-07-28 on (SU-01)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None


class Root(MetaModel, frozen=True):
    """A place in the client's file system that a server may look at; the URI begins with ``file://`` (RT-01)."""

    uri: str
    name: str | None = None
