"""Return values of handlers, and their conversion to content."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, get_args

from msgspec import UNSET, Struct, structs

from twopipes._protocol.base import Block
from twopipes._protocol.content import Annotations, UnknownContent
from twopipes._protocol.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceContents,
    TextContent,
)
from twopipes._schema.custom_types import encode
from twopipes.errors import LocalProtocolError


class _Media(Struct, frozen=True):
    """Bytes with a MIME type, given directly or by a file."""

    data: bytes = UNSET  # type: ignore[assignment]  # set below if a path is given
    mime_type: str = ""
    annotations: Annotations | None = None
    path: str | os.PathLike[str] | None = None

    endings: ClassVar[Mapping[str, str]]
    _block_type: ClassVar[type[ImageContent | AudioContent]]

    def block(self) -> ImageContent | AudioContent:
        """Return the content block as it is sent."""
        return self._block_type(_base64(self.data), self.mime_type, self.annotations)

    def __post_init__(self) -> None:
        kind = type(self).__name__
        data: Any = self.data
        if (data is UNSET) is (self.path is None):
            raise LocalProtocolError(f"{kind} needs either data= or path=, not both")
        if self.path is not None:
            with open(self.path, "rb") as file:
                structs.force_setattr(self, "data", file.read())
        elif not isinstance(data, bytes | bytearray | memoryview):
            raise LocalProtocolError(
                f"the data of {kind} must be bytes, got {type(data).__name__}; for a file use {kind}(path=...)"
            )
        if not self.mime_type:
            structs.force_setattr(self, "mime_type", self._guessed_type())

    def _guessed_type(self) -> str:
        if self.path is None:
            return next(iter(self.endings.values()))
        ending = os.path.splitext(self.path)[1].lower()
        if ending not in self.endings:
            raise LocalProtocolError(f"the type of {os.fspath(self.path)!r} is unknown; give mime_type=...")
        return self.endings[ending]


class Image(_Media, frozen=True):
    """A picture to return from a tool or a prompt: ``Image(data)`` or ``Image(path="plot.png")``.

    Attributes:
        data: The bytes.
        mime_type: Their type. By default it follows from the extension of the path; ``image/png`` without a path.
        annotations: For whom the picture is, and how important.
        path: The file to read. It is read immediately.

    Raises:
        LocalProtocolError: There is neither data nor a path, or there are both, or the extension of the path is unknown.
        OSError: The file cannot be read.
    """

    _block_type: ClassVar = ImageContent
    endings: ClassVar = {
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
        ".svg": "image/svg+xml",
        ".bmp": "image/bmp",
        ".tif": "image/tiff",
        ".tiff": "image/tiff",
        ".avif": "image/avif",
    }


class Audio(_Media, frozen=True):
    """A sound to return from a tool or a prompt: ``Audio(data)`` or ``Audio(path="bell.mp3")``.

    The attributes and errors are those of :class:`Image`; without a path the type is ``audio/wav``.
    """

    _block_type: ClassVar = AudioContent
    endings: ClassVar = {
        ".wav": "audio/wav",
        ".mp3": "audio/mpeg",
        ".ogg": "audio/ogg",
        ".oga": "audio/ogg",
        ".opus": "audio/ogg",
        ".flac": "audio/flac",
        ".m4a": "audio/mp4",
        ".aac": "audio/aac",
        ".webm": "audio/webm",
    }


class ToolResult(Struct, frozen=True, kw_only=True):
    """The complete result of a tool, for a tool that sets every part itself.

    Attributes:
        content: Anything a tool may return: a string, a block, a list of these.
        structured: The value for programs; absent if not given.
        is_error: Whether the tool failed; ``content`` then describes the failure.
        meta: The ``_meta`` of the result.
    """

    content: Any = ()
    structured: Any = UNSET
    is_error: bool = False
    meta: dict[str, Any] | None = None

    def result(self) -> CallToolResult:
        """Return the result as it is sent."""
        blocks = blocks_of(self.content)
        if not blocks and self.structured is not UNSET:
            blocks = [TextContent(as_json(self.structured))]  # TL-13
        return CallToolResult(blocks, self.structured, True if self.is_error else None, meta=self.meta)


CONTENT_TYPES = (Image, Audio, ToolResult, CallToolResult, Block, UnknownContent, ResourceContents, bytes, bytearray)
"""Types of return values that are content, not structured data."""


def blocks_of(value: Any) -> list[ContentBlock]:
    """Convert the return value of a tool to content blocks."""
    match value:
        case None:
            return []
        case str():
            return [TextContent(value)]
        case Image() | Audio():
            return [value.block()]
        case Block() | UnknownContent():
            return [value]  # type: ignore[list-item]
        case bytes() | bytearray():
            # Bytes without a type: a resource without a URI of its own.
            return [EmbeddedResource(ResourceContents("data:", blob=_base64(value), mime_type="application/octet-stream"))]
        case ResourceContents():
            return [EmbeddedResource(value)]
        case list() | tuple() if any(isinstance(item, (str, *_CONTENT_EXCEPT_TEXT)) for item in value):
            return [block for item in value for block in blocks_of(item)]
        case list() | tuple() if not value:
            return []
        case _:
            return [TextContent(as_json(value))]


_CONTENT_EXCEPT_TEXT: Final = (bytes, bytearray, Image, Audio, Block, UnknownContent, ResourceContents)


def is_content(value: Any) -> bool:
    """Return whether a value is content and not structured data: blocks, pictures, bytes, or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, _CONTENT_EXCEPT_TEXT) for item in value)
    return isinstance(value, _CONTENT_EXCEPT_TEXT)


def as_json(value: Any) -> str:
    """Return a value as JSON text, as it would be sent."""
    return encode(value).decode()


def contents_of(uri: str, value: Any, mime_type: str | None) -> list[ResourceContents]:
    """Convert the return value of a resource function to resource contents (RS-02)."""
    match value:
        case ResourceContents():
            return [value]
        case str():
            return [ResourceContents(uri, text=value, mime_type=mime_type or "text/plain")]
        case bytes() | bytearray():
            return [ResourceContents(uri, blob=_base64(value), mime_type=mime_type or "application/octet-stream")]
        case list() | tuple() if any(isinstance(item, ResourceContents | bytes) for item in value):
            return [content for item in value for content in contents_of(uri, item, mime_type)]
        case _:
            return [ResourceContents(uri, text=as_json(value), mime_type=mime_type or "application/json")]


Role = Literal["user", "assistant"]


def messages_of(value: Any, role: Role = "user") -> list[PromptMessage]:
    """Convert the return value of a prompt function to messages, each with exactly one block (PM-03)."""
    match value:
        case PromptMessage():
            return [value]
        case Mapping() if "role" in value and "content" in value:
            if value["role"] not in get_args(Role):
                raise LocalProtocolError(f"the role of a prompt message must be 'user' or 'assistant', got {value['role']!r}")
            return messages_of(value["content"], value["role"])
        case list() | tuple():
            return [message for item in value for message in messages_of(item, role)]
        case _:
            return [PromptMessage(role, block) for block in blocks_of(value)]


def _base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")
