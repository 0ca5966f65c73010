"""Resources that a client can read by URI (section RS of the rules)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twopipes._protocol.content import Annotations
from twopipes._protocol.types import CacheScope, Icon, ReadResourceResult, Resource, ResourceTemplate
from twopipes._schema.signature import Signature, describe
from twopipes._server.context import Context
from twopipes._server.registry import place_of
from twopipes._server.results import contents_of
from twopipes._server.text_arguments import RunBlocking, call_with_texts
from twopipes.errors import InvalidParams, LocalProtocolError, NotFound

if TYPE_CHECKING:
    from twopipes._protocol.uri_template import UriTemplate

__all__ = ["ResourceEntry", "TemplateEntry", "make_resource"]


class Caching:
    """How long a client may cache a resource, and whether it is the same for every user."""

    __slots__ = ("scope", "ttl_ms")

    def __init__(self, ttl_ms: int | None = None, scope: CacheScope | None = None) -> None:
        self.ttl_ms = ttl_ms
        self.scope = scope


class ResourceEntry:
    """A resource with one URI."""

    __slots__ = ("caching", "function", "place", "resource", "signature")

    def __init__(self, resource: Resource, signature: Signature, function: Callable[..., Any], caching: Caching) -> None:
        self.resource = resource
        self.signature = signature
        self.function = function
        self.caching = caching
        self.place = place_of(function)

    async def read(self, uri: str, context: Context, run_blocking: RunBlocking) -> ReadResourceResult:
        """Read the resource."""
        value = await call_with_texts(self.function, self.signature, {}, context, run_blocking)
        return _result(uri, value, self.resource.mime_type, self.caching)


class TemplateEntry:
    """The resources of a URI template."""

    __slots__ = ("caching", "function", "matcher", "place", "signature", "template")

    def __init__(
        self,
        template: ResourceTemplate,
        matcher: UriTemplate,
        signature: Signature,
        function: Callable[..., Any],
        caching: Caching,
    ) -> None:
        self.template = template
        self.matcher = matcher
        self.signature = signature
        self.function = function
        self.caching = caching
        self.place = place_of(function)

    async def read(self, uri: str, found: Mapping[str, str], context: Context, run_blocking: RunBlocking) -> ReadResourceResult:
        """Read a resource of the template. If a variable cannot be converted, the resource is not found."""
        try:
            value = await call_with_texts(self.function, self.signature, found, context, run_blocking)
        except InvalidParams:
            raise NotFound("resource", uri) from None
        return _result(uri, value, self.template.mime_type, self.caching)


def _result(uri: str, value: Any, mime_type: str | None, caching: Caching) -> ReadResourceResult:
    if isinstance(value, ReadResourceResult):
        return value
    if value is None:
        raise NotFound("resource", uri)  # RS-06: never an empty result
    return ReadResourceResult(contents_of(uri, value, mime_type), ttl_ms=caching.ttl_ms, cache_scope=caching.scope)


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
) -> ResourceEntry | TemplateEntry:
    """Describe a function as a resource or, if the URI has variables, as a template of resources.

    Raises:
        LocalProtocolError: The variables of the URI and the parameters of the function do not match.
    """
    from twopipes._protocol.uri_template import UriTemplate  # noqa: PLC0415 - servers without resources start faster

    signature = describe(function, injected=(Context,))
    matcher = UriTemplate(uri)
    parameters = set(signature.input_schema.get("properties", {}))
    required = set(signature.input_schema.get("required", ()))
    variables = set(matcher.variables)
    where = f"the resource {uri!r} at {place_of(function)}"
    if missing := required - variables:
        raise LocalProtocolError(f"{where} needs {', '.join(sorted(missing))}, which the URI does not have as {{variables}}")
    if unused := variables - parameters:
        raise LocalProtocolError(f"the URI of {where} has {', '.join(sorted(unused))}, which the function does not take")
    description = (description if description is not None else signature.description) or None
    shared: dict[str, Any] = {
        "title": title,
        "description": description,
        "mime_type": mime_type,
        "annotations": annotations,
        "icons": None if icons is None else list(icons),
        "meta": None if meta is None else dict(meta),
    }
    caching = Caching(ttl_ms, cache_scope)
    name = name or signature.name
    if variables:
        return TemplateEntry(ResourceTemplate(uri, name, **shared), matcher, signature, function, caching)
    return ResourceEntry(Resource(uri, name, size=size, **shared), signature, function, caching)
