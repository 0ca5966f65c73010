"""Which ``Host`` and ``Origin`` headers a server accepts, and what browsers may read (CORS).

A page of any website can send requests to a server on the user's machine, and by DNS rebinding also under a name of its own. The
browser reports both: ``Host`` is the name that the page used, ``Origin`` the website that the page came from. Programs that are
not browsers send no ``Origin``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from twopipes._http.refusal import Refusal

ANY: Final = "*"
# Accepted combinations of headers that are remembered, so that the usual request costs one lookup.
_MAX_REMEMBERED: Final = 256
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
# Letters whose encoding differs between IDNA 2003, which Python has, and what browsers do.
_AMBIGUOUS: Final = re.compile("[\u00df\u03c2\u200c\u200d]")
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*", re.ASCII)
_PARAM_HEADER: Final = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+", re.ASCII)

# What a page may send. Browsers have no wildcard for a prefix, so each requested Mcp-Param-* header is allowed by its name.
_ALLOWED_HEADERS: Final = (
    "accept, authorization, content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, mcp-session-id"
)
_MAX_PARAM_HEADERS: Final = 100
_EXPOSED_HEADERS: Final = b"mcp-session-id, www-authenticate"
_ALLOWED_METHODS: Final = b"GET, POST, DELETE"
# Seconds for which a browser may remember a preflight; Chromium allows no more.
_MAX_AGE: Final = b"7200"

HeaderList = tuple[tuple[bytes, bytes], ...]


class Authority(NamedTuple):
    """A host in its normal form, and a port if there is one."""

    host: str  # in lower case and ASCII; an IP address without brackets
    port: int | None


class Origin(NamedTuple):
    """The origin of a page in its normal form: the default port of its scheme is left out."""

    scheme: str
    host: str
    port: int | None


def parse_authority(text: str) -> Authority:
    """Parse ``host`` or ``host:port``. Raises ``ValueError`` for anything else, such as user information or a path."""
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")) or "%" in inner:
            raise ValueError(f"not a host: {text!r}")
        return Authority(str(IPv6Address(inner)), _parse_port(rest[1:]) if rest else None)
    host, colon, port = text.partition(":")
    return Authority(_normal_name(host), _parse_port(port) if colon else None)


def parse_origin(text: str) -> Origin:
    """Parse an origin such as ``https://example.com``. Raises ``ValueError`` for anything else, ``null`` included."""
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator or not _SCHEME.fullmatch(scheme):
        raise ValueError(f"not an origin: {text!r}")
    host, port = parse_authority(rest)
    return Origin(scheme, host, None if port == _DEFAULT_PORTS.get(scheme) else port)


def is_loopback(host: str) -> bool:
    """Return whether a host in its normal form is this machine: ``localhost``, 127.0.0.0/8 or ::1."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return _unmapped(address).is_loopback


class AccessList:
    """Decides which ``Host`` and ``Origin`` headers are accepted.

    Loopback names and the address that the client connected to are always valid hosts: no website can use them as its own name.
    Origins on loopback are accepted if the server is reached over loopback under such a name.

    Args:
        hosts: Names under which clients reach the server, with or without a port; ``*.example.com`` for all names below a
            domain; ``*`` for every name.
        origins: The websites whose pages may connect, such as ``https://app.example.com``; ``*`` for all.

    Raises:
        ValueError: An entry is malformed.
    """

    def __init__(self, *, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        listed_hosts, listed_origins = _listed("hosts", hosts), _listed("origins", origins)
        self._any_host, self._any_origin = ANY in listed_hosts, ANY in listed_origins
        self._suffixes = tuple("." + _listed_name(each[2:], each) for each in listed_hosts if each.startswith("*."))
        self._hosts = frozenset(_listed_host(each) for each in listed_hosts if not each.startswith(ANY))
        self._origins = frozenset(_listed_origin(each) for each in listed_origins if each != ANY)
        self._accepted: set[tuple[str | None, str | None, str | None]] = set()

    def check(self, headers: Mapping[str, str], *, local: str | None) -> Refusal | None:
        """Return why a request is refused, or ``None`` if it is accepted.

        Args:
            headers: The request's headers by their names in lower case. Repeated headers are joined, and then refused here.
            local: The address that the client connected to, as in ASGI's ``scope["server"]``; ``None`` if it is unknown.
        """
        host, origin = headers.get("host"), headers.get("origin")
        key = (host, origin, local)
        if key in self._accepted:
            return None
        refusal = self._check_host(host, local) or self._check_origin(host, origin, local)
        if refusal is None:
            if len(self._accepted) >= _MAX_REMEMBERED:
                self._accepted.clear()
            self._accepted.add(key)
        return refusal

    def _check_host(self, host: str | None, local: str | None) -> Refusal | None:
        if self._any_host:
            return None
        if host is None:
            return Refusal(403, "the Host header is missing; send the name of the server in it")
        try:
            name, port = parse_authority(host)
        except ValueError:
            return Refusal(403, "the Host header is malformed; send one host with an optional port")
        if is_loopback(name) or name == _normal_address(local):
            return None
        if (name, None) in self._hosts or (name, port) in self._hosts or name.endswith(self._suffixes):
            return None
        # HT-03: a name that DNS rebinding can use.
        return Refusal(403, f"Host {name!r} is not allowed; if clients use this name, add it to HttpOptions(hosts=...)")

    def _check_origin(self, host: str | None, origin: str | None, local: str | None) -> Refusal | None:
        if origin is None or self._any_origin:
            return None
        try:
            parsed = parse_origin(origin)
        except ValueError:
            return Refusal(403, "this Origin is not allowed; only pages with a name can be in HttpOptions(origins=...)")
        if parsed in self._origins or (_is_loopback_page(parsed) and _is_served_on_loopback(host, local)):
            return None
        # HT-02
        return Refusal(403, f"Origin {_spell(parsed)} is not allowed; if you trust its pages, add it to HttpOptions(origins=...)")


def cors_headers(headers: Mapping[str, str]) -> HeaderList:
    """Return what lets the page of an accepted request read the response; empty if the request comes from no page."""
    origin = headers.get("origin")
    if origin is None:
        return ()
    return (
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", _EXPOSED_HEADERS),
        (b"vary", b"Origin"),
    )


def preflight_headers(headers: Mapping[str, str]) -> HeaderList:
    """Return the headers of the response to OPTIONS, which is 204 without a body, for an accepted request.

    A preflight has no credentials: it is answered before a token is asked for.
    """
    allow = ((b"allow", b"GET, POST, DELETE, OPTIONS"),)
    if "origin" not in headers or "access-control-request-method" not in headers:
        return allow
    requested = headers.get("access-control-request-headers", "").lower()
    params = [each.strip() for each in requested.split(",") if _PARAM_HEADER.fullmatch(each.strip())][:_MAX_PARAM_HEADERS]
    return (
        *allow,
        *cors_headers(headers),
        (b"access-control-allow-methods", _ALLOWED_METHODS),
        (b"access-control-allow-headers", ", ".join([_ALLOWED_HEADERS, *params]).encode("ascii")),
        (b"access-control-max-age", _MAX_AGE),
    )


def _parse_port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 0xFFFF):
        raise ValueError(f"not a port: {text!r}")
    return int(text)


def _normal_name(host: str) -> str:
    """Return a name or an IPv4 address in lower case, in ASCII and without the dot of the root."""
    host = host.lower()
    if not host.isascii():
        if _AMBIGUOUS.search(host):
            raise ValueError(f"not a host: {host!r}; write it in Punycode (xn--...)")
        host = host.encode("idna").decode("ascii")  # UnicodeError is a ValueError
    host = host.removesuffix(".")
    if len(host) > 253 or not _NAME.fullmatch(host):
        raise ValueError(f"not a host: {host!r}")
    return host


def _normal_address(local: str | None) -> str | None:
    """Return the address of a socket as it is in a Host header, or ``None`` if it is not an IP address."""
    try:
        return str(_unmapped(ip_address((local or "").partition("%")[0])))
    except ValueError:
        return None


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the IPv4 address in an IPv6 one that only wraps it, as a socket for both families has."""
    return (isinstance(address, IPv6Address) and address.ipv4_mapped) or address


def _is_loopback_page(origin: Origin) -> bool:
    return origin.scheme in _DEFAULT_PORTS and is_loopback(origin.host)


def _is_served_on_loopback(host: str | None, local: str | None) -> bool:
    """Return whether both the socket and the name are loopback: behind a proxy only the socket is."""
    try:
        name = parse_authority(host or "").host
    except ValueError:
        return False
    return is_loopback(name) and is_loopback(_normal_address(local) or "")


def _spell(origin: Origin) -> str:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    return f"{origin.scheme}://{host}" + (f":{origin.port}" if origin.port is not None else "")


def _listed(option: str, entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries of an option. Raises ``ValueError`` if they are not strings."""
    if isinstance(entries, str):
        raise ValueError(f"HttpOptions.{option} must be a tuple of strings, got {entries!r}; write ({entries!r},)")
    listed = tuple(entries)
    if not all(isinstance(each, str) for each in listed):
        raise ValueError(f"HttpOptions.{option} must be a tuple of strings, got {entries!r}")
    return listed


def _listed_host(entry: str) -> Authority:
    try:
        return parse_authority(entry)
    except ValueError:
        raise ValueError(
            f"HttpOptions.hosts must contain names such as 'mcp.example.com' or 'mcp.example.com:8443', got {entry!r}"
        ) from None


def _listed_name(name: str, entry: str) -> str:
    try:
        return _normal_name(name)
    except ValueError:
        raise ValueError(f"HttpOptions.hosts must contain a domain after '*.', as in '*.example.com', got {entry!r}") from None


def _listed_origin(entry: str) -> Origin:
    if entry == "null":
        raise ValueError("HttpOptions.origins must not contain 'null': every website can open a page that has this origin")
    try:
        return parse_origin(entry)
    except ValueError:
        raise ValueError(
            f"HttpOptions.origins must contain origins such as 'https://app.example.com', without a path, got {entry!r}"
        ) from None
