"""The merged lists of a hub, and which server each name and each URI belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Raw
from msgspec import json as msgspec_json

from twopipes._gateway.hub.links import Links
from twopipes._gateway.hub.listing import adapted
from twopipes._gateway.hub.member import Member
from twopipes._gateway.hub.renamed import RenamedLists
from twopipes._gateway.manifest import LISTS
from twopipes._gateway.translate import decode_members
from twopipes._host.names import NameTable
from twopipes._protocol.base import RawResult
from twopipes._protocol.dialect import Dialect, dialect
from twopipes._protocol.methods import RESULTS
from twopipes._protocol.types import Implementation, Result
from twopipes._protocol.uri_template import TemplateRejected, UriTemplate
from twopipes._server.pagination import page_of
from twopipes._session.subscriptions import ListKind

OWN_URIS: Final = "twopipes://hub/"
"""How the URIs of the hub's own resources begin. No server can offer one."""
_NAMED: Final = ("tools/list", "prompts/list")
_TEMPLATES: Final = "resources/templates/list"
# Schemes that say nothing about the server of a URI.
_COMMON_SCHEMES: Final = frozenset({"", "file", "http", "https", "data", "urn", "ui"})
_MAX_SCHEME: Final = 100


class Catalogue:
    """What all servers of a hub offer. Lists are merged when they are needed, and kept until something changes.

    Args:
        members: The servers, in the order of the user; the hub adds and removes them.
        own: The hub's own items, by list method: a function from a revision to the items by their keys.
        separator: What comes between the name of a server and that of a tool.
        page_size: How many items a page has.

    Attributes:
        tools: The names of tools.
        prompts: The names of prompts.
        hides_tools: Whether the tools of servers are not listed, because the hub's own tools find them.
        links: The URIs in results of servers.
    """

    def __init__(
        self, members: Mapping[str, Member], own: Mapping[str, Any], *, separator: str = "__", page_size: int | None = None
    ) -> None:
        self.tools = NameTable(separator)
        self.prompts = NameTable(separator)
        self.hides_tools = False
        self._renamed = RenamedLists({"tools/list": self.tools, "prompts/list": self.prompts})
        self._members = members
        self._own = own
        self._page_size = page_size
        self.links = Links()
        self._uris: dict[str, Member] = {}
        self._templates: dict[str, tuple[UriTemplate | None, Member]] = {}
        self._schemes: dict[str, dict[str, Member]] = {}  # the servers that use a scheme, by name
        self._collisions: dict[str, str] = {}  # by URI or template: what to report
        self._merged: dict[tuple[str, str], dict[str, Raw]] = {}  # by method and revision
        self._whole: dict[tuple[str, str], RawResult] = {}  # the first pages, likewise

    # Changes

    def add(self, member: Member) -> None:
        """Add a server without lists, so that its prefix does not depend on which server is ready first."""
        self.tools.add_server(member.name)
        self.prompts.add_server(member.name)

    def remove(self, member: Member) -> None:
        """Forget a server."""
        self.tools.remove_server(member.name)
        self.prompts.remove_server(member.name)
        self._renamed.forget(member)
        self.links.forget(member.name)
        self._route()
        self.forget()

    def rearranged(self) -> None:
        """Use another order of the servers."""
        self._route()
        self.forget()

    def update(self, member: Member, method: str) -> None:
        """Use the new list of a server."""
        match method:
            case "tools/list":
                self.tools.replace(member.name, [item.key for item in member.offered(method)])
            case "prompts/list":
                self.prompts.replace(member.name, [item.key for item in member.offered(method)])
            case _:
                self._route()
        self.forget(LISTS[method][1])

    def forget(self, kind: ListKind | None = None) -> None:
        """Merge the lists of this kind again when they are needed; by default all of them."""
        for key in [key for key in self._merged if kind is None or LISTS[key[0]][1] == kind]:
            del self._merged[key]
            self._whole.pop(key, None)

    def problems(self) -> list[str]:
        """Return what collides or looks alike, as sentences."""
        tables = {"tool": self.tools, "prompt": self.prompts}
        found = [f"{kind} names: {problem}" for kind, table in tables.items() for problem in table.problems()]
        return [*dict.fromkeys(found), *self._collisions.values()]

    # Lists

    async def prepare(self, method: str, target: Dialect) -> None:
        """Do the expensive part of :meth:`page` in portions, so that long lists do not block the event loop."""
        is_hidden = method == "tools/list" and self.hides_tools
        if method in _NAMED and not is_hidden and (method, target.revision) not in self._merged:
            for member in list(self._members.values()):
                await self._renamed.prepare(member, method, target)

    def page(self, method: str, target: Dialect, cursor: str | None, server: Implementation) -> RawResult:
        """Return a page of a merged list for a host that speaks ``target``.

        Raises:
            InvalidParams: The cursor does not belong to this list.
        """
        key = (method, target.revision)
        whole = self._whole.get(key) if cursor is None else None
        if whole is not None:
            return whole
        if key not in self._merged:
            self._merged[key] = dict(self._items(method, target))
        items, following = page_of(self._merged[key], cursor, self._page_size, LISTS[method][0])
        kind: Callable[[list[Any]], Result] = RESULTS[method]
        envelope = target.finish(method, kind([]), server_info=server)
        members = decode_members(msgspec_json.encode(envelope)) | {LISTS[method][0]: list(items)}
        if following is not None:
            members["nextCursor"] = following
        result = RawResult(Raw(msgspec_json.encode(members)))
        if cursor is None:
            self._whole[key] = result
        return result

    def tool(self, name: str, target: Dialect) -> Raw | None:
        """Return the definition of a tool of a server by its public name, also if it is not listed."""
        named = self.tools.find(name)
        if named is None:
            return None
        return self._renamed.get(self._members[named.server], "tools/list", target).get(name)

    def _items(self, method: str, target: Dialect) -> Iterator[tuple[str, Raw]]:
        own = {item[0]: item[1] for item in self._own[method](target)}
        yield from own.items()
        if method == "tools/list" and self.hides_tools:
            return
        for member in self._members.values():
            if method in _NAMED:
                items: Iterable[tuple[str, Raw]] = self._renamed.get(member, method, target).items()
            else:
                items = self._located(member, method, target)
            yield from ((key, raw) for key, raw in items if key not in own)

    def _located(self, member: Member, method: str, target: Dialect) -> Iterator[tuple[str, Raw]]:
        """Yield the resources or templates that belong to a server."""
        for key, raw in _adapted(member, method, target):
            owner = self._templates[key][1] if method == _TEMPLATES and key in self._templates else self._uris.get(key)
            if owner is member:
                yield key, raw

    # Routes of URIs

    def owner_of(self, uri: str) -> Member | None:
        """Return the server of a resource; ``None`` if that may be several.

        It is the one that lists it, or has a template for it, or had it in a result, or else the only one whose resources have its
        scheme, or the only one with resources.
        """
        found = self.listed_owner_of(uri) or self._members.get(self.links.server_of(uri) or "")
        if found is not None:
            return found
        candidates = list(self._schemes.get(_scheme_of(uri), {}).values()) or self.with_resources()
        return candidates[0] if len(candidates) == 1 else None

    def listed_owner_of(self, uri: str) -> Member | None:
        """Return the server that lists a resource or has a template for it; a template counts as its own URI."""
        if uri in self._uris:
            return self._uris[uri]
        if uri in self._templates:
            return self._templates[uri][1]
        matching = {
            text: member
            for text, (template, member) in self._templates.items()
            if template is not None and template.match(uri) is not None
        }
        # A template that matches every URI, such as {+uri}, does not take those of other servers.
        specific = (member for text, member in matching.items() if _scheme_of(text))
        return next(specific, next(iter(matching.values()), None))

    def with_resources(self) -> list[Member]:
        """Return the servers that have resources."""
        return [each for each in self._members.values() if each.opened is not None and each.opened.capabilities.allows("resources")]

    def _route(self) -> None:
        """Find out again which URI belongs to whom: the first server that lists it, in the order of the user."""
        self._uris.clear()
        self._templates.clear()
        self._schemes.clear()
        self._collisions.clear()
        for member in self._members.values():
            for uri in (item.key for item in member.offered("resources/list")):
                self._claim(uri, member, self._uris.setdefault(uri, member))
            for text in (item.key for item in member.offered(_TEMPLATES)):
                owner = self._templates.setdefault(text, (_template(text), member))[1]
                self._claim(text, member, owner)

    def _claim(self, uri: str, member: Member, owner: Member) -> None:
        scheme = _scheme_of(uri)
        if scheme not in _COMMON_SCHEMES:
            self._schemes.setdefault(scheme, {})[member.name] = member
        if uri.startswith(OWN_URIS):
            self._collisions[uri] = f"{uri} of {member.name!r} is not offered, because {OWN_URIS} belongs to the hub"
            self._uris.pop(uri, None)
            self._templates.pop(uri, None)
        elif owner is not member:
            self._collisions[uri] = f"{uri} is offered by {owner.name!r} and by {member.name!r}; the one of {owner.name!r} is used"


def _scheme_of(text: str) -> str:
    """Return the scheme of a URI or a template; empty if it has none, or one with a variable."""
    scheme, colon, _ = text[:_MAX_SCHEME].partition(":")
    return scheme.lower() if colon and "{" not in scheme else ""


def _adapted(member: Member, method: str, target: Dialect) -> Iterator[tuple[str, Raw]]:
    if member.opened is not None:
        yield from adapted(method, member.offered(method), dialect(member.opened.revision), target)


def _template(text: str) -> UriTemplate | None:
    try:
        return UriTemplate(text)
    except TemplateRejected:
        return None  # it is listed, and hosts may read what they make of it if no other server has resources
