"""Content blocks: what tools, prompts and sampling messages are made of (section CT of the rules)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from twopipes._protocol.base import MetaModel, Model, Role


class Annotations(Model, frozen=True):
    """Hints about a block or a resource for whoever shows it.

    Attributes:
        audience: For whom it is meant.
        priority: From 0 (may be left out) to 1 (needed).
        last_modified: A date and time as in ISO 8601, from 2025-06-18 on.
    """

    audience: list[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Icon(Model, frozen=True):
    """A picture for a user interface, from 2025-11-25 on (CT-06).

    Attributes:
        src: Where it is: an ``https:`` or ``data:`` URI; a client refuses others (CT-07).
        mime_type: The type, where the source does not say or says it wrongly.
        sizes: Such as ``48x48``, or ``any`` for a picture that scales.
        theme: The background it is drawn for: ``light`` or ``dark``.
    """

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None

    @property
    def is_safe(self) -> bool:
        """Whether it may be shown (CT-07): ``https:`` and ``data:`` may, any other source may not even be looked at.

        Whoever fetches one sends no credentials along, and follows no redirect to anything but ``https:``.
        """
        return self.src[:6].lower() == "https:" or self.src[:5].lower() == "data:"


class Block(MetaModel, frozen=True):
    """The root of all blocks."""

    @property
    def type(self) -> str:
        """What kind of block this is, in the word of the wire."""
        return str(self.__struct_config__.tag)


class TextContent(Block, frozen=True, tag="text"):
    """A block of plain text."""

    text: str
    annotations: Annotations | None = None


class ImageContent(Block, frozen=True, tag="image"):
    """A picture; ``data`` is base64 (CT-03)."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class AudioContent(Block, frozen=True, tag="audio"):
    """A sound; ``data`` is base64 (CT-03). From 2025-03-26 on; an older peer gets an embedded resource (CT-02)."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


class ResourceLink(Block, frozen=True, tag="resource_link"):
    """A resource that can be read, named but not included. From 2025-06-18 on; an older peer gets text (CT-02)."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    size: int | None = None
    icons: list[Icon] | None = None


class ResourceContents(MetaModel, frozen=True):
    """What a resource holds: ``text``, or a ``blob`` in base64 (RS-02).

    Raises:
        ValueError: There is neither text nor a blob.
    """

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        if self.text is None and self.blob is None:
            raise ValueError("Resource contents need `text` or `blob`")


class EmbeddedResource(Block, frozen=True, tag="resource"):
    """A resource included in the message."""

    resource: ResourceContents
    annotations: Annotations | None = None


class ToolUseContent(Block, frozen=True, tag="tool_use"):
    """The model wants a tool to be called. In sampling, from 2025-11-25 on."""

    id: str
    name: str
    input: dict[str, Any]


class ToolResultContent(Block, frozen=True, tag="tool_result"):
    """What the tool gave that a :class:`ToolUseContent` asked for. In sampling, from 2025-11-25 on.

    Attributes:
        tool_use_id: The ``id`` of the block that asked.
        content: The blocks for the model.
        structured_content: Absent is ``UNSET``; ``None`` is the JSON value null (TL-12).
        is_error: Whether the tool failed; absent means no.
    """

    tool_use_id: str
    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None


class UnknownContent(dict[str, Any]):
    """A block of a type that twopipes does not know, kept as it came (CT-08). It is written as it was read."""

    @property
    def type(self) -> str:
        """The type that the block claims to have."""
        return str(self["type"])


if TYPE_CHECKING:
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent
    SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent | UnknownContent
else:
    # msgspec reads the tagged unions; reading.py puts the unknown blocks in where they were.
    ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource
    SamplingContent = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent


def text_of(blocks: list[ContentBlock] | list[SamplingContent]) -> str:
    """Joins the text blocks among ``blocks``, one below the other."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextContent))
