"""The options of tools, resources and prompts. Only for type checkers; not imported at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from twopipes._protocol.content import Annotations, Icon
from twopipes._protocol.features import ToolAnnotations
from twopipes._protocol.results import CacheScope


class PromptOptions(TypedDict, total=False):
    """The options of :meth:`twopipes.Server.prompt`."""

    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, Any] | None


class ToolOptions(PromptOptions, total=False):
    """The options of :meth:`twopipes.Server.tool`."""

    annotations: ToolAnnotations | Mapping[str, Any] | None
    input_schema: Mapping[str, Any] | None
    output_schema: Mapping[str, Any] | None


class ResourceOptions(PromptOptions, total=False):
    """The options of :meth:`twopipes.Server.resource`."""

    mime_type: str | None
    annotations: Annotations | None
    size: int | None
    ttl_ms: int | None
    cache_scope: CacheScope | None
