"""URIs that servers put into their results: a link belongs to the server that made it, also if no list has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import DecodeError, Raw, Struct
from msgspec.json import Decoder

# URIs that are remembered, of all servers together; the oldest are forgotten. With the longest one they take at most 10 MB.
_MAX_LINKS: Final = 5_000
_MAX_URI: Final = 2_000
# Bytes of a result that is searched. A larger one is a picture or a file, and not a list of links.
_MAX_RESULT: Final = 1024 * 1024


class Links:
    """The server of each URI that was in a result. The first server that made it keeps it."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}

    def add(self, server: str, result: Raw) -> None:
        """Remember the URIs in the result of a tool, a prompt or a resource."""
        for uri in linked_uris(result):
            if len(uri) <= _MAX_URI and uri not in self._servers:
                self._servers[uri] = server
                if len(self._servers) > _MAX_LINKS:
                    del self._servers[next(iter(self._servers))]

    def server_of(self, uri: str) -> str | None:
        """Return the server that made a URI."""
        return self._servers.get(uri)

    def forget(self, server: str) -> None:
        """Forget the links of a server that was removed."""
        self._servers = {uri: each for uri, each in self._servers.items() if each != server}


class _Resource(Struct):
    uri: str = ""


class _Block(Struct):
    uri: str = ""  # of a link
    resource: _Resource | None = None  # an embedded one


class _Message(Struct):
    content: _Block | list[_Block] | None = None


class _Result(Struct):
    content: list[_Block] = []  # of a tool
    messages: list[_Message] = []  # of a prompt
    contents: list[_Resource] = []  # of a resource, such as a folder


_decode = Decoder(_Result).decode


def linked_uris(result: Raw) -> Iterator[str]:
    """Yield the URIs of links and embedded resources. A result that is malformed has none here."""
    data = memoryview(result)
    if len(data) > _MAX_RESULT or b'"uri"' not in bytes(data):
        return
    try:
        found = _decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return
    blocks = list(found.content)
    for message in found.messages:
        blocks += message.content if isinstance(message.content, list) else [message.content] if message.content else []
    resources = [*(block.resource for block in blocks if block.resource is not None), *found.contents]
    yield from filter(None, (*(block.uri for block in blocks), *(resource.uri for resource in resources)))
