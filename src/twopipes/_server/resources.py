"""Resources that a client can read by URI (section RS of the rules)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twopipes._protocol.content import Annotations
from twopipes._protocol.types import CacheScope, Icon, ReadResourceResult, Resource, ResourceTemplate
from twopipes._protocol.uri_template import UriTemplate
from twopipes._schema.signature import describe
from twopipes._server.context import Context
from twopipes._server.function_entry import FunctionEntry, RunBlocking
from twopipes._server.registry import place_of
from twopipes._server.results import contents_of
from twopipes.errors import InvalidParams, LocalProtocolError, NotFound


class ResourceEntry(FunctionEntry):
    """A resource with one URI, or the resources of a URI template.

    Attributes:
        described: The :class:`Resource` or :class:`ResourceTemplate` for clients.
        matcher: The template; ``None`` for one resource.
        ttl_ms: How long a client may cache it.
        cache_scope: Whether it is the same for every user.
    """

    described: Any
    matcher: UriTemplate | None
    ttl_ms: int | None
    cache_scope: CacheScope | None

    async def read(self, uri: str, variables: Mapping[str, str], context: Context, run_blocking: RunBlocking) -> ReadResourceResult:
        """Read a resource. If a variable of the template cannot be converted, the resource is not found."""
        try:
            value = await self.call_with_texts(variables, context, run_blocking)
        except InvalidParams:
            if self.matcher is None:
                raise
            raise NotFound("resource", uri) from None
        if isinstance(value, ReadResourceResult):
            return value
        if value is None:
            raise NotFound("resource", uri)  # RS-06: never an empty result
        contents = contents_of(uri, value, self.described.mime_type)
        return ReadResourceResult(contents, ttl_ms=self.ttl_ms, cache_scope=self.cache_scope)


def make_resource(
    uri: str,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    annotations: Annotations | None = None,
    icons: Sequence[Icon] | None = None,
    size: int | None = None,
    meta: Mapping[str, Any] | None = None,
    ttl_ms: int | None = None,
    cache_scope: CacheScope | None = None,
) -> ResourceEntry:
    """Describe a function as a resource or, if the URI has variables, as a template of resources."""
    signature = describe(function, injected=(Context,))
    matcher = UriTemplate(uri)
    variables = set(matcher.variables)
    where = f"the resource {uri!r} at {place_of(function)}"
    if missing := set(signature.input_schema.get("required", ())) - variables:
        raise LocalProtocolError(f"{where} needs {', '.join(sorted(missing))}, which the URI does not have as {{variables}}")
    if unused := variables - set(signature.input_schema.get("properties", {})):
        raise LocalProtocolError(f"the URI of {where} has {', '.join(sorted(unused))}, which the function does not take")
    shared: dict[str, Any] = {
        "title": title,
        "description": (description if description is not None else signature.description) or None,
        "mime_type": mime_type,
        "annotations": annotations,
        "icons": None if icons is None else list(icons),
        "meta": None if meta is None else dict(meta),
    }
    name = name or signature.name
    if variables:
        return ResourceEntry(function, signature, ResourceTemplate(uri, name, **shared), matcher, ttl_ms, cache_scope)
    return ResourceEntry(function, signature, Resource(uri, name, size=size, **shared), None, ttl_ms, cache_scope)
