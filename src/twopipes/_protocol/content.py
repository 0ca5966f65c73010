"""Content blocks of tools, prompts and sampling messages (section CT of the rules)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twopipes._protocol.base import Block, MetaModel, Model, Role


class Annotations(Model, frozen=True):
    """Hints for displaying a block or a resource.

    Attributes:
        audience: For whom it is intended.
        priority: From 0 (optional) to 1 (required).
        last_modified: A date and time in ISO 8601, from 2025-06-18.
    """

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Icon(Model, frozen=True):
    """An icon for a user interface, from 2025-11-25 (CT-06).

    Attributes:
        src: An ``https:`` or ``data:`` URI; a client rejects others (CT-07).
        mime_type: The type, if the source does not give it or gives a wrong one.
        sizes: Such as ``48x48``, or ``any`` for a scalable image.
        theme: The background for which it is designed: ``light`` or ``dark``.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None

    @property
    def is_safe(self) -> bool:
        """Whether it may be fetched and shown (CT-07): only ``https:`` and ``data:`` URIs.

        Fetch icons without credentials, and follow redirects only to ``https:``.
        """
        return self.src[:6].lower() == "https:" or self.src[:5].lower() == "data:"


class TextContent(Block, frozen=True, tag="text"):
    """A block of plain text."""

    text: str
    annotations: Annotations | None = None


class ImageContent(Block, frozen=True, tag="image"):
    """An image; ``data`` is base64 (CT-03)."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class AudioContent(Block, frozen=True, tag="audio"):
    """Audio; ``data`` is base64 (CT-03). From 2025-03-26; an older peer gets an embedded resource (CT-02)."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Block, frozen=True, tag="resource_link"):
    """A link to a resource. From 2025-06-18; an older peer gets text (CT-02)."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    size: int | None = None
    icons: list[Icon] | None = None


class ResourceContents(MetaModel, frozen=True):
    """The contents of a resource: ``text``, or a ``blob`` in base64 (RS-02).

    Raises:
        ValueError: Both are missing.
    """

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        if self.text is None and self.blob is None:
            raise ValueError("Resource contents require `text` or `blob`")


class EmbeddedResource(Block, frozen=True, tag="resource"):
    """A resource included in the message."""

    resource: ResourceContents
    annotations: Annotations | None = None


class ToolUseContent(Block, frozen=True, tag="tool_use"):
    """A tool call by the model. In sampling, from 2025-11-25."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResultContent(Block, frozen=True, tag="tool_result"):
    """The result of a :class:`ToolUseContent`. In sampling, from 2025-11-25.

    Attributes:
        tool_use_id: The ``id`` of the tool call.
        content: The blocks for the model.
        structured_content: Absent is ``UNSET``; ``None`` is the JSON value null (TL-12).
        is_error: Whether the tool failed; absent means false.
    """

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None


class UnknownContent(dict[str, Any]):
    """A block of a type that twopipes does not know. It is kept and written unchanged (CT-08)."""

    @property
    def type(self) -> str:
        """The ``type`` of the block."""
        return str(self["type"])


if TYPE_CHECKING:
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
    SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
else:
    # msgspec decodes the tagged unions; decode.py adds the unknown blocks.
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
    SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent
