"""The results of a server. Those of a client are in :mod:`twopipes._protocol.input_requests`."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET

from twopipes._protocol.base import Result, text_of
from twopipes._protocol.content import ContentBlock, ResourceContents
from twopipes._protocol.features import (
    Completion,
    Implementation,
    Prompt,
    PromptMessage,
    Resource,
    ResourceTemplate,
    ServerCapabilities,
    Tool,
)
from twopipes._protocol.input_requests import InputRequest
from twopipes.errors import RemoteProtocolError

CacheScope = Literal["public", "private"]
"""Who may share a cached result: all users, or only users with the same permissions (CH-06)."""


class CacheableResult(Result, frozen=True, kw_only=True):
    """A result that may be cached, from 2026-07-28 (CH-01).

    Attributes:
        ttl_ms: The lifetime in milliseconds. 0, absent or negative means that it is stale at once (CH-03).
        cache_scope: Who may share it.
    """

    ttl_ms: int | None = None
    cache_scope: CacheScope | None = None


class EmptyResult(Result, frozen=True):
    """A result without members."""


class InitializeResult(Result, frozen=True):
    """The result of ``initialize``; legacy only."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult, frozen=True):
    """The revisions and capabilities of a server, from 2026-07-28 (VN-06)."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class ListToolsResult(CacheableResult, frozen=True):
    """One page of tools, in the server's order (TL-16)."""

    tools: list[Tool]
    next_cursor: str | None = None


class ListResourcesResult(CacheableResult, frozen=True):
    """One page of resources."""

    resources: list[Resource]
    next_cursor: str | None = None


class ListResourceTemplatesResult(CacheableResult, frozen=True):
    """One page of resource templates."""

    resource_templates: list[ResourceTemplate]
    next_cursor: str | None = None


class ListPromptsResult(CacheableResult, frozen=True):
    """One page of prompts."""

    prompts: list[Prompt]
    next_cursor: str | None = None


class ReadResourceResult(CacheableResult, frozen=True):
    """The contents of a resource; there may be several entries (RS-02)."""

    contents: list[ResourceContents]

    @property
    def text(self) -> str:
        """The texts of all entries, joined by newlines."""
        return "\n".join(each.text for each in self.contents if each.text is not None)

    @property
    def data(self) -> bytes:
        """The bytes of the first entry with a blob; empty if there is none.

        Raises:
            RemoteProtocolError: The blob is not valid base64 (RS-02).
        """
        from base64 import b64decode  # every server loads this file, and few read a blob

        for each in self.contents:
            if each.blob is not None:
                try:
                    return b64decode(each.blob, validate=True)
                except ValueError as error:
                    raise RemoteProtocolError(f"the blob of {each.uri} is not valid base64 ({error})") from error
        return b""


class GetPromptResult(Result, frozen=True):
    """A prompt with its arguments filled in."""

    messages: list[PromptMessage]
    description: str | None = None


class CompleteResult(Result, frozen=True):
    """Suggestions for an argument."""

    completion: Completion


class CallToolResult(Result, frozen=True):
    """The result of a tool.

    Attributes:
        content: The blocks for the model.
        structured_content: The value for programs. Absent is ``UNSET``; ``None`` is the JSON value null (TL-12).
        is_error: Whether the tool failed; absent means false (TL-03).
    """

    content: list[ContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return text_of(self.content)


class InputRequiredResult(Result, frozen=True):
    """The server needs answers to continue, from 2026-07-28. At least one member is present (MR-02).

    Attributes:
        input_requests: The questions by key; each answer has the same key.
        request_state: The state to send back unchanged with the answers (MR-07).
    """

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None


class SubscriptionsListenResult(Result, frozen=True):
    """The server has ended a subscription; ``meta`` contains its id (SU-13)."""
