"""What a handler may return, and what becomes of it."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, get_args

from msgspec import UNSET, Struct, structs

from twopipes._protocol.content import Annotations, Block, UnknownContent
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

__all__ = ["Audio", "Image", "ToolResult", "blocks_of", "contents_of", "messages_of"]


class _Media(Struct, frozen=True):
    """Bytes and what they are, given as they are or by the file that holds them."""

    data: bytes = UNSET  # type: ignore[assignment]  # set below where a path is given
    mime_type: str = ""
    annotations: Annotations | None = None
    path: str | os.PathLike[str] | None = None

    endings: ClassVar[Mapping[str, str]]

    def __post_init__(self) -> None:
        kind = type(self).__name__
        data: Any = self.data
        if (data is UNSET) is (self.path is None):
            raise LocalProtocolError(f"{kind} needs data= or path=, and not both")
        if self.path is not None:
            with open(self.path, "rb") as file:
                structs.force_setattr(self, "data", file.read())
        elif not isinstance(data, bytes | bytearray | memoryview):
            raise LocalProtocolError(f"the data of {kind} is bytes, not {type(data).__name__}; a file is {kind}(path=...)")
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
        mime_type: What they are. By default it follows from the ending of the path; ``image/png`` without a path.
        annotations: For whom the picture is, and how important.
        path: The file to read, at once.

    Raises:
        LocalProtocolError: There is neither data nor a path, or there are both, or the ending of the path is unknown.
        OSError: The file cannot be read.
    """

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

    def block(self) -> ImageContent:
        """The block it is sent as."""
        return ImageContent(_base64(self.data), self.mime_type, self.annotations)


class Audio(_Media, frozen=True):
    """A sound to return from a tool or a prompt: ``Audio(data)`` or ``Audio(path="bell.mp3")``.

    The attributes and errors are those of :class:`Image`; without a path the type is ``audio/wav``.
    """

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

    def block(self) -> AudioContent:
        """The block it is sent as."""
        return AudioContent(_base64(self.data), self.mime_type, self.annotations)


class ToolResult(Struct, frozen=True, kw_only=True):
    """A tool's result in full, for a tool that wants to decide about all of it.

    Attributes:
        content: Anything a tool may return: a text, a block, a list of these.
        structured: The value for programs; absent if not given.
        is_error: The tool failed, and ``content`` says how.
        meta: For ``_meta``.
    """

    content: Any = ()
    structured: Any = UNSET
    is_error: bool = False
    meta: dict[str, Any] | None = None

    def result(self) -> CallToolResult:
        """The result it is sent as."""
        blocks = blocks_of(self.content)
        if not blocks and self.structured is not UNSET:
            blocks = [TextContent(as_json(self.structured))]  # TL-13
        return CallToolResult(blocks, self.structured, True if self.is_error else None, meta=self.meta)


CONTENT_TYPES = (Image, Audio, ToolResult, CallToolResult, Block, UnknownContent, ResourceContents, bytes, bytearray)
"""What is content, and not data, when a tool returns it."""


def blocks_of(value: Any) -> list[ContentBlock]:
    """What a tool returned, as content blocks."""
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
            # Bytes of no stated kind: a resource without an address of its own.
            return [EmbeddedResource(ResourceContents("data:", blob=_base64(value), mime_type="application/octet-stream"))]
        case ResourceContents():
            return [EmbeddedResource(value)]
        case list() | tuple() if any(_is_content(item) for item in value):
            return [block for item in value for block in blocks_of(item)]
        case list() | tuple() if not value:
            return []
        case _:
            return [TextContent(as_json(value))]


# A tuple, made once: a union of types would be made anew at every call.
_CONTENT_BUT_TEXT: Final = (bytes, bytearray, Image, Audio, Block, UnknownContent, ResourceContents)


def _is_content(value: Any) -> bool:
    return isinstance(value, (str, *_CONTENT_BUT_TEXT))


def is_content(value: Any) -> bool:
    """Whether a value is content, as against data: blocks, pictures, bytes, or a list in which there is one."""
    if type(value) is str:  # most are
        return False
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, _CONTENT_BUT_TEXT) for item in value)
    return isinstance(value, _CONTENT_BUT_TEXT)


def as_json(value: Any) -> str:
    """A value as JSON text, the way it would be sent."""
    return encode(value).decode()


def contents_of(uri: str, value: Any, mime_type: str | None) -> list[ResourceContents]:
    """What a resource function returned, as resource contents (RS-02)."""
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
    """What a prompt function returned, as messages, each with exactly one block (PM-03)."""
    match value:
        case PromptMessage():
            return [value]
        case Mapping() if "role" in value and "content" in value:
            if value["role"] not in get_args(Role):
                raise LocalProtocolError(f"a message of a prompt is the user's or the assistant's, not {value['role']!r}'s")
            return messages_of(value["content"], value["role"])
        case list() | tuple():
            return [message for item in value for message in messages_of(item, role)]
        case _:
            return [PromptMessage(role, block) for block in blocks_of(value)]


def _base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")
